"""Random plans on a random ground: what a plan makes is all there, once, and goes without a trace.

The judge is not our own code but `ip`, `bridge`, `tc` and `nft`, which tell how both namespaces look.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from netloom.kernel import (
    Address,
    AnyObject,
    Bridge,
    BridgePort,
    Conflict,
    Forwarding,
    Hop,
    Ifb,
    Ingress,
    InvalidObject,
    KernelError,
    Macvlan,
    Namespace,
    Neighbour,
    NftChain,
    NftElement,
    NftTable,
    Plan,
    Redirect,
    Route,
    Rule,
    Scope,
    Shaper,
    Sysctl,
    Tap,
    Up,
    Veth,
    Vxlan,
    apply,
    check,
    remove,
)
from netloom.kernel.netlink import rule as wire
from netloom.kernel.netlink.message import CREATE
from netloom.kernel.objects import Where

pytestmark = pytest.mark.kernel

T = TypeVar("T")

STEADY = settings(
    derandomize=True,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

QUIET = """
for place in all default; do
  echo 0 > /proc/sys/net/ipv6/conf/$place/accept_dad
  echo 0 > /proc/sys/net/ipv6/conf/$place/accept_ra
done
"""

# What somebody else has there: names with an f.
FOREIGN = """
ip -batch - <<'END'
link set lo up
link add f0 mtu 1450 address 02:f0:00:00:00:01 type veth peer name f1 address 02:f0:00:00:00:02
link add f2 address 02:f0:00:00:00:03 type veth peer name f3 address 02:f0:00:00:00:04
link add fbr address 02:f0:00:00:00:05 type bridge
link add ftaken address 02:f0:00:00:00:06 type bridge
link set f0 up
link set f1 up
link set f2 up
link set f2 down
link set f3 up
link set f3 down
link set fbr up
link set ftaken up
link set ftaken down
addr add 10.1.0.1/16 dev f0
addr add fd01::1/64 dev f0 nodad
addr add 10.1.0.2/32 dev f1
route add 10.2.0.0/16 via 10.1.0.9 dev f0 proto static
route add 10.3.0.0/16 dev f1 metric 7
route add blackhole 10.4.0.0/16
route add 10.5.0.0/16 dev f0 table 1000
route add fd02::/64 via fd01::9 dev f0
route add fd03::/64 dev f1 metric 7
rule add from 10.0.0.0/8 lookup 1000 pref 4000
rule add iif f0 lookup 1001 pref 4001
neigh add 10.1.0.77 lladdr 02:f0:00:00:00:77 dev f0 nud permanent
neigh add fd01::77 lladdr 02:f0:00:00:00:77 dev f0 nud permanent
neigh add proxy 10.1.0.78 dev f0
END
ip -6 -batch - <<'END'
rule add from fd00::/8 lookup 1000 pref 4000
END
tc qdisc add dev f1 root tbf rate 1mbit burst 32kb limit 100kb
tc qdisc add dev f1 clsact
tc filter add dev f1 ingress pref 9 protocol all u32 match u32 0 0 action mirred egress redirect dev f3
nft -f - <<'END'
table inet foreign {
  map m { type ipv4_addr : ipv4_addr; elements = { 10.0.0.1 : 10.0.0.2 } }
  chain c { type filter hook forward priority 0; policy accept; ip saddr 10.1.0.0/16 counter accept
  }
}
END
"""
FOREIGN_LINKS = ("lo", "f0", "f1", "f2", "f3", "fbr", "ftaken")

LISTING = """
ip -o -batch - <<'END'
link show
addr show
route show table all
rule show
neigh show nud permanent
neigh show proxy
END
ip -6 rule show
bridge -d -batch - <<'END'
fdb show
link show
END
tc -force -batch - 2> /dev/null <<'END'
qdisc show
{filters}
END
nft -s list ruleset
cd /proc/sys/net
grep -H . ipv4/ip_forward ipv4/conf/all/rp_filter ipv4/conf/default/proxy_arp ipv6/conf/all/forwarding
"""
# What the kernel settles in its own time: carriers, the routes that wait for them, ages.
_UNSETTLED = re.compile(
    r"NO-CARRIER,|,LOWER_UP|,M-DOWN|\bstate \w+|\bqdisc \w+ (?=state|master)"
    r"|\b(?:linkdown|dead|tentative|offload|stale)\b"
    r"|expires \d+sec|\[\w+\]|packets \d+ bytes \d+"
)
# What the kernel adds by itself: once a link has a carrier, or a moment after an IPv6 address is there;
# what a bridge has learned; and who listens to which group.
_OWN = re.compile(
    r"^(?:33:33|01:00:5e|01:80:c2|multicast ff00::/8|anycast |qdisc \w+ 0: )|\bfe80::"
    r"|^local \S+ dev \S+ table local proto kernel metric 0 pref"
    r"|^(?:[0-9a-f]{2}:){5}[0-9a-f]{2} dev (?!.*\b(?:permanent|static)\b)"
)


@dataclass
class Ground:
    """Two namespaces, and how they looked before any plan."""

    foreign: bool
    host: Namespace
    attachment: Namespace
    before: list[str] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        return Scope(self.host, self.attachment)

    def listing(self, plan: Plan | None = None) -> list[str]:
        """Everything, a line for each thing, with the same text for the same thing."""
        made = [name for item in (plan.objects if plan else ()) for _, name in item.makes()]
        filters = "\n".join(f"filter show dev {name} ingress" for name in (*FOREIGN_LINKS, *made))
        script = LISTING.format(filters=filters)
        running = [self._start(script, namespace) for namespace in (self.host, self.attachment)]
        lines: list[str] = []
        for where, process in zip(("host", "attachment"), running, strict=True):
            said, complaint = process.communicate()
            assert not complaint, complaint
            lines += [
                f"{where}: {' '.join(_UNSETTLED.sub('', line).split())}"
                for line in said.splitlines()
                if not _OWN.search(line.strip())
            ]
        return lines

    @staticmethod
    def _start(script: str, namespace: Namespace) -> subprocess.Popen[str]:
        with namespace.entered():
            return subprocess.Popen(
                ["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )


class Grounds:
    """One ground of each sort, which serves all plans: each has to leave it as it was."""

    def __init__(self) -> None:
        self._grounds: dict[bool, Ground] = {}

    def get(self, foreign: bool) -> Ground:
        if foreign not in self._grounds:
            self._grounds[foreign] = self._make(foreign)
        return self._grounds[foreign]

    @contextmanager
    def trial(self, foreign: bool) -> Iterator[Ground]:
        """After one that failed, and may have left something, the next one gets a ground of its own."""
        ground = self.get(foreign)
        try:
            yield ground
        except BaseException:
            self.renew(ground)
            raise

    def renew(self, ground: Ground) -> None:
        ground.host.close()
        ground.attachment.close()
        del self._grounds[ground.foreign]

    def close(self) -> None:
        for ground in list(self._grounds.values()):
            self.renew(ground)

    @staticmethod
    def _make(foreign: bool) -> Ground:
        ground = Ground(foreign, Namespace.new("the host"), Namespace.new("the attachment"))
        for namespace in (ground.host, ground.attachment):
            with namespace.entered():
                script = QUIET + (FOREIGN if foreign else "ip link set lo up")
                subprocess.run(["sh", "-e", "-c", script], check=True)
        ground.before = ground.listing()
        return ground


@pytest.fixture(scope="module")
def grounds() -> Iterator[Grounds]:
    made = Grounds()
    yield made
    made.close()


def require_same(before: list[str], after: list[str], what: str) -> None:
    lost = [line for line in before if line not in after]
    extra = [line for line in after if line not in before]
    assert (lost, extra) == ([], []), what
    assert sorted(before) == sorted(after), what


# --- plans -------------------------------------------------------------------------------------------


@dataclass
class Thing:
    """A link that a plan's next object can refer to."""

    on: Where
    name: str
    kind: str
    up: bool = False
    port: bool = False
    parent: bool = False
    hook: bool = False
    foreign: bool = False


class Builder:
    """Draws one object after the other, each with what there is at its place in the plan."""

    def __init__(self, draw: st.DrawFn, foreign: bool) -> None:
        self.draw = draw
        self.objects: list[AnyObject] = []
        self.links: list[Thing] = []
        self.tables: list[tuple[Where, Literal["inet", "ip"], str]] = []
        self.chains: list[NftChain] = []
        self.number = 0
        for where in PLACES:
            self.links.append(Thing(where, "lo", "lo", up=True, foreign=True))
            if foreign:
                self.links += [
                    Thing(where, "f0", "veth", up=True, foreign=True),
                    Thing(where, "f1", "veth", up=True, hook=True, foreign=True),
                    Thing(where, "f2", "veth", foreign=True),
                    Thing(where, "fbr", "bridge", up=True, foreign=True),
                ]

    def maybe(self, strategy: st.SearchStrategy[T]) -> T | None:
        return self.draw(st.one_of(st.none(), strategy))

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def where(self) -> Where:
        return self.draw(WHERES)

    def pick(self, fits: Callable[[Thing], bool]) -> Thing | None:
        fitting = [thing for thing in self.links if fits(thing)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def add(self, item: AnyObject, *links: Thing) -> None:
        self.objects.append(item)
        self.links += links

    # Links.

    def veth(self) -> None:
        on, peer_on = self.where(), self.where()
        name, peer = self.fresh("nl"), self.fresh("eth")
        item = Veth(
            name,
            peer,
            on=on,
            peer_on=peer_on,
            mac=self.maybe(MACS),
            peer_mac=self.maybe(MACS),
            mtu=self.maybe(MTUS),
            txqlen=self.maybe(st.integers(0, 5000)),
        )
        self.add(item, Thing(on, name, "veth"), Thing(peer_on, peer, "veth"))

    def bridge(self) -> None:
        on, name = self.where(), self.fresh("br")
        item = Bridge(
            name,
            on=on,
            mac=self.draw(MACS),
            mtu=self.maybe(MTUS),
            stp=self.maybe(st.booleans()),
            multicast_snooping=self.maybe(st.booleans()),
            ageing=self.maybe(st.integers(0, 1000)),
        )
        self.add(item, Thing(on, name, "bridge"))

    def ifb(self) -> None:
        on, name = self.where(), self.fresh("ib")
        self.add(Ifb(name, on=on, mac=self.maybe(MACS), mtu=self.maybe(MTUS)), Thing(on, name, "ifb"))

    def tap(self) -> None:
        on, name = self.where(), self.fresh("tap")
        item = Tap(
            name,
            on=on,
            mac=self.maybe(MACS),
            mtu=self.maybe(MTUS),
            multi_queue=self.draw(st.booleans()),
            vnet_hdr=self.draw(st.booleans()),
            owner=self.maybe(st.integers(0, 70000)),
            group=self.maybe(st.integers(0, 70000)),
        )
        self.add(item, Thing(on, name, "tap"))

    def vxlan(self) -> None:
        on, name = self.where(), self.fresh("vx")
        device = self.pick(lambda one: one.on == on and one.kind == "veth")
        item = Vxlan(
            name,
            self.number,
            on=on,
            mac=self.maybe(MACS),
            local=self.maybe(st.sampled_from(["127.0.0.1", "10.9.9.9", "fd09::9"])),
            port=self.draw(st.sampled_from([4789, 8472, 20000 + self.number])),
            learning=self.draw(st.booleans()),
            device=device.name if device and self.draw(st.booleans()) else None,
        )
        self.add(item, Thing(on, name, "vxlan"))

    def macvlan(self) -> None:
        parent = self.pick(lambda one: one.kind in ("veth", "bridge", "tap") and not one.port)
        if parent is None:
            return
        name = self.fresh("mv")
        mode = self.draw(st.sampled_from(MACVLAN_MODES))
        item = Macvlan(name, parent.name, on=parent.on, mode=mode, mac=self.maybe(MACS))
        parent.parent = True
        self.add(item, Thing(parent.on, name, "macvlan"))

    def up(self) -> None:
        thing = self.pick(lambda one: not one.up)
        if thing is not None:
            thing.up = True
            self.add(Up(thing.name, on=thing.on))

    def up_and_staying(self) -> None:
        thing = self.pick(lambda one: one.foreign and one.up)
        if thing is not None:
            self.add(Up(thing.name, on=thing.on, stay=True))

    def port(self) -> None:
        # Never both ends of a veth, nor one whose packets are sent elsewhere: they would go round for ever.
        thing = self.pick(
            lambda one: (
                one.kind in ("veth", "tap", "vxlan")
                and not (one.port or one.parent or one.hook or one.name.startswith("eth"))
            )
        )
        if thing is None:
            return
        bridge = self.pick(lambda one: one.kind == "bridge" and one.on == thing.on)
        if bridge is None:
            return
        thing.port = True
        flags = {name: self.maybe(st.booleans()) for name in ("hairpin", "isolated", "learning", "flood")}
        self.add(BridgePort(thing.name, bridge.name, on=thing.on, **flags))

    # What is on them.

    def address(self) -> None:
        thing = self.pick(lambda one: one.kind != "lo")
        if thing is not None:
            text = self.draw(st.one_of(ADDRESSES4, ADDRESSES6))
            self.add(Address(thing.name, text, on=thing.on, prefix_route=self.draw(st.booleans())))

    def route(self) -> None:
        thing = self.pick(lambda one: one.up and not one.port)
        if thing is None:
            return
        destination, gateway = self.draw(
            st.sampled_from([(NETWORKS4, GATEWAYS4), (NETWORKS6, GATEWAYS6), (NETWORKS4, GATEWAYS6)])
        )
        via = self.maybe(gateway) if thing.kind != "lo" else None
        self.add(
            Route(
                self.draw(destination),
                on=thing.on,
                link=thing.name,
                via=via,
                onlink=via is not None,
                table=self.draw(TABLES),
                metric=self.draw(METRICS),
                mtu=self.maybe(st.integers(1280, 9000)),
                advmss=self.maybe(st.integers(500, 9000)),
            )
        )

    def route_to_nowhere(self) -> None:
        self.add(
            Route(
                self.draw(st.one_of(NETWORKS4, NETWORKS6)),
                on=self.where(),
                table=self.draw(TABLES),
                metric=self.draw(METRICS),
                kind=self.draw(st.sampled_from(NOWHERE)),
            )
        )

    def route_to_here(self) -> None:
        thing = self.pick(lambda one: one.up and not one.port)
        if thing is not None:
            self.add(
                Route(
                    self.draw(st.one_of(NETWORKS4, NETWORKS6)),
                    on=thing.on,
                    link=thing.name,
                    kind="local",
                    table=self.draw(TABLES),
                )
            )

    def route_of_many(self) -> None:
        on = self.where()
        ways = [one for one in self.links if one.on == on and one.up and not one.port and one.kind != "lo"]
        if len(ways) < 2:
            return
        chosen = self.draw(st.lists(st.sampled_from(ways), min_size=2, max_size=4, unique_by=id))
        destination, gateway = self.draw(st.sampled_from([(NETWORKS4, GATEWAYS4), (NETWORKS6, GATEWAYS6)]))
        hops = tuple(
            Hop(one.name, self.draw(gateway), weight=self.draw(st.integers(1, 256)), onlink=True)
            for one in chosen
        )
        self.add(Route(self.draw(destination), on=on, hops=hops, metric=self.draw(METRICS)))

    def rule(self) -> None:
        family = self.draw(st.sampled_from(FAMILIES))
        networks = NETWORKS4 if family == "ipv4" else NETWORKS6
        action = self.draw(st.sampled_from(ACTIONS))
        mark = self.maybe(st.integers(0, 0xFFFFFFFF))
        self.add(
            Rule(
                self.draw(st.sampled_from([1, 100, 100, 4000, 4001, 32765])),
                family,
                on=self.where(),
                table=self.draw(TABLES) if action == "lookup" else None,
                action=action,
                source=self.maybe(networks),
                destination=self.maybe(networks),
                iif=self.maybe(st.sampled_from(["f0", "nl1", "nobody"])),
                oif=self.maybe(st.sampled_from(["f0", "nl1", "nobody"])),
                mark=mark,
                mask=None if mark is None else self.maybe(st.integers(1, 0xFFFFFFFF)),
                invert=self.draw(st.booleans()),
                suppress_prefix=self.maybe(st.integers(0, 32)) if action == "lookup" else None,
            )
        )

    def neighbour(self) -> None:
        thing = self.pick(lambda one: one.kind not in ("lo", "ifb"))
        if thing is not None:
            address = self.draw(st.one_of(GATEWAYS4, GATEWAYS6))
            self.add(Neighbour(thing.name, address, on=thing.on, mac=self.maybe(MACS)))

    def forwarding(self) -> None:
        thing = self.pick(lambda one: one.kind == "vxlan" or (one.port and one.kind != "vxlan"))
        if thing is None:
            return
        if thing.kind == "vxlan":
            mac = self.draw(st.one_of(FAR_MACS, st.just("00:00:00:00:00:00")))
            self.add(Forwarding(thing.name, mac, on=thing.on, via=self.draw(GATEWAYS4)))
        else:
            self.add(Forwarding(thing.name, self.draw(FAR_MACS), on=thing.on))

    # Traffic.

    def ingress(self) -> None:
        thing = self.pick(lambda one: not one.hook and not one.port and one.kind != "lo")
        if thing is not None:
            thing.hook = True
            kind = self.draw(st.sampled_from(HOOKS))
            self.add(Ingress(thing.name, kind, on=thing.on))

    def redirect(self) -> None:
        thing = self.pick(lambda one: one.hook)
        if thing is None:
            return
        target = self.pick(lambda one: one.on == thing.on and one is not thing and one.kind in ("ifb", "tap"))
        if target is not None:
            priority = self.draw(st.integers(10, 60000))
            self.add(Redirect(thing.name, target.name, on=thing.on, priority=priority))

    def shaper(self) -> None:
        thing = self.pick(lambda one: one.name not in ("lo", "f1"))
        if thing is not None:
            rate = self.draw(st.integers(1_000, 20_000_000_000))
            burst = self.draw(st.integers(2_000, 200_000))
            limit = self.draw(st.integers(10_000, 10_000_000))
            self.add(Shaper(thing.name, rate, burst, limit, on=thing.on))

    # Settings and the firewall.

    def sysctl(self) -> None:
        key, value, otherwise = self.draw(st.sampled_from(SETTINGS))
        self.add(Sysctl(key, value, on=self.where(), otherwise=otherwise))

    def sysctl_of_a_link(self) -> None:
        thing = self.pick(lambda one: not one.foreign)
        if thing is not None:
            key, value = self.draw(
                st.sampled_from([("ipv4/conf/{}/rp_filter", "2"), ("ipv6/conf/{}/accept_ra", "0")])
            )
            self.add(Sysctl(f"net/{key.format(thing.name)}", value, on=thing.on))

    def table(self) -> None:
        on, name = self.where(), self.fresh("t")
        family, body = self.draw(st.sampled_from(BODIES))
        self.tables.append((on, family, name))
        self.add(NftTable(family, name, body, on=on, beside=("k-",)))

    def chain(self) -> None:
        """One that many lead to is there as often as it is wanted, and once."""
        if not self.tables:
            return
        on, of, table = self.draw(st.sampled_from(self.tables))
        members = self.draw(st.booleans())
        name = "k-members" if members else f"k-{self.draw(st.integers(1, 2))}"
        rules = (f"iifname @{name} accept", "jump y") if members else (f"meta mark {name[2:]} accept", "drop")
        chain = NftChain(of, table, name, rules, members="ifname" if members else "", on=on)
        self.chains.append(chain)
        self.add(chain)

    def element_to_a_chain(self) -> None:
        if not self.chains:
            return
        chain = self.draw(st.sampled_from(self.chains))
        name = self.draw(IFNAMES)
        of, table, on = chain.family, chain.table, chain.on
        self.add(NftElement(of, table, "c", (name,), verdict=f"goto {chain.name}", on=on))
        if chain.members:
            self.add(NftElement(of, table, chain.name, (name,), on=on))

    def element(self) -> None:
        if not self.tables:
            return
        on, of, table = self.draw(st.sampled_from(self.tables))
        port = str(self.draw(st.integers(1, 65535)))
        addresses = GATEWAYS4
        kind = self.draw(st.sampled_from(["a", "b", "c"]))
        if kind == "a":
            key = (self.draw(addresses), self.draw(st.sampled_from(["nl1", "eth2", "x"])))
            self.add(NftElement(of, table, "a", key, on=on))
        elif kind == "b":
            key3 = (self.draw(st.sampled_from(["tcp", "udp"])), self.draw(addresses), port)
            self.add(NftElement(of, table, "b", key3, (self.draw(addresses), port), on=on))
        else:
            verdict = self.draw(st.sampled_from(["accept", "drop", "jump y"]))
            self.add(NftElement(of, table, "c", (self.draw(IFNAMES),), verdict=verdict, on=on))


BUILDERS: tuple[Callable[[Builder], None], ...] = (
    Builder.veth, Builder.veth, Builder.veth, Builder.bridge, Builder.ifb, Builder.tap, Builder.vxlan,
    Builder.macvlan, Builder.up, Builder.up, Builder.up, Builder.up, Builder.up_and_staying, Builder.port,
    Builder.port, Builder.address, Builder.address, Builder.route, Builder.route, Builder.route,
    Builder.route_to_nowhere, Builder.route_to_here, Builder.route_of_many, Builder.rule, Builder.rule,
    Builder.neighbour, Builder.neighbour, Builder.forwarding, Builder.forwarding, Builder.ingress,
    Builder.redirect, Builder.shaper, Builder.sysctl, Builder.sysctl_of_a_link, Builder.table,
    Builder.element, Builder.element, Builder.chain, Builder.chain, Builder.element_to_a_chain,
)  # fmt: skip

PLACES: tuple[Where, ...] = ("host", "attachment")
WHERES = st.sampled_from(PLACES)
MACS = st.binary(min_size=4, max_size=4).map(lambda data: f"02:01:{data.hex(':')}")
# A bridge forgets where a MAC is once one of its own ports has it.
FAR_MACS = st.binary(min_size=4, max_size=4).map(lambda data: f"02:02:{data.hex(':')}")
MTUS = st.integers(1280, 9000)
TABLES = st.sampled_from([254, 254, 100, 1000, 0x7FFFFFFF])
METRICS = st.sampled_from([0, 0, 5, 1024, 70000])
IFNAMES = st.from_regex(r"[a-z]{1,12}", fullmatch=True)
MACVLAN_MODES: tuple[Literal["private", "vepa", "bridge"], ...] = ("private", "vepa", "bridge")
NOWHERE: tuple[Literal["blackhole", "unreachable", "prohibit"], ...] = (
    "blackhole",
    "unreachable",
    "prohibit",
)
ACTIONS: tuple[Literal["lookup", "blackhole", "unreachable", "prohibit"], ...] = (
    "lookup", "lookup", "blackhole", "unreachable", "prohibit",
)  # fmt: skip
FAMILIES: tuple[Literal["ipv4", "ipv6"], ...] = ("ipv4", "ipv6")
HOOKS: tuple[Literal["ingress", "clsact"], ...] = ("ingress", "clsact")
SETTINGS = (
    ("net/ipv4/ip_forward", "1", "0"),
    ("net/ipv4/conf/all/rp_filter", "2", "0"),
    ("net/ipv4/conf/default/proxy_arp", "1", "0"),
    ("net/ipv6/conf/all/forwarding", "1", "0"),
)
_SETS = """
set a { type ipv4_addr . ifname; }
map b { type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service; }
map c { type ifname : verdict; }
chain y { counter accept
}
"""
BODIES: tuple[tuple[Literal["inet", "ip"], str], ...] = (
    ("inet", _SETS),
    ("ip", _SETS),
    ("inet", _SETS + "chain x { type filter hook forward priority 0; policy accept; iifname vmap @c\n}\n"),
)


def networks(size: int, stem: bytes) -> st.SearchStrategy[str]:
    """Some that are often the same, so that routes meet."""

    def shown(drawn: tuple[int, int]) -> str:
        import ipaddress

        number, prefix = drawn
        packed = stem + number.to_bytes(size - len(stem), "big")
        return str(ipaddress.ip_network((packed, prefix), strict=False))

    bits = 8 * size
    some = st.integers(0, (1 << (bits - 8 * len(stem))) - 1)
    few = st.integers(0, 3).map(lambda number: number << (bits - 8 * len(stem) - 8))
    prefixes = st.sampled_from([8 * len(stem) + 8, bits, bits - 3, 8 * len(stem) + 1])
    return st.tuples(st.one_of(few, some), prefixes).map(shown)


NETWORKS4 = networks(4, bytes([10, 70]))
NETWORKS6 = networks(16, bytes.fromhex("fd70"))
GATEWAYS4 = st.integers(1, 250).map(lambda number: f"10.71.0.{number}")
GATEWAYS6 = st.integers(1, 250).map(lambda number: f"fd71::{number:x}")
ADDRESSES4 = st.tuples(st.integers(0, 3), st.integers(1, 250), st.sampled_from([16, 24, 30, 32])).map(
    lambda drawn: f"10.72.{drawn[0]}.{drawn[1]}/{drawn[2]}"
)
ADDRESSES6 = st.tuples(st.integers(0, 3), st.integers(1, 250), st.sampled_from([48, 64, 128])).map(
    lambda drawn: f"fd72:0:0:{drawn[0]}::{drawn[1]:x}/{drawn[2]}"
)


@st.composite
def plans(draw: st.DrawFn, foreign: bool) -> Plan:
    builder = Builder(draw, foreign)
    for build in draw(st.lists(st.sampled_from(BUILDERS), min_size=3, max_size=24)):
        build(builder)
    return Plan(tuple(builder.objects))


@st.composite
def ground_and_plan(draw: st.DrawFn) -> tuple[bool, Plan]:
    foreign = draw(st.booleans())
    return foreign, draw(plans(foreign))


def test_a_plan_is_all_there_once_and_goes_without_a_trace(grounds: Grounds) -> None:
    tally: Counter[str] = Counter()

    @settings(STEADY, max_examples=160)
    @given(drawn=ground_and_plan())
    def holds(drawn: tuple[bool, Plan]) -> None:
        foreign, plan = drawn
        with grounds.trial(foreign) as ground:
            if not is_applied(plan, ground):
                tally["refused"] += 1
                return
            tally["applied"] += 1
            once = ground.listing(plan)
            assert [str(found) for found in check(plan, ground.scope)] == []
            assert {change.change for change in apply(plan, ground.scope)} <= {"kept"}
            require_same(once, ground.listing(plan), "a second apply changes something")
            remove(plan, ground.scope)
            require_same(ground.before, ground.listing(), "after removal")
            remove(plan, ground.scope)

    holds()
    # Plans that the kernel refuses would prove little about those that it takes.
    assert tally["applied"] > 3 * tally["refused"]


def is_applied(plan: Plan, ground: Ground) -> bool:
    """Whether the kernel took it. If not, all has to be as it was."""
    try:
        apply(plan, ground.scope)
    except KernelError as refused:
        require_same(ground.before, ground.listing(), f"after a refusal: {refused}")
        assert not getattr(refused, "__notes__", []), refused
        return False
    return True


# What the kernel, or what is there already, does not let anybody make.
IMPOSSIBLE: tuple[AnyObject, ...] = (
    Address("nobody", "10.99.0.1/24"),
    Address("nobody", "fd99::1/64", on="attachment"),
    Up("nobody"),
    Route("10.99.0.0/24", via="10.98.0.1"),
    Route("fd99::/64", link="nobody"),
    Neighbour("nobody", "10.99.0.1", mac="02:00:00:00:00:01"),
    Forwarding("nobody", "02:00:00:00:00:01", via="10.99.0.1"),
    BridgePort("lo", "nobody"),
    BridgePort("lo", "lo"),
    Macvlan("no1", "nobody"),
    Veth("no2", "lo"),
    Bridge("lo"),
    Tap("lo"),
    Bridge("no3", mtu=65536),
    Ifb("no4", mac="00:00:00:00:00:00"),
    Ingress("nobody"),
    Redirect("lo", "lo"),
    Shaper("nobody", 1000, 10000, 10000),
    Sysctl("net/ipv4/nothing_of_the_sort", "1"),
    Sysctl("net/ipv4/ip_default_ttl", "1000"),
    NftTable("inet", "no5", "chain x { no such statement\n}"),
    NftElement("inet", "nobody", "s", ("10.0.0.1",)),
    NftChain("inet", "nobody", "no6", ("accept",)),
    NftChain("inet", "nobody", "no7", ("no such statement",)),
)
# What is in the way on foreign ground, and is not as wanted.
TAKEN: tuple[AnyObject, ...] = (
    Ifb("ftaken"),
    Bridge("ftaken", mac="02:00:00:00:00:01"),
    Veth("no6", "ftaken"),
    Veth("ftaken", "no7"),
    Address("f0", "fd01::1/80"),
    Route("10.4.0.0/16", link="f0"),
    Route("10.3.0.0/16", link="f0", metric=7),
    Route("fd03::/64", link="f0", metric=7, on="attachment"),
    Neighbour("f0", "10.1.0.77", mac="02:00:00:00:00:01"),
    Neighbour("f0", "fd01::77", mac="02:00:00:00:00:01", on="attachment"),
    Ingress("f1", "ingress"),
    Redirect("f1", "f0", priority=9),
    Shaper("f1", 1000, 10000, 10000),
    NftTable("inet", "foreign", "set s { type ipv4_addr; }"),
    NftElement("inet", "foreign", "m", ("10.0.0.1",), ("10.0.0.3",)),
    NftChain("inet", "foreign", "foreign", ("accept",)),
)


@st.composite
def plan_that_fails(draw: st.DrawFn) -> tuple[bool, Plan]:
    foreign, plan = draw(ground_and_plan())
    stone = draw(st.sampled_from(IMPOSSIBLE + TAKEN if foreign else IMPOSSIBLE))
    position = draw(st.integers(0, len(plan.objects)))
    return foreign, Plan((*plan.objects[:position], stone, *plan.objects[position:]))


@settings(STEADY, max_examples=160)
@given(drawn=plan_that_fails())
def test_a_plan_that_fails_at_any_object_leaves_everything_as_it_was(
    grounds: Grounds, drawn: tuple[bool, Plan]
) -> None:
    foreign, plan = drawn
    with grounds.trial(foreign) as ground:
        with pytest.raises(KernelError) as caught:
            apply(plan, ground.scope)
        assert not getattr(caught.value, "__notes__", [])
        require_same(ground.before, ground.listing(), f"after {caught.value}")


@pytest.mark.parametrize("stone", IMPOSSIBLE, ids=lambda item: str(item.label))
def test_what_the_kernel_refuses_is_refused_with_a_word_about_it(grounds: Grounds, stone: AnyObject) -> None:
    """So that the property above fails where it should: at the object, which the error names."""
    with pytest.raises(KernelError, match=re.escape(name_in(stone))):
        apply(Plan((stone,)), grounds.get(False).scope)


@pytest.mark.parametrize("stone", TAKEN, ids=lambda item: str(item.label))
def test_what_is_in_the_way_is_a_conflict_and_stays(grounds: Grounds, stone: AnyObject) -> None:
    ground = grounds.get(True)
    with pytest.raises(Conflict, match=re.escape(name_in(stone))):
        apply(Plan((stone,)), ground.scope)
    require_same(ground.before, ground.listing(), "after a conflict")


def name_in(item: AnyObject) -> str:
    """The name that stands in every error about an object: its link's, its table's or its key."""
    for attribute in ("destination", "link", "name", "table", "key"):
        found = getattr(item, attribute, None)
        if isinstance(found, str):
            return found
    raise AssertionError(f"{item} has no name")


# --- what random plans have found, each as small as it gets -----------------------------------------


@pytest.fixture
def scope() -> Iterator[Scope]:
    with Namespace.new("the host") as host, Namespace.new("the attachment") as attachment:
        run_in(host, "ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up")
        yield Scope(host, attachment)


def run_in(namespace: Namespace, script: str) -> str:
    with namespace.entered():
        return subprocess.run(["sh", "-e", "-c", script], check=True, capture_output=True, text=True).stdout


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("address", ["10.0.0.9", "fd00::9"])
def test_a_proxy_outlives_the_loss_of_the_carrier(scope: Scope, address: str) -> None:
    plan = Plan((Neighbour("v0", address),))
    apply(plan, scope)
    run_in(scope.host, "ip link set v1 down")
    wait_until(lambda: "NO-CARRIER" in run_in(scope.host, "ip link show v0"))
    assert check(plan, scope) == []


@pytest.mark.parametrize("mtu", [68, 1400, 1500, 9000])
def test_a_bridge_keeps_its_mtu_whatever_its_ports_have(scope: Scope, mtu: int) -> None:
    plan = Plan((Bridge("br0", mac="02:00:00:00:00:01", mtu=mtu), BridgePort("v0", "br0")))
    apply(plan, scope)
    run_in(scope.host, "ip link set v0 mtu 1300")
    assert check(plan, scope) == []


NARROW = Rule(1000, "ipv4", table=100, source="10.0.0.0/8")
WIDE = Rule(1000, "ipv4", table=100)
BARE = wire.RuleRecord(
    family=socket.AF_INET,
    priority=1000,
    action=wire.LOOKUP,
    table=100,
    invert=False,
    source=None,
    destination=None,
    iif=None,
    oif=None,
    mark=None,
    mask=None,
    l3mdev=False,
    suppress=None,
    protocol=78,
)


@pytest.mark.parametrize(("first", "second"), [(NARROW, WIDE), (WIDE, NARROW)], ids=["narrow", "wide"])
def test_a_rule_with_more_conditions_is_another_rule(scope: Scope, first: Rule, second: Rule) -> None:
    """To the kernel's own look for one with fewer, it is the same."""
    apply(Plan((first,)), scope)
    assert [change.change for change in apply(Plan((second,)), scope)] == ["made"]
    assert check(Plan((first, second)), scope) == []


@pytest.mark.parametrize(("first", "second"), [(NARROW, WIDE), (WIDE, NARROW)], ids=["narrow", "wide"])
@pytest.mark.parametrize("gone", [NARROW, WIDE], ids=["narrow", "wide"])
def test_of_two_rules_of_one_priority_the_right_one_goes(
    scope: Scope, first: Rule, second: Rule, gone: Rule
) -> None:
    for item in (first, second):
        # Not by a plan, and without asking whether it is there.
        source = None if item.source is None else (bytes([10, 0, 0, 0]), 8)
        scope.host.route.change(wire.NEW, CREATE, wire.build(replace(BARE, source=source)))
    stays = second if gone is first else first
    remove(Plan((gone,)), scope)
    assert [found.what for found in check(Plan((gone,)), scope)] == ["missing"]
    assert check(Plan((stays,)), scope) == []


def test_a_macvlan_that_has_its_parents_mac_is_given_no_other() -> None:
    with pytest.raises(InvalidObject, match="passthru"):
        Macvlan("mv0", "v0", mode="passthru", mac="02:00:00:00:00:01")


def test_a_route_of_one_hop_is_as_planned(scope: Scope) -> None:
    plan = Plan((Route("10.9.0.0/16", hops=(Hop("v0", weight=5),)),))
    apply(plan, scope)
    assert check(plan, scope) == []
    remove(plan, scope)
    assert run_in(scope.host, "ip route show 10.9.0.0/16") == ""


def test_what_is_in_the_way_under_another_name_is_told_by_the_kernel(scope: Scope) -> None:
    apply(Plan((Vxlan("vx0", 7),)), scope)
    with pytest.raises(KernelError, match="VXLAN device with the specified VNI already exists"):
        apply(Plan((Vxlan("vx1", 7),)), scope)


MAP = NftTable("inet", "t", "map m { type ipv4_addr : ipv4_addr; }")
ONE = NftElement("inet", "t", "m", ("10.0.0.1",), ("10.0.0.9",))
TWO = NftElement("inet", "t", "m", ("10.0.0.2",), ("10.0.0.9",))


def test_an_element_that_somebody_changed_keeps_no_other_from_going(scope: Scope) -> None:
    apply(Plan((MAP, ONE, TWO)), scope)
    run_in(
        scope.host,
        "nft delete element inet t m '{ 10.0.0.1 }'; nft add element inet t m '{ 10.0.0.1 : 10.0.0.7 }'",
    )
    with pytest.raises(Conflict, match=r"10\.0\.0\.7"):
        remove(Plan((ONE, TWO)), scope)
    assert [found.what for found in check(Plan((TWO,)), scope)] == ["missing"]


def test_an_element_that_stands_twice_in_a_plan_is_made_once(scope: Scope) -> None:
    plan = Plan((MAP, ONE, ONE))
    assert [change.change for change in apply(plan, scope)] == ["made", "made", "kept"]
    assert check(plan, scope) == []
    remove(plan, scope)
    assert run_in(scope.host, "nft list ruleset") == ""


@pytest.mark.parametrize("destination", ["10.9.0.0/16", "fd09::/64"])
def test_a_route_without_a_metric_takes_none_that_has_one_along(scope: Scope, destination: str) -> None:
    """To the kernel, a removal without a metric means any."""
    other, own = Route(destination, link="v0", metric=5), Route(destination, link="v0")
    apply(Plan((other, own)), scope)
    remove(Plan((own,)), scope)
    remove(Plan((own,)), scope)
    assert check(Plan((other,)), scope) == []
    assert [found.what for found in check(Plan((own,)), scope)] == ["missing"]


def test_a_redirect_beside_somebody_elses_leaves_nothing_of_itself(scope: Scope) -> None:
    """The kernel keeps the empty table of a u32 filter while the link has other such filters."""
    run_in(
        scope.host,
        "tc qdisc add dev v1 clsact;"
        "tc filter add dev v1 ingress pref 9 protocol all u32 match u32 0 0"
        " action mirred egress redirect dev v0",
    )
    before = run_in(scope.host, "tc filter show dev v1 ingress")
    plan = Plan((Ifb("ib0"), Redirect("v1", "ib0", classifier="u32", priority=10)))
    apply(plan, scope)
    remove(plan, scope)
    assert run_in(scope.host, "tc filter show dev v1 ingress") == before
