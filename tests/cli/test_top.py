"""`netloom top`: the node's numbers, once as a document, and live on a screen."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from netloom.api.paths import Place
from netloom.cli.top.columns import LATENCIES, RATES, event_columns, latencies, rate
from netloom.cli.top.reading import Latency, Meter, Rate, latencies_of, percentile, rates_of, seconds_of
from netloom.cli.top.screen import Top
from netloom.ops.explain.events import Event

from ..fixtures.cli import NETLOOM, Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import PATIENCE, eventually

NOW = 1_000_000.0


def event(verb: str, ago: float, *, duration: float = 2.0, code: int = 0, **phases: float) -> Event:
    return Event(
        id=1, verb=verb, network="n", container_id="c", ifname="eth0", namespace="", pod="", netns="",
        addresses=[], started=NOW - ago, duration=duration, phases=phases, code=code, error="", caller="",
        details="", trace="",
    )  # fmt: skip


@pytest.mark.unit
def test_rates_are_of_the_last_seconds_and_counts_of_the_last_minute() -> None:
    events = [
        event("ADD", 1),
        event("ADD", 2, code=11),
        event("ADD", 30),
        event("ADD", 61),
        event("REPAIR", 3),
    ]
    add, repair = rates_of(events, NOW)
    assert (add.verb, add.per_second, add.count, add.failed) == ("ADD", 0.2, 3, 1)
    assert (repair.verb, repair.count) == ("REPAIR", 1)


@pytest.mark.unit
def test_latencies_are_of_what_succeeded_in_the_order_of_phases() -> None:
    events = [event("ADD", 1, judge=0.1, kernel=float(number)) for number in range(1, 101)]
    events += [
        event("ADD", 1, code=100, kernel=9999.0),
        event("DEL", 1, mark=0.5),
        event("CHECK", 1, journal=1.0),
    ]
    found = {(it.verb, it.phase): (it.p50, it.p99) for it in latencies_of(events, NOW)}
    assert list(found) == [("ADD", "judge"), ("ADD", "kernel"), ("DEL", "mark")]
    assert found["ADD", "kernel"] == (50.0, 99.0)


@pytest.mark.unit
def test_seconds_count_what_runtimes_asked_for() -> None:
    counted = seconds_of([event("ADD", 0.5), event("DEL", 0.9), event("ADD", 59.5), event("START", 0.5)], NOW)
    assert (len(counted), counted[-1], counted[0], sum(counted)) == (60, 2, 1, 3)


@pytest.mark.unit
def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([5.0, 1.0, 3.0], part) for part in (1, 50, 99)] == [1.0, 3.0, 5.0]
    assert percentile([], 50) == 0.0


def busy(machine: Machine) -> None:
    """Some operations, one of which failed, and a repair."""
    containers = [machine.node.container() for _ in range(3)]
    for container in containers:
        machine.attach(container, CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=api-0")
    assert machine.cni("del", containers[0]).status == 0
    assert machine.cni("add", containers[0], CNI_ARGS="IP=192.0.2.200").status == 1
    machine.node.inside("nft", "flush", "ruleset")
    assert eventually(lambda: any(it.verb == "TABLE" for it in machine.node.ledger().operations()))


def measured(machine: Machine) -> Outcome:
    """Asked again while the agent is too busy to answer in half a second."""
    outcomes: list[Outcome] = []

    def is_whole() -> bool:
        outcomes.append(machine.told("top", "--json"))
        return outcomes[-1].document["agent"] is not None

    assert eventually(is_whole), outcomes[-1]
    return outcomes[-1]


@pytest.mark.kernel
def test_the_numbers_are_a_document(machine: Machine) -> None:
    busy(machine)
    outcome = measured(machine)
    assert (outcome.status, outcome.stderr) == (0, "")
    found = outcome.document
    rates = {it["verb"]: it for it in found["rates"]}
    assert (rates["ADD"]["count"], rates["ADD"]["failed"], rates["DEL"]["count"]) == (4, 1, 1)
    assert rates["ADD"]["p99"] >= rates["ADD"]["p50"] > 0
    assert {it["phase"] for it in found["latencies"] if it["verb"] == "ADD"} >= {
        "reserve",
        "kernel",
        "commit",
    }
    assert (found["attachments"]["committed"], found["repairs"], found["intents"]) == (2, 1, 0)
    assert found["agent"]["process"] == machine.agent
    assert [it["held"] for it in found["pools"]] == [2, 2]
    assert found["events"][-1]["verb"] == "START"


@pytest.mark.kernel
def test_without_an_agent_the_document_says_why(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    found = machine.run("top", "--json").document
    assert (found["agent"], str(machine.node.socket) in found["why"]) == (None, True)
    assert found["attachments"]["committed"] == 1


@pytest.mark.kernel
@pytest.mark.parametrize("damaged", [False, True])
def test_without_a_journal_the_document_is_empty(bare: Machine, damaged: bool) -> None:
    if damaged:
        bare.node.state_dir.mkdir()
        bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.run("top", "--json")
    assert outcome.status == 0
    assert (outcome.document["events"], outcome.document["attachments"]) == ([], {})
    assert (str(bare.journal) in outcome.document["why"]) == damaged


# On a screen that nobody sees.


def watched(machine: Machine, watch: Callable[[Top, Pilot[None]], Awaitable[None]]) -> None:
    place = Place(str(machine.node.state_dir), str(machine.node.socket), str(machine.cli.networks))

    agent = f"process {machine.agent}"

    async def run() -> None:
        top = Top(Meter(place))
        async with top.run_test(size=(140, 45)) as pilot:
            # An agent that is busy is not in every reading.
            assert await soon(pilot, lambda: bool(cells(top, "#rates")) and agent in text(top, "#head"))
            await watch(top, pilot)

    asyncio.run(run())


async def soon(pilot: Pilot[None], holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        await pilot.pause(0.05)
    return True


def cells(top: Top, name: str) -> list[list[str]]:
    table: DataTable[Any] = top.screen_stack[0].query_one(name, DataTable)
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


def text(top: Top, name: str) -> str:
    return str(top.query_one(name, Static).content)


@pytest.mark.kernel
def test_operations_latencies_pools_and_events_are_on_the_screen(machine: Machine) -> None:
    busy(machine)

    async def watch(top: Top, _: Pilot[None]) -> None:
        rates = {row[0]: row for row in cells(top, "#rates")}
        assert (rates["ADD"][2], rates["ADD"][3]) == ("4", "1")
        latencies = {row[0]: row[1:] for row in cells(top, "#latencies")}
        assert all(latencies["kernel"])
        assert [bool(it) for it in latencies["commit"]] == [True, True, False, False]
        assert "10.78.0.0/16" in text(top, "#use")
        assert f"process {machine.agent}" in text(top, "#head")
        assert [row[1] for row in cells(top, "#events")][-1] == "START"

    watched(machine, watch)


@pytest.mark.kernel
def test_what_happens_comes_onto_the_screen(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        before = len(cells(top, "#events"))
        await asyncio.to_thread(machine.cni, "del", container)
        assert await soon(pilot, lambda: len(cells(top, "#events")) > before)
        assert cells(top, "#events")[0][1] == "DEL"

    watched(machine, watch)


@pytest.mark.kernel
def test_keys_pause_filter_and_choose(machine: Machine) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        whole = len(cells(top, "#events"))
        await pilot.press("f")
        assert await soon(pilot, lambda: [row[1] for row in cells(top, "#events")] == ["ADD"])
        assert await soon(pilot, lambda: "code 4" in text(top, "#details"))
        await pilot.press("f")
        assert await soon(pilot, lambda: len(cells(top, "#events")) == whole)
        await pilot.press("down", "down")
        chosen = cells(top, "#events")[2]
        assert await soon(pilot, lambda: text(top, "#details").startswith(chosen[1]))
        await pilot.press("p")
        assert await soon(pilot, lambda: "PAUSED" in text(top, "#head"))
        container = machine.node.container()
        await asyncio.to_thread(machine.attach, container)
        await pilot.pause(1.5)
        assert len(cells(top, "#events")) == whole
        await pilot.press("p")
        assert await soon(pilot, lambda: len(cells(top, "#events")) > whole)
        # Whoever has chosen an event keeps it.
        assert cells(top, "#events")[top.query_one("#events", DataTable).cursor_row] == chosen
        await pilot.press("q")

    watched(machine, watch)


@pytest.mark.kernel
def test_an_agent_that_ends_is_told_and_its_successor_shown(machine: Machine) -> None:
    machine.attach(machine.node.container())

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await asyncio.to_thread(machine.run, "down")
        assert await soon(pilot, lambda: "no agent" in text(top, "#head"))
        await asyncio.to_thread(machine.brought_up)
        assert await soon(pilot, lambda: f"process {machine.agent}" in text(top, "#head"))

    watched(machine, watch)


SMALL, COMMON = (80, 24), (120, 40)


# Of a character in a picture.
_WIDTH = 12.2


def drawn(top: Top) -> list[str]:
    """The screen's lines as somebody sees them, with one space where there are many."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for it in ElementTree.fromstring(top.export_screenshot()).iter("{http://www.w3.org/2000/svg}text"):
        if "-line-" in it.get("clip-path", ""):
            words = lines.setdefault(float(it.get("y", 0)), [])
            words.append((float(it.get("x", 0)), it.text or ""))
    return [_line(lines[y]) for y in sorted(lines)]


def _line(words: list[tuple[float, str]]) -> str:
    line = ""
    for x, text in sorted(words):
        line = line.ljust(round(x / _WIDTH)) + text
    return " ".join(line.split())


async def resized(top: Top, pilot: Pilot[None], size: tuple[int, int]) -> None:
    await pilot.resize_terminal(*size)
    assert await soon(pilot, lambda: top.size == size and len(drawn(top)) == size[1])
    await pilot.pause(0.5)


@pytest.mark.kernel
@pytest.mark.parametrize("size", [SMALL, COMMON, (80, 50), (200, 24)], ids=str)
def test_every_number_is_seen_whole(machine: Machine, size: tuple[int, int]) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        await resized(top, pilot, size)
        rows = [" ".join(filter(None, row)) for name in ("#rates", "#latencies") for row in cells(top, name)]
        words = ("10.78.0.0/16 2 held", "fd78::/64 2 held", f"process {machine.agent}", "PAUSED")

        def unseen() -> list[str]:
            lines = drawn(top)
            missing = [it for it in (*rows, *words) if not any(it in line for line in lines)]
            if not any("VERB" in line and "PHASE" in line and line.count("P99") == 3 for line in lines):
                missing.append("P99")
            return missing if any(line.endswith(" ? keys") for line in lines) else [*missing, "? keys"]

        assert await soon(pilot, lambda: unseen() == []), unseen()

    watched(machine, watch)


@pytest.mark.kernel
@pytest.mark.parametrize("size", [SMALL, COMMON], ids=str)
def test_events_and_what_is_wrong_with_one_are_seen(machine: Machine, size: tuple[int, int]) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await resized(top, pilot, size)
        assert await soon(pilot, lambda: sum("10.78.0." in line and "ms" in line for line in drawn(top)) >= 2)
        await pilot.press("f")
        assert await soon(pilot, lambda: any(it.startswith(("code 4: ", "│ code 4: ")) for it in drawn(top)))

    watched(machine, watch)


@pytest.mark.kernel
@pytest.mark.parametrize("size", [SMALL, (100, 30), COMMON], ids=str)
def test_every_word_of_a_failure_can_be_seen(machine: Machine, size: tuple[int, int]) -> None:
    busy(machine)
    words = [f"word{number}" for number in range(700)]
    failure = structs.replace(event("ADD", 1), id=10**6, code=7, error=" ".join(words), container_id="c" * 64)

    def seen(top: Top) -> set[str]:
        return {word for line in drawn(top) for word in line.split()}

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        assert top.reading is not None
        await resized(top, pilot, size)
        top.show(structs.replace(top.reading, events=[failure]))
        assert await soon(pilot, lambda: "word0" in seen(top))
        # What is cut says so, and how to see the rest.
        assert await soon(pilot, lambda: any("… enter: all" in line for line in drawn(top)))
        assert await soon(
            pilot, lambda: any("details" in line and line.endswith(" ? keys") for line in drawn(top))
        )
        await pilot.press("enter")
        assert await soon(pilot, lambda: any("escape returns" in line for line in drawn(top)))
        found = seen(top)
        for _ in range(len(words)):
            if found >= {words[-1], "1970-01-12"}:
                break
            await pilot.press("down")
            await pilot.pause()
            found |= seen(top)
        assert set(words) <= found
        await pilot.press("escape")
        assert await soon(pilot, lambda: any("… enter: all" in line for line in drawn(top)))

    watched(machine, watch)


@pytest.mark.kernel
def test_details_that_have_room_are_not_cut(machine: Machine) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("f")
        assert await soon(pilot, lambda: "code 4" in text(top, "#details"))
        assert "enter: all" not in text(top, "#details")
        # On a smaller screen they have less.
        await resized(top, pilot, SMALL)
        assert await soon(pilot, lambda: "enter: all" in text(top, "#details"))
        await resized(top, pilot, (140, 45))
        assert await soon(pilot, lambda: "enter: all" not in text(top, "#details"))

    watched(machine, watch)


@pytest.mark.unit
@pytest.mark.parametrize("width", [79, 115, 300])
def test_a_line_of_an_event_is_as_wide_as_the_table(width: int) -> None:
    long = structs.replace(
        event("ADD", 1), container_id="c" * 64, pod="p" * 63, namespace="n" * 63, error="e" * 200, code=7
    )
    for events in ([], [long], [event("ADD", 1)]):
        shown = event_columns(width, events, short=width < 110)
        assert sum(it.width for it in shown.columns) == width
        for it in events:
            assert all(
                len(cell) <= column.width for cell, column in zip(shown.cells(it), shown.columns, strict=True)
            )


@pytest.mark.unit
def test_numbers_of_a_node_that_is_stuck_fit_into_their_columns() -> None:
    stuck = Rate(verb="RELEASE", per_second=333.3, count=20000, failed=2000, p50=60000.4, p99=899999.4)
    slow = [Latency(verb=verb, phase="release", p50=60000.4, p99=899999.4) for verb in ("ADD", "DEL")]
    for row, columns in ((rate(stuck), RATES), (latencies(slow)[0], LATENCIES)):
        # With a space before each but the first.
        assert all(
            len(cell) < column.width or (column is columns[0] and len(cell) <= column.width)
            for cell, column in zip(row, columns, strict=True)
        )


@pytest.mark.kernel
def test_a_table_that_is_longer_than_its_panel_can_be_scrolled(machine: Machine) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await resized(top, pilot, SMALL)
        reading = top.reading
        assert reading is not None
        await pilot.press("p")
        rates = [structs.replace(reading.rates[0], verb=f"V{number}") for number in range(20)]
        top.show(structs.replace(reading, rates=rates))
        assert await soon(pilot, lambda: any("V0 " in line for line in drawn(top)))
        assert not any("V19 " in line for line in drawn(top))
        await pilot.press("tab")
        await pilot.press(*["down"] * 20)
        assert await soon(pilot, lambda: any("V19 " in line for line in drawn(top)))
        top.show(structs.replace(reading, rates=rates))
        assert await soon(pilot, lambda: any("V19 " in line for line in drawn(top)))

    watched(machine, watch)


@pytest.mark.kernel
@pytest.mark.parametrize("size", [SMALL, COMMON], ids=str)
def test_a_question_mark_shows_the_keys_until_the_next_key(machine: Machine, size: tuple[int, int]) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await resized(top, pilot, size)
        await pilot.press("question_mark")
        assert await soon(pilot, lambda: any("any key returns" in line for line in drawn(top)))
        for key in ("up, down", "enter", "tab", "f", "p", "?", "q"):
            assert any(f"│ {key}" in line for line in drawn(top)), key
        # What happens meanwhile is drawn behind them.
        await asyncio.to_thread(machine.attach, machine.node.container())
        assert await soon(pilot, lambda: ["ADD", "5"] in [[row[0], row[2]] for row in cells(top, "#rates")])
        await pilot.press("f")
        assert await soon(pilot, lambda: not any("any key returns" in line for line in drawn(top)))
        assert not any("failed events" in line for line in drawn(top))

    watched(machine, watch)


@pytest.mark.kernel
def test_it_can_be_kept_as_a_picture(machine: Machine, tmp_path: Path) -> None:
    busy(machine)

    async def watch(top: Top, _: Pilot[None]) -> None:
        top.save_screenshot("top.svg", str(tmp_path))

    watched(machine, watch)
    picture = (tmp_path / "top.svg").read_text()
    assert picture.startswith("<svg")
    assert "operations" in picture


# In a real terminal.


@pytest.mark.kernel
def test_it_draws_in_a_real_terminal_and_ends_at_a_key(machine: Machine, tmp_path: Path) -> None:
    tmux = shutil.which("tmux")
    assert tmux is not None, "`make setup` installs it"
    busy(machine)
    server = [tmux, "-S", str(tmp_path / "tmux")]
    status = tmp_path / "status"
    command = f"{' '.join(machine.node.command(NETLOOM, 'top'))}; echo $? > {status}"
    environment = {**machine.cli.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [*server, "-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "45", command],
        check=True,
        env=environment,
    )
    try:

        def screen() -> str:
            shown = subprocess.run(
                [*server, "capture-pane", "-p"], capture_output=True, text=True, check=False
            )
            return shown.stdout

        assert eventually(lambda: "10.78.0.0/16" in screen() and "START" in screen()), screen()
        words = ("operations", "latencies", "pools", "events", f"process {machine.agent}")
        assert eventually(lambda: set(words) == {word for word in words if word in screen()}), screen()
        subprocess.run([*server, "send-keys", "q"], check=True)
        assert eventually(status.exists)
        assert eventually(lambda: status.read_text() == "0\n")
    finally:
        subprocess.run([*server, "kill-server"], check=False, capture_output=True)


@pytest.mark.kernel
def test_it_costs_little_to_watch(machine: Machine) -> None:
    """Less than a quarter of one core, on however busy a machine."""
    busy(machine)

    async def watch(_top: Top, pilot: Pilot[None]) -> None:
        await pilot.pause(1)
        shares = []
        for _ in range(3):
            began, used = time.monotonic(), time.process_time()
            await asyncio.sleep(5)
            shares.append((time.process_time() - used) / (time.monotonic() - began))
            if shares[-1] < 0.25:
                return
        raise AssertionError(shares)

    watched(machine, watch)


@pytest.mark.kernel
def test_without_textual_it_says_what_to_install(machine: Machine, tmp_path: Path) -> None:
    """An interpreter that does not find it, as where the extra was not installed."""
    (tmp_path / "hider.py").write_text(
        "import importlib.util as it\n"
        "found = it.find_spec\n"
        "it.find_spec = lambda name, package=None: None if name == 'textual' else found(name, package)\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import hider; "
        "from netloom.cli.main import main; sys.exit(main(['top']))"
    )
    terminal, theirs = os.openpty()
    try:
        done = subprocess.run(
            machine.node.command(sys.executable, "-c", code),
            env=machine.cli.env,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
        )
    finally:
        os.close(theirs)
        os.close(terminal)
    assert done.returncode == 1
    assert b"pip install 'netloom[top]'" in done.stderr
    assert b"netloom explain textual-missing" in done.stderr


@pytest.mark.kernel
def test_a_signal_ends_it_with_the_terminal_as_it_was(machine: Machine) -> None:
    busy(machine)
    terminal, theirs = os.openpty()
    process = subprocess.Popen(
        machine.node.command(NETLOOM, "top"),
        env={**machine.cli.env, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    shown = b""

    def has_shown(what: bytes) -> bool:
        nonlocal shown
        with suppress(BlockingIOError):
            shown += os.read(terminal, 65536)
        return what in shown

    try:
        os.set_blocking(terminal, False)
        assert eventually(lambda: has_shown(b"operations"))
        process.send_signal(signal.SIGTERM)
        # The screen that was there before is shown again.
        assert eventually(lambda: has_shown(b"\x1b[?1049l"))
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
        os.close(theirs)
        os.close(terminal)
