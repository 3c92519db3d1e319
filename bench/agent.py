"""The agent behind its plugin against the reference plugins: the time that a runtime waits.

The same driver runs both, and every container is a fresh namespace, created outside the measured time.
netloom is durable and prevents spoofed source addresses; the reference does neither.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack, closing

from netloom.journal import Operation

from . import spawn
from .breakdown import Seen, breakdown, kinds_of_applying, kinds_of_removing
from .containers import Supply, containers, settle
from .crowd import INTERFACES, Crowd, rested_add
from .hosts import PLUGIN, REFERENCE, Host, OurHost, ReferenceHost
from .measure import Bar, Comparison, Item, Quantity, Remark, Together, Unmeasurable, milliseconds
from .place import Place

_BURST = 64
_FEW, _MANY, _MOST = 10, 2_000, 10_000

_VERBS = ("ADD", "CHECK", "DEL")
_OURS = "ours: the static plugin and the agent, both families, guarded, durable"
_PEER = "peer: bridge and host-local 1.9.1, both families"
_NAMES = (
    "exec", "add", "check", "del", "add_after_rest",
    "add_64_by_8", "del_64_by_8", "add_64_at_once", "del_64_at_once",
    "memory_0", "add_2000", "memory_2000", "memory_10000", "ready_10000",
)  # fmt: skip


def comparisons(place: Place) -> Generator[Item, None, None]:
    obstacle = place.obstacle or _missing()
    if obstacle:
        for name in _NAMES:
            yield Unmeasurable(f"agent.{name}", f"{_OURS}; {_PEER}", reason=obstacle)
        return
    with closing(OurHost("ours")) as ours, closing(ReferenceHost("reference")) as reference:
        ours.start()
        yield from _one_at_a_time(ours, reference)
        for at_once in (8, _BURST):
            yield _bursts(ours, reference, at_once)
    yield from _growth()


def _missing() -> str:
    for needed in (PLUGIN, REFERENCE):
        if not needed.exists():
            return f"{needed} is missing: `make setup` builds it"
    return ""


class _Life:
    """ADD, CHECK and DEL of one container after the other, with the time of a bare spawn in between.

    There is no pause between them: this measures a sequence, not occasional requests. After a pause, the
    machine's caches are cold and its processors asleep; `agent.add_after_rest` measures that.
    """

    def __init__(self, host: Host, bare: spawn.Call) -> None:
        self._host = host
        self._bare = bare
        self._supply = Supply()
        self.rounds: list[tuple[str, tuple[float, ...]]] = []

    def round(self) -> tuple[float, ...]:
        container = self._supply.take()
        bare = milliseconds(lambda: spawn.exchange(self._bare.path, self._bare.stdin, self._bare.env))
        took = (bare, *(self._host.run(verb, container) for verb in _VERBS))
        self.rounds.append((container, took))
        return took

    def close(self) -> None:
        self._supply.close()


def _one_at_a_time(ours: OurHost, reference: ReferenceHost, rounds: int = 250) -> Generator[Item, None, None]:
    version = spawn.Call(str(PLUGIN), b"", {"CNI_COMMAND": "VERSION"})
    true = spawn.Call("/bin/true", b"", {})
    with closing(_Life(ours, version)) as our_life, closing(_Life(reference, true)) as their_life:
        yield Together(
            quantities=(
                Quantity(
                    "agent.exec",
                    "the driver's own part: pipes, spawn, wait; ours: the static plugin with VERSION, which "
                    "it answers itself; peer: /bin/true, which loads libc",
                ),
                Quantity(
                    "agent.add",
                    f"{_OURS}: one ADD at a time; {_PEER}",
                    bar=Bar("ours / peer", 0.28),
                    p99_bar=Bar("ours / peer", 0.6),
                ),
                Quantity(
                    "agent.check",
                    f"{_OURS}: one CHECK at a time, with what ADD answered; {_PEER}",
                    bar=Bar("ours / peer", 0.4),
                ),
                Quantity("agent.del", f"{_OURS}: one DEL at a time; {_PEER}", bar=Bar("ours / peer", 0.15)),
            ),
            ours=our_life.round,
            peer=their_life.round,
            rounds=rounds,
            at_a_turn=25,
        )
        yield _where_the_time_goes(ours, our_life, rounds)
    yield from _after_rest(ours, reference)


def _after_rest(ours: OurHost, reference: ReferenceHost) -> Generator[Item, None, None]:
    with closing(Supply()) as supply:
        yield Comparison(
            "agent.add_after_rest",
            f"{_OURS}: one ADD after 30 ms of rest; {_PEER}",
            ours=lambda: rested_add(ours, supply),
            peer=lambda: rested_add(reference, supply),
            rounds=50,
        )


def _where_the_time_goes(ours: OurHost, life: _Life, rounds: int) -> Remark:
    measured = life.rounds[-rounds:]
    recorded = _recorded(ours, [container for container, _ in measured])
    with containers(1) as [container]:
        ours.run("ADD", container)
        plan = ours.plan(container)
        ours.run("DEL", container)
    lines = ["where the time of agent.add and agent.del goes: means of the middle half, in ms"]
    for verb, kinds in (("ADD", kinds_of_applying(plan)), ("DEL", kinds_of_removing(plan))):
        seen = [
            Seen(took[1 + _VERBS.index(verb)], took[0], recorded[verb, container])
            for container, took in measured
        ]
        lines += breakdown(verb, seen, kinds)
    return Remark("\n".join(lines))


def _recorded(ours: OurHost, names: list[str]) -> dict[tuple[str, str], Operation]:
    """Returns what the agent logged of its operations. It logs them a little later than it answers them."""
    for _ in range(50):
        time.sleep(0.2)
        found = {(it.verb, it.container_id): it for it in ours.operations()}
        if all((verb, name) in found for verb in _VERBS for name in names):
            return found
    raise RuntimeError("operations are missing in the agent's journal")


def _bursts(ours: Host, reference: Host, at_once: int) -> Together:
    suffix = f"{_BURST}_at_once" if at_once == _BURST else f"{_BURST}_by_{at_once}"
    pace = "all at once" if at_once == _BURST else f"{at_once} at a time"

    def burst(host: Host) -> tuple[float, ...]:
        with containers(_BURST) as names:
            settle(0.1)
            took = tuple(host.run_all(verb, names, at_once) for verb in ("ADD", "DEL"))
        settle(0.3)
        return took

    def quantity(verb: str, limit: float) -> Quantity:
        return Quantity(
            f"agent.{verb.lower()}_{suffix}",
            f"{_OURS}: {_BURST} {verb}s, {pace}, from the first spawn to the last end; {_PEER}",
            bar=Bar("ours / peer", limit),
        )

    return Together(
        quantities=(quantity("ADD", 0.35), quantity("DEL", 0.25 if at_once == _BURST else 0.3)),
        ours=lambda: burst(ours),
        peer=lambda: burst(reference),
        rounds=8,
        warmup=1,
    )


def _growth() -> Generator[Item, None, None]:
    """The cost of many attachments: the next ADD, memory, and the agent's start."""
    with ExitStack() as stack:
        few = stack.enter_context(closing(OurHost("few")))
        many = stack.enter_context(closing(OurHost("many")))
        few.start()
        many.start()
        yield _memory(many, 0)
        crowd = stack.enter_context(closing(Crowd(many)))
        stack.enter_context(closing(Crowd(few))).grow(_FEW)
        reason = crowd.grow(_MANY)
        yield _unless(reason, _memory(many, _MANY))
        yield _unless(reason, _add_at(few, many, stack))
        reason = reason or crowd.grow(_MOST)
        yield _unless(reason, _memory(many, _MOST))
        yield _unless(reason, _ready(many))


def _unless(reason: str, comparison: Comparison) -> Comparison | Unmeasurable:
    it = comparison
    return Unmeasurable(it.name, it.what, it.unit, it.bar, reason=reason) if reason else it


def _memory(host: OurHost, amount: int) -> Comparison:
    return Comparison(
        f"agent.memory_{amount}",
        f"resident memory of the agent with {amount} attachments, {INTERFACES} in a container",
        unit="MB",
        bar=Bar("ours", 100),
        ours=host.megabytes,
        peer=None,
        rounds=1,
        warmup=0,
    )


def _add_at(few: OurHost, many: OurHost, stack: ExitStack) -> Comparison:
    supply = stack.enter_context(closing(Supply()))
    return Comparison(
        f"agent.add_{_MANY}",
        f"{_OURS}: one ADD after a rest, beside {_MANY} attachments; peer: the same beside {_FEW}",
        bar=Bar("ours / peer", 1.5),
        ours=lambda: rested_add(many, supply),
        peer=lambda: rested_add(few, supply),
        rounds=100,
    )


def _ready(host: OurHost) -> Comparison:
    def restart() -> float:
        host.kill()
        return host.start()

    return Comparison(
        f"agent.ready_{_MOST}",
        f"from the start of the agent's process to its first answer, with {_MOST} attachments in the "
        "journal, after the one before was killed",
        unit="s",
        bar=Bar("ours", 3),
        ours=restart,
        peer=None,
        rounds=3,
        warmup=0,
    )
