"""One run: remove what killed runs leaked, attach two containers, run every probe, remove the containers."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from types import FrameType
from typing import Any, Self, TypeAlias

from msgspec import Struct

from ...api.paths import Place
from ...cni import CNIError, NetworkConfig, Runtime, load_networks
from ...kernel import KernelError, Namespace
from ..control.presence import presence
from ..errors import OperationFailed, UsageError
from ..inspect.listing import queued
from ..node.networks import node_networks, plugin_of
from .causes import Cause, Causes
from .containers import Pair, remove_leaks
from .endpoints import host_end
from .expectations import Expectations, RateLimits, expectations_of
from .probe import Key, Probe
from .report import Connectivity, Failed, Left, Outcome, ProbeResult, Skipped, counted
from .suite import PROBES, Testbed, probes
from .tcp import CONTAINER_PORT, ProbedPort, RateLimit

# How long to wait for each answer. An idle kernel answers within a tenth of a millisecond.
_PATIENCE, _DOUBTFUL = 2.0, 1.0
# After so many failures, a late answer is unlikely.
_MANY = 3
_NO_TIME = "no time left"
_BY_OPTION = "as --skip says"
_NO_CAUSE = Cause("", "", "")


def run_suite(
    testbed: Testbed, deadline: float, skip: Collection[str], tell: Callable[[Probe], object]
) -> tuple[tuple[ProbeResult, ...], bool]:
    """The results, and whether there was time for all of them."""
    causes = Causes(testbed)
    done: dict[Key, ProbeResult] = {}
    in_time = True
    for probe in probes(testbed):
        tell(probe)
        left = deadline - time.monotonic()
        if probe.what in skip:
            result = _result(probe, "skipped", detail=_BY_OPTION)
        elif left <= 0:
            result, in_time = _result(probe, "skipped", detail=_NO_TIME), False
        elif (why := _unmet_need(probe, done)) is not None:
            result = _result(probe, "skipped", detail=why)
        else:
            result = _run(probe, min(_patience(probe, done), left), causes)
        done[probe.key] = result
    return tuple(done.values()), in_time


def _unmet_need(probe: Probe, done: dict[Key, ProbeResult]) -> str | None:
    if probe.needs is None or probe.needs not in done or done[probe.needs].result == "passed":
        return None
    what, _, sender, target = probe.needs
    how = "failed" if done[probe.needs].result == "failed" else "was not tried"
    return f"{what} from {sender} to {target} {how}"


def _patience(probe: Probe, done: dict[Key, ProbeResult]) -> float:
    failed = [key for key, result in done.items() if result.result == "failed"]
    return _DOUBTFUL if probe.doubts in failed or len(failed) >= _MANY else _PATIENCE


def _run(probe: Probe, patience: float, causes: Causes) -> ProbeResult:
    begun = time.monotonic()
    try:
        milliseconds, detail = probe.attempt(patience)
        return _result(probe, "passed", milliseconds, detail)
    except Skipped as skipped:
        return _result(probe, "skipped", detail=str(skipped))
    except Failed as failed:
        lasted = (time.monotonic() - begun) * 1000
        cause = causes.of(probe, failed)
        return _result(probe, "failed", lasted, str(failed), cause)
    except (KernelError, OSError) as error:
        lasted = (time.monotonic() - begun) * 1000
        cause = causes.of(probe, Failed(str(error)))
        return _result(probe, "failed", lasted, str(error), cause)


def _result(
    probe: Probe,
    result: Outcome,
    milliseconds: float = 0.0,
    detail: str = "",
    cause: Cause = _NO_CAUSE,
) -> ProbeResult:
    return ProbeResult(
        what=probe.what,
        family=probe.family,
        source=probe.sender.name,
        target=probe.target,
        result=result,
        milliseconds=round(milliseconds, 3),
        detail=detail,
        code=cause.code,
        subject=cause.subject,
        cause=cause.text,
        next=cause.advice,
    )


Tell: TypeAlias = Callable[[str], None]

_HELD_BY_ANOTHER = 105
_TRIES = 3
# The burst: what the rate passes in a fiftieth of a second, and at least two packets of any link.
_BURST_PARTS, _LEAST_BURST = 50, 32_768
_NO_PORTS = "the network does not declare the capability portMappings"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class ConnectivityOptions(Struct, frozen=True, kw_only=True):
    """Without `network`, the run uses the only netloom network. `bandwidth` is in bits per second."""

    place: Place
    plugin_dirs: tuple[str, ...]
    cache_dir: str
    timeout: float
    network: str | None = None
    bandwidth: int | None = None
    keep: bool = False
    skip: tuple[str, ...] = ()


class Interrupted(BaseException):
    """A signal other than SIGINT ended the run; the containers are removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(options: ConnectivityOptions, tell: Tell, warn: Tell) -> Connectivity:
    """Calls `tell` with each step, and `warn` with warnings that no report will have if an error follows.

    Raises `Interrupted`, or KeyboardInterrupt, when a signal has ended it.
    """
    deadline = time.monotonic() + options.timeout
    network = _network(options, warn)
    expectations = _judged(options, network)
    session = _Session(options, network, expectations, deadline)
    with _Interruption() as interruption:
        try:
            try:
                session.work(tell)
            finally:
                interruption.put_off()
        finally:
            session.end(tell, warn)
        interruption.deliver()
    return session.found()


class _Session:
    def __init__(
        self,
        options: ConnectivityOptions,
        network: NetworkConfig,
        expectations: Expectations,
        deadline: float,
    ) -> None:
        self._options = options
        self._runtime = Runtime(options.plugin_dirs, cache_dir=options.cache_dir, timeout=options.timeout)
        self._network = network
        self._expectations = expectations
        self._deadline = deadline
        self._pair = Pair(self._runtime, network, keep=options.keep)
        self._results: tuple[ProbeResult, ...] = ()
        self._in_time = True
        self._is_whole = False
        self._left: list[Left] = []
        self._warnings: list[str] = []

    def work(self, tell: Tell) -> None:
        tell("removing what killed runs leaked")
        for what in remove_leaks(self._runtime, self._network, self._deadline):
            self._warnings.append(f"a killed run leaked what could not be removed: {what}")
        with ExitStack() as opened:
            port = opened.enter_context(ProbedPort())
            host = opened.enter_context(Namespace.own())
            tell(f"attaching two containers to {self._network.name}")
            self._pair.make()
            no_port = self._attach(port)
            a, b = self._pair.ends
            testbed = Testbed(
                a=a,
                b=b,
                host=host_end(host, (a, b), is_node=self._expectations.is_ours),
                expectations=self._expectations,
                limits=self._limits(),
                port=port.number,
                no_port=no_port,
                deadline=self._deadline,
                pools=_pools(self._options.place.conf_dir),
            )
            self._results, self._in_time = run_suite(
                testbed, self._deadline, self._options.skip, lambda probe: tell(_trying(probe))
            )
            self._is_whole = True

    def _attach(self, port: ProbedPort) -> str:
        """Attaches both containers. Returns why there is no host port; empty if there is one."""
        no_port = "" if self._expectations.maps_ports else _NO_PORTS
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

    def _limits(self) -> RateLimits:
        """The limits of the first container."""
        rate = self._options.bandwidth
        if rate is None:
            return self._expectations.limits
        return RateLimits(RateLimit(rate, _burst(rate)), RateLimit(rate, _burst(rate)))

    def _wanted_limits(self) -> Mapping[str, Any]:
        rate = self._options.bandwidth
        if rate is None:
            return {}
        both = {f"{way}Rate": rate for way in ("ingress", "egress")}
        return {"bandwidth": both | {f"{way}Burst": _burst(rate) for way in ("ingress", "egress")}}

    def end(self, tell: Tell, warn: Tell) -> None:
        if self._options.keep and self._is_whole:
            self._pair.close()
            return
        tell("removing the containers")
        self._left = self._pair.remove()
        if self._expectations.is_ours:
            intents = queued(self._options.place.intents)
            waiting = [it for it in intents if it.container_id in self._pair.ids]
            if waiting:
                self._warnings.append(
                    f"no agent answered {len(waiting)} DEL: the next agent removes the attachments; start it "
                    "with `netloom up`"
                )
        if not self._is_whole:  # an error follows, and there is no report
            for it in self._left:
                warn(f"{it.what} was not removed: {it.why}; next: {it.next}")
            for warning in self._warnings:
                warn(warning)

    def found(self) -> Connectivity:
        return Connectivity(
            network=self._network.name,
            containers=tuple(end.described() for end in self._pair.ends),
            checks=self._results,
            **counted(self._results),
            in_time=self._in_time,
            removal=self._pair.removal() if self._options.keep else (),
            left=tuple(self._left),
            warnings=tuple(self._warnings),
        )


class _Interruption:
    """Signals that end the command: they interrupt the work, but not the removal of the containers.

    So only the first signal raises, and only during the work; during the removal it is only remembered.
    """

    def __init__(self) -> None:
        self._number = 0
        self._is_put_off = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in _ENDING:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup ignores SIGHUP
                self._before[number] = before
                signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def put_off(self) -> None:
        """From now on, a signal is only remembered."""
        self._is_put_off = True

    def deliver(self) -> None:
        """Raises what the signal would have raised, if one came."""
        if self._number == signal.SIGINT:
            raise KeyboardInterrupt
        if self._number:
            raise Interrupted(self._number)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._number:
            return
        self._number = number
        if not self._is_put_off:
            self.deliver()


def _trying(probe: Probe) -> str:
    return f"trying {probe.what} {probe.family} from {probe.sender.name} to {probe.target}"


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


def _network(options: ConnectivityOptions, warn: Tell) -> NetworkConfig:
    directory = options.place.conf_dir
    catalogue = load_networks(directory)
    for problem in catalogue.problems:
        warn(f"skipped {problem}")
    if options.network is not None:
        return catalogue.find(options.network)
    ours = [it.network for it in catalogue.networks if plugin_of(it.network) is not None]
    if len(ours) == 1:
        return ours[0]
    names = ", ".join(it.network.name for it in catalogue.networks)
    how_many = f"{len(ours)} netloom networks are" if ours else "no netloom network is"
    raise UsageError(
        f"no NETWORK was given, and {how_many} configured in {directory}",
        f"give one of these: {names}" if names else "`netloom up` creates one",
        code="network-unnamed",
    )


def _judged(options: ConnectivityOptions, network: NetworkConfig) -> Expectations:
    """Refuses what is known to fail, before anything is created."""
    strange = sorted(set(options.skip) - set(PROBES))
    if strange:
        raise UsageError(f"--skip {strange[0]}: there is no such probe", f"it takes {', '.join(PROBES)}")
    expectations = expectations_of(network)
    if options.bandwidth is not None and not expectations.takes_limits:
        raise UsageError(
            f"{network.name} does not support limits: it does not declare the capability bandwidth",
            "leave --bandwidth out, or declare it in the network's file",
        )
    if plugin_of(network) is not None:
        _require_agent(options.place)
    return expectations


def _require_agent(place: Place) -> None:
    found = presence(place)
    if found.agent is None:
        raise OperationFailed(found.why, found.advice, code=found.code)
