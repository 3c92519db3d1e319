"""Why something did not arrive: what on its way is missing, too narrow, or drops it.

A suspect is named only for what the kernel says of it now. What cannot be told is not guessed at.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...api.findings import Finding
from ...kernel import KernelError, Namespace
from ...kernel.netlink import nftables
from ...networks.table import TABLE
from ...ops.firewall.flows import around, flows_of, neighbours_of
from ...ops.firewall.judging import findings_of, judge
from ...ops.health.kernel import forwarding_off, mtu_mismatch, table_broken
from ..doctor.legacy import legacy_findings
from .crossing import flows_of_trial
from .elsewhere import elsewhere
from .ends import End, mtu_of
from .failed import Failed
from .forged import ARRIVED
from .host import Way, way_out, way_to
from .path_mtu import NARROW
from .rate import MISSED
from .trial import Trial
from .trials import CLASH, GATEWAY, LEAKS, Scene

UNKNOWN = "no-answer"

_FORWARDING = {"ipv4": "net.ipv4.ip_forward", "ipv6": "net.ipv6.conf.all.forwarding"}
_SHOWN = 3
_PUT_BACK = "a running agent puts back what is missing; `netloom check --repair` does it at once"
_PLUGINS_OWN = "`netloom cni check` asks the network's plugins; delete the container and attach it anew"
_ANYTHING = (
    "`netloom doctor` looks at the node as a whole; `netloom connectivity --keep` leaves the containers"
)


class Cause(NamedTuple):
    code: str
    text: str
    advice: str
    subject: str = ""

    @classmethod
    def of(cls, found: Finding) -> Cause:
        return cls(found.code, found.text, found.next, found.subject)


# What a failure that knows its own name has to say.
_KNOWN = {
    ARRIVED: (
        "nothing stops what a container sends with others' addresses: netloom's table is not in force",
        "`netloom doctor` compares the table with what it should be; a running agent lays it down anew",
    ),
    CLASH: (
        "a container has the address of the host's gateway: the host and its containers reach nothing beyond",
        "`netloom status` names the container: delete it and attach it again; then exclude the host's "
        "network from the pool",
    ),
    LEAKS: (
        "the network keeps containers apart, and nothing stops what one sends to another",
        "`netloom doctor` compares the table with what it should be; a running agent lays it down anew",
    ),
    MISSED: (
        "the queue that limits the container is missing or another's, or the machine is too busy to tell",
        "try again while the machine is quiet; `tc qdisc` shows the queues, `netloom check` compares them",
    ),
}


class Causes:
    """Asks the kernel once for what many failures may share."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._of_node: dict[str, Finding] | None = None

    def of(self, trial: Trial, failed: Failed) -> Cause:
        if failed.code in _KNOWN:
            return Cause(failed.code, *_KNOWN[failed.code])
        suspects: tuple[Callable[[Trial], Iterator[Cause]], ...] = (
            self._narrow if failed.code == NARROW else self._links,
            self._routes_inside,
            self._routes_of_host,
            self._forwarding,
            self._own_table,
            self._foreign_rules,
            self._legacy_rules,
            self._masquerade,
        )
        if failed.code == NARROW:
            suspects = suspects[:1]
        for suspect in suspects:
            try:
                found = next(suspect(trial), None)
            except (KernelError, OSError):
                continue  # one who cannot be asked is no suspect
            if found is not None:
                return found
        if failed.code == NARROW:
            return Cause(NARROW, "a link on the way takes smaller packets than the first", _ANYTHING)
        if failed.errno == errno.ECONNREFUSED and trial.what in ("port", "hairpin"):
            return Cause(UNKNOWN, "nobody leads the host's port to the container", _ANYTHING)
        return Cause(UNKNOWN, "", _ANYTHING)

    # Each gives what it has found, or nothing.

    def _containers(self, trial: Trial) -> list[End]:
        found = [it for it in (trial.sender, trial.receiver) if it is not None and not it.is_host]
        return list({it.name: it for it in found}.values())

    def _advice(self) -> str:
        return _PUT_BACK if self._scene.promises.is_ours else _PLUGINS_OWN

    def _links(self, trial: Trial) -> Iterator[Cause]:
        for it in self._containers(trial):
            if mtu_of(it.namespace, it.ifname) is None:
                yield Cause("object-missing", f"the link {it.ifname} is gone from {it.name}", self._advice())
            elif it.host_link and mtu_of(self._scene.host.namespace, it.host_link) is None:
                yield Cause(
                    "object-missing",
                    f"the host's end of {it.name}'s link, {it.host_link}, is gone",
                    self._advice(),
                )

    def _narrow(self, trial: Trial) -> Iterator[Cause]:
        host = self._scene.host.namespace
        for it in self._containers(trial):
            inside = mtu_of(it.namespace, it.ifname)
            outside = mtu_of(host, it.host_link) if it.host_link else None
            if inside and outside and inside != outside:
                equal = f"ip link set {it.host_link} mtu {inside}"
                if inside < outside:
                    equal = f"ip -n NAMESPACE link set {it.ifname} mtu {outside}"
                yield Cause(
                    NARROW,
                    f"the ends of {it.name}'s link differ: {it.ifname} has an MTU of {inside}, "
                    f"{it.host_link} on the host one of {outside}",
                    f"find who changes the MTU of containers' links; `{equal}` makes them equal",
                )
        if trial.target == GATEWAY and (way := way_out(host, trial.family)):
            outside = mtu_of(host, way.link)
            if outside and outside < trial.sender.mtu:
                yield Cause.of(mtu_mismatch("", way.link, outside, f"containers have {trial.sender.mtu}"))

    def _routes_inside(self, trial: Trial) -> Iterator[Cause]:
        back = self._scene.host.addresses if trial.sender.is_host else trial.sender.addresses
        for it in self._containers(trial):
            target = trial.address if it is trial.sender else back.get(trial.family, "")
            if target and _way_inside(it.namespace, target) is None:
                yield Cause("route-missing", f"{it.name} has no route to {target}", self._advice())

    def _routes_of_host(self, trial: Trial) -> Iterator[Cause]:
        for it in self._containers(trial):
            address = it.addresses[trial.family]
            way = way_to(self._scene.host.namespace, address)
            strays = way is None or way.is_default
            if self._scene.promises.is_ours:
                strays = way is None or way.link != it.host_link
            if strays:
                where = f"packets to it leave by {way.link}" if way else "packets to it are not sent at all"
                yield Cause(
                    "route-missing",
                    f"the host has no route to {it.name} ({address}): {where}",
                    self._advice(),
                )

    def _forwarding(self, trial: Trial) -> Iterator[Cause]:
        if _kind(trial) != "forwarded":
            return
        name = _FORWARDING[trial.family]
        with open(f"/proc/sys/{name.replace('.', '/')}") as file:
            if file.read().strip() == "0":
                yield Cause.of(forwarding_off(name))

    def _own_table(self, trial: Trial) -> Iterator[Cause]:
        if not self._scene.promises.is_ours or trial.what not in ("port", "hairpin"):
            return
        connection = self._scene.host.namespace.netfilter
        if nftables.read_table(connection, TABLE.family, TABLE.name) is None:
            yield Cause.of(table_broken(["it is gone, and host ports with it"]))

    def _foreign_rules(self, trial: Trial) -> Iterator[Cause]:
        """Chains that drop it for sure; if there are none, those that may. In the words of `doctor`."""
        scene = self._scene
        host = scene.host.namespace
        flows = flows_of_trial(trial, scene.host, is_ours=scene.promises.is_ours)
        if trial.receiver is None:
            needed = neighbours_of(around(host, scene.pools, has_ports=False))
            flows += [it for it in needed if f"ipv{it.family}" == trial.family]
        stopped = judge(host, flows)
        sure = [it for it in stopped if it.outcome != "may drop"]
        found = [self._known().get(it.base.subject, it.finding) for it in (sure or stopped)[:_SHOWN]]
        if found:
            yield Cause(
                found[0].code,
                "; ".join(it.text for it in found),
                "; then ".join(dict.fromkeys(it.next for it in found)),
                found[0].subject,
            )

    def _known(self) -> dict[str, Finding]:
        """What `doctor` finds on this node, by chain."""
        if self._of_node is None:
            self._of_node = {}
            if self._scene.promises.is_ours:
                host = self._scene.host.namespace
                flows = flows_of(around(host, self._scene.pools, has_ports=False))
                self._of_node = {it.subject: it for it in findings_of(host, flows)}
        return self._of_node

    def _legacy_rules(self, trial: Trial) -> Iterator[Cause]:
        """Rules that were judged, and do not drop it as far as that can be told."""
        program = "iptables-legacy" if trial.family == "ipv4" else "ip6tables-legacy"
        for it in legacy_findings():
            if it.subject == program:
                yield Cause(it.code, it.text, it.next, it.subject)

    def _masquerade(self, trial: Trial) -> Iterator[Cause]:
        if trial.target == GATEWAY and not self._scene.promises.masquerades:
            yield Cause(
                "no-masquerade",
                "the network does not masquerade, and the gateway may know no way back to containers",
                "`netloom up --masquerade`, or `ipMasq` in the network's file; or a route on the gateway",
            )


def _kind(trial: Trial) -> str:
    receives = trial.receiver
    between = receives is not None and not receives.is_host and not trial.sender.is_host
    return "forwarded" if between or trial.target == GATEWAY else "to the host"


def _way_inside(namespace: Namespace, target: str) -> Way | None:
    def ask() -> Way | None:
        with Namespace.own() as here:
            return way_to(here, target)

    return elsewhere(namespace, ask)
