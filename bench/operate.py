"""How long an operator waits, and what metrics and logs cost.

Each command is a whole new process, as an operator runs it. The agent and the attachments are real.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle, repeat
from pathlib import Path

from . import spawn
from .commands import Took, into_a_pipe, on_a_terminal
from .containers import Supply, containers, settle
from .crowd import Crowd
from .hosts import PLUGIN, OurHost
from .measure import Bar, Comparison, Item, Quantity, Remark, Together, Unmeasurable, median, milliseconds
from .place import CHECKOUT, Place

_MANY = 2_000
_BURST, _AT_ONCE = 64, 8
_LIVES = 1_600
# Two processes of the same code differ by three hundredths for as long as they run: smaller differences need
# several processes of each.
_AGENTS = 4
# The cost of a delayed write must fall into the turn of the side that caused it.
_TURN = 25
# The default address of the agent's metrics; every host has a 127.0.0.1 of its own.
_METRICS = ("127.0.0.1", 9478)

_BARE = "peer: the bare interpreter, python -c pass"
_RECORDED = "ours: the agent as it is, with metrics and the log of operations"
_UNRECORDED = "peer: the same code with both replaced by functions that do nothing"
_NAMES = (
    "add_recorded", "del_recorded", "add_64_recorded", "del_64_recorded",
    "status", "status_json", "ls", "ls_json", "explain", "explain_json", "metrics",
)  # fmt: skip

Run = Callable[[Sequence[str], Mapping[str, str]], Took]


class UnrecordedHost(OurHost):
    program = (sys.executable, "-P", str(CHECKOUT / "bench" / "without_records.py"))


def comparisons(place: Place) -> Generator[Item, None, None]:
    obstacle = place.obstacle or ("" if PLUGIN.exists() else f"{PLUGIN} is missing: `make setup` builds it")
    if obstacle:
        for name in _NAMES:
            yield Unmeasurable(f"operate.{name}", "the agent and its commands", reason=obstacle)
        return
    with ExitStack() as stack:
        recorded = [stack.enter_context(closing(OurHost(f"recorded-{it}"))) for it in range(_AGENTS)]
        unrecorded = [stack.enter_context(closing(UnrecordedHost(f"bare-{it}"))) for it in range(_AGENTS)]
        for host in (*recorded, *unrecorded):
            host.start()
        with closing(Supply()) as supply:
            yield _one_at_a_time(recorded, unrecorded, supply)
        yield _bursts(recorded[0], unrecorded[0])
        _require_difference(recorded, unrecorded)
    yield from _at_night(place)


def _one_at_a_time(recorded: Sequence[OurHost], unrecorded: Sequence[OurHost], supply: Supply) -> Together:
    def life(turns: Iterator[OurHost]) -> tuple[float, ...]:
        host = next(turns)
        container = supply.take()
        return tuple(host.run(verb, container) for verb in ("ADD", "DEL"))

    def turns(hosts: Sequence[OurHost]) -> Iterator[OurHost]:
        for host in cycle(hosts):
            yield from repeat(host, _TURN)

    return Together(
        quantities=(
            Quantity(
                "operate.add_recorded",
                f"{_RECORDED}: one ADD at a time; {_UNRECORDED}",
                bar=Bar("ours / peer", 1.05),
            ),
            Quantity("operate.del_recorded", f"{_RECORDED}: one DEL at a time; {_UNRECORDED}"),
        ),
        ours=partial(life, turns(recorded)),
        peer=partial(life, turns(unrecorded)),
        rounds=_LIVES,
        warmup=_AGENTS * _TURN,
        at_a_turn=_TURN,
    )


def _bursts(recorded: OurHost, unrecorded: OurHost) -> Together:
    """Measures bursts, in which no work can be postponed to idle time."""

    def burst(host: OurHost) -> tuple[float, ...]:
        with containers(_BURST) as names:
            settle(0.1)
            took = tuple(host.run_all(verb, names, _AT_ONCE) for verb in ("ADD", "DEL"))
        settle(0.3)
        return took

    pace = f"from the first spawn to the last end; {_UNRECORDED}"
    return Together(
        quantities=tuple(
            Quantity(
                f"operate.{verb.lower()}_{_BURST}_recorded",
                f"{_RECORDED}: {_BURST} {verb}s, {_AT_ONCE} at a time, {pace}",
            )
            for verb in ("ADD", "DEL")
        ),
        ours=lambda: burst(recorded),
        peer=lambda: burst(unrecorded),
        rounds=20,
        warmup=1,
    )


def _require_difference(recorded: Sequence[OurHost], unrecorded: Sequence[OurHost]) -> None:
    """Checks that one side has written and counted everything, and the other nothing."""
    settle(1)
    for host in recorded:
        if len(host.operations()) < 2 * _LIVES / _AGENTS or b'verb="ADD"' not in _scraped(host):
            raise RuntimeError("an agent with a log of operations has none, or no metrics")
    if any(host.operations() for host in unrecorded):
        raise RuntimeError("an agent without a log of operations has one: nothing was compared")


def _at_night(place: Place) -> Generator[Item, None, None]:
    networks = place.state / "networks"
    networks.mkdir()
    spent: dict[str, list[float]] = {}
    with ExitStack() as stack:
        host = stack.enter_context(closing(OurHost("night")))
        host.start()
        host.write_network(networks)
        reason = stack.enter_context(closing(Crowd(host))).grow(_MANY)
        [container] = stack.enter_context(containers(1))
        host.run("ADD", container)
        settle(1)
        for name, words, run, limit in (
            ("status", ["status"], on_a_terminal, 150),
            ("status_json", ["status", "--json"], into_a_pipe, 150),
            ("ls", ["ls"], on_a_terminal, 250),
            ("ls_json", ["ls", "--json"], into_a_pipe, 250),
            ("explain", ["explain", container], on_a_terminal, 250),
            ("explain_json", ["explain", container, "--json"], into_a_pipe, 250),
        ):
            used = spent.setdefault(f"netloom {words[0]}, {run.__name__.replace('_', ' ')}", [])
            yield _unless(reason, _command(name, words, run, limit, host, networks, used))
        yield _unless(reason, _metrics(host))
    if not reason:
        yield _processors(spent)


def _command(
    name: str, words: list[str], run: Run, limit: float, host: OurHost, networks: Path, spent: list[float]
) -> Comparison:
    """Runs the command. Its processor time is added to `spent`."""
    where = ("--state-dir", host.state_dir, "--socket", host.socket, "--conf-dir", str(networks))
    command = (str(Path(sys.executable).with_name("netloom")), *words, *where)
    env = _environment()

    def ours() -> float:
        with host.namespace.entered():
            took = run(command, env)
        spent.append(took.processor)
        return took.elapsed

    said = ["CONTAINER" if word.startswith("bench") else word for word in words]
    shown = "on a terminal" if run is on_a_terminal else "into a pipe"
    return Comparison(
        f"operate.{name}",
        f"ours: netloom {' '.join(said)} {shown}, whole process, beside {_MANY} attachments; {_BARE}",
        bar=Bar("ours", limit),
        ours=ours,
        peer=lambda: spawn.process_milliseconds([sys.executable, "-c", "pass"], env),
        # Of so few, the slowest hundredth is the slowest of all.
        rounds=40,
        warmup=2,
    )


def _processors(spent: Mapping[str, Sequence[float]]) -> Remark:
    """The processor time shows what the commands themselves need on a machine with other load."""
    lines = ["processor time of the commands: medians, in ms"]
    lines += [f"  {name:32} {median(values):7.1f}" for name, values in spent.items()]
    return Remark("\n".join(lines))


def _metrics(host: OurHost) -> Comparison:
    return Comparison(
        "operate.metrics",
        f"GET /metrics of the agent beside {_MANY} attachments; an ADD that comes meanwhile waits for it",
        ours=lambda: milliseconds(lambda: _scraped(host)),
        peer=None,
        rounds=100,
    )


def _scraped(host: OurHost) -> bytes:
    with host.namespace.entered():
        connection = http.client.HTTPConnection(*_METRICS, timeout=10)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read()
        finally:
            connection.close()


def _unless(reason: str, it: Comparison) -> Comparison | Unmeasurable:
    return Unmeasurable(it.name, it.what, it.unit, it.bar, reason=reason) if reason else it


def _environment() -> dict[str, str]:
    """Our environment, but bytecode may be written, and the terminal type is a usual one."""
    hidden = ("PYTHONDONTWRITEBYTECODE", "NO_COLOR", "NETLOOM_SOCKET", "NETLOOM_STATE_DIR", "NETCONFPATH")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    return {**kept, "TERM": "xterm-256color"}
