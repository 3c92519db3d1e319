"""`netloom top`: the node's numbers, once as a document, and live on a screen."""

from __future__ import annotations

import argparse
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

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from netloom.cli.event import Event
from netloom.cli.top.meter import Meter
from netloom.cli.top.reading import latencies_of, percentile, rates_of, seconds_of
from netloom.cli.top.screen import Top

from ..agent.stage import PATIENCE, eventually
from .machine import Machine
from .stage import NETLOOM

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


@pytest.mark.kernel
def test_the_numbers_are_a_document(machine: Machine) -> None:
    busy(machine)
    outcome = machine.run("top", "--json")
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
    args = argparse.Namespace(
        state_dir=str(machine.node.state_dir),
        socket=str(machine.node.socket),
        conf_dir=str(machine.stage.networks),
        json=False,
    )

    async def run() -> None:
        top = Top(Meter(args))
        async with top.run_test(size=(140, 45)) as pilot:
            assert await soon(pilot, lambda: bool(cells(top, "#rates")))
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
    table: DataTable[Any] = top.query_one(name, DataTable)
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


def text(top: Top, name: str) -> str:
    return str(top.query_one(name, Static).content)


@pytest.mark.kernel
def test_operations_latencies_pools_and_events_are_on_the_screen(machine: Machine) -> None:
    busy(machine)

    async def watch(top: Top, _: Pilot[None]) -> None:
        rates = {row[0]: row for row in cells(top, "#rates")}
        assert (rates["ADD"][2], rates["ADD"][3]) == ("4", "1")
        assert "ADD kernel" in [row[0] for row in cells(top, "#latencies")]
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


@pytest.mark.kernel
def test_a_small_screen_shows_it_all_the_same(machine: Machine) -> None:
    busy(machine)

    async def watch(top: Top, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.2)
        assert cells(top, "#events")
        assert top.query_one("#events", DataTable).size.height >= 2
        assert top.query_one("#rates", DataTable).size.height >= 2

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
    environment = {**machine.stage.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
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
        for word in ("operations", "latencies", "pools", "events", f"process {machine.agent}"):
            assert word in screen()
        subprocess.run([*server, "send-keys", "q"], check=True)
        assert eventually(status.exists)
        assert eventually(lambda: status.read_text() == "0\n")
    finally:
        subprocess.run([*server, "kill-server"], check=False, capture_output=True)


@pytest.mark.kernel
def test_it_costs_little_to_watch(machine: Machine) -> None:
    """Less than a quarter of one core, on however busy a machine."""
    busy(machine)

    async def watch(_: Top, pilot: Pilot[None]) -> None:
        await pilot.pause(1)
        began, used = time.monotonic(), time.process_time()
        await asyncio.sleep(5)
        assert (time.process_time() - used) / (time.monotonic() - began) < 0.25

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
            env=machine.stage.env,
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
        env={**machine.stage.env, "TERM": "xterm-256color"},
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
