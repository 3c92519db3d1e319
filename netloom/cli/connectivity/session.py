"""One run: what is left of others goes, two containers come, everything is tried, and they go again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ...cni import CNIError, NetworkConfig, Runtime, load_networks
from ...kernel import Namespace
from ...ops.node.networks import node_networks, plugin_of
from ..agent_presence import presence
from ..agent_process import Place
from ..failure import CommandFailed, UsageError, warn
from ..output import require_output
from ..place import intents_dir
from ..queued import queued
from ..status import DEADLINE, FAILED
from ..views import print_json
from .course import try_all
from .failed import Skipped
from .host import host_end
from .host_port import CONTAINER_PORT, HostPort
from .interruption import Interruption
from .leftovers import remove_leftovers
from .pair import Pair
from .promises import Limits, Promises, promises_of
from .rate import Limit
from .report import Check, Connectivity, Left, counted
from .trials import WHATS, Scene
from .view import progress, show, tell_what_is_left, trying

_HELD_BY_ANOTHER = 105
_TRIES = 3
# What may come at once: a fiftieth of a second, and two packets of any link.
_BURST_PARTS, _LEAST_BURST = 50, 32_768
_NO_PORTS = "the network does not declare the capability portMappings"


def run(args: argparse.Namespace, plugin_dirs: Sequence[str]) -> int:
    require_output()
    deadline = time.monotonic() + args.timeout
    network = _network(args)
    promises = _judged(args, network)
    runtime = Runtime(plugin_dirs, cache_dir=args.cache_dir, timeout=args.timeout)
    person = not args.json
    session = _Session(args, runtime, network, promises, deadline)
    with Interruption() as interruption, progress(shown=person) as tell:
        try:
            try:
                session.work(tell)
            finally:
                interruption.put_off()
        finally:
            session.end(tell)
        interruption.deliver()
    found = session.found()
    if person:
        show(found)
        tell_what_is_left(found)
    else:
        print_json(found)
    if not found.in_time:
        return DEADLINE
    return FAILED if found.failed or found.left else 0


class _Session:
    def __init__(
        self,
        args: argparse.Namespace,
        runtime: Runtime,
        network: NetworkConfig,
        promises: Promises,
        deadline: float,
    ) -> None:
        self._args = args
        self._runtime = runtime
        self._network = network
        self._promises = promises
        self._deadline = deadline
        self._pair = Pair(runtime, network, keep=args.keep)
        self._checks: tuple[Check, ...] = ()
        self._in_time = True
        self._is_whole = False
        self._left: list[Left] = []
        self._warnings: list[str] = []

    def work(self, tell: Callable[[str], None]) -> None:
        tell("looking for what others have left")
        for what in remove_leftovers(self._runtime, self._network, self._deadline):
            self._warnings.append(f"a run that was killed has left what could not be removed: {what}")
        with ExitStack() as opened:
            port = opened.enter_context(HostPort())
            host = opened.enter_context(Namespace.own())
            tell(f"attaching two containers to {self._network.name}")
            self._pair.make()
            no_port = self._attach(port)
            a, b = self._pair.ends
            scene = Scene(
                a=a,
                b=b,
                host=host_end(host, (a, b), is_node=self._promises.is_ours),
                promises=self._promises,
                limits=self._limits(),
                port=port.number,
                no_port=no_port,
                deadline=self._deadline,
                pools=_pools(self._args.conf_dir),
            )
            self._checks, self._in_time = try_all(
                scene, self._deadline, self._args.skip, lambda trial: tell(trying(trial))
            )
            self._is_whole = True

    def _attach(self, port: HostPort) -> str:
        """Both. Why there is no port of the host, if there is none."""
        no_port = "" if self._promises.maps_ports else _NO_PORTS
        for attempt in range(_TRIES):
            try:
                wanted = {} if no_port else _mapped(port.take())
            except Skipped as skipped:
                no_port, wanted = str(skipped), {}
            try:
                self._pair.attach("a", {**wanted, **self._wanted_limits()}, self._deadline)
                break
            except CNIError as error:
                if error.code != _HELD_BY_ANOTHER or attempt == _TRIES - 1:
                    raise
                self._pair.detach("a")
        self._pair.attach("b", {}, self._deadline)
        return no_port

    def _limits(self) -> Limits:
        """Of the first container."""
        rate = self._args.bandwidth
        if rate is None:
            return self._promises.limits
        return Limits(Limit(rate, _burst(rate)), Limit(rate, _burst(rate)))

    def _wanted_limits(self) -> Mapping[str, Any]:
        rate = self._args.bandwidth
        if rate is None:
            return {}
        both = {f"{way}Rate": rate for way in ("ingress", "egress")}
        return {"bandwidth": both | {f"{way}Burst": _burst(rate) for way in ("ingress", "egress")}}

    def end(self, tell: Callable[[str], None]) -> None:
        if self._args.keep and self._is_whole:
            self._pair.close()
            return
        tell("removing the containers")
        self._left = self._pair.remove()
        if self._promises.is_ours:
            waiting = [it for it in queued(intents_dir(self._args)) if it.container_id in self._pair.ids]
            if waiting:
                self._warnings.append(
                    f"no agent answered {len(waiting)} DEL: what they are for is removed by the next agent, "
                    "which `netloom up` starts"
                )
        if not self._is_whole:  # an error follows, which has to tell of it
            for it in self._left:
                warn(self._args, f"{it.what} is left: {it.why}; next: {it.next}")
            for warning in self._warnings:
                warn(self._args, warning)

    def found(self) -> Connectivity:
        return Connectivity(
            network=self._network.name,
            containers=tuple(end.described() for end in self._pair.ends),
            checks=self._checks,
            **counted(self._checks),
            in_time=self._in_time,
            removal=self._pair.removal() if self._args.keep else (),
            left=tuple(self._left),
            warnings=tuple(self._warnings),
        )


def _pools(directory: str) -> tuple[tuple[str, bool], ...]:
    try:
        networks = [it.network for it in node_networks(directory) if it.network is not None]
    except CNIError:
        return ()
    return tuple((pool.cidr, it.isolation == "containers") for it in networks for pool in it.pools)


def _burst(rate: int) -> int:
    return max(rate // _BURST_PARTS, _LEAST_BURST)


def _mapped(port: int) -> Mapping[str, Any]:
    mapping = {"hostPort": port, "containerPort": CONTAINER_PORT, "protocol": "tcp"}
    return {"portMappings": [mapping]}


def _network(args: argparse.Namespace) -> NetworkConfig:
    catalogue = load_networks(args.conf_dir)
    for problem in catalogue.problems:
        warn(args, f"passed over {problem}")
    if args.network is not None:
        return catalogue.find(args.network)
    ours = [it.network for it in catalogue.networks if plugin_of(it.network) is not None]
    if len(ours) == 1:
        return ours[0]
    names = ", ".join(it.network.name for it in catalogue.networks)
    how_many = f"{len(ours)} networks of netloom are" if ours else "no network of netloom is"
    raise UsageError(
        f"which network? {how_many} configured in {args.conf_dir}",
        f"name one of these: {names}" if names else "`netloom up` makes one",
        code="network-unnamed",
    )


def _judged(args: argparse.Namespace, network: NetworkConfig) -> Promises:
    """What can be known to fail is refused before anything is made."""
    strange = sorted(set(args.skip) - set(WHATS))
    if strange:
        raise UsageError(
            f"--skip {strange[0]}: there is no such thing to try", f"it takes {', '.join(WHATS)}"
        )
    promises = promises_of(network)
    if args.bandwidth is not None and not promises.takes_limits:
        raise UsageError(
            f"{network.name} takes no limits: it does not declare the capability bandwidth",
            "leave --bandwidth out, or declare it in the network's file",
        )
    if plugin_of(network) is not None:
        _require_agent(args)
    return promises


def _require_agent(args: argparse.Namespace) -> None:
    found = presence(Place(args.state_dir, args.socket))
    if found.agent is None:
        raise CommandFailed(found.why, found.advice, code=found.code)
