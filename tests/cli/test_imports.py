"""A command imports only what it needs: a start costs milliseconds, and imports are most of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from netloom.journal import Journal

from ..fixtures.cli import PATIENCE, Cli
from ..journal.rows import attachment

pytestmark = pytest.mark.unit


_REPORT = """
import sys
from netloom.cli.main import main
try:
    status = main()
finally:
    print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""


def imported(cli: Cli, *words: str) -> set[str]:
    """The modules that a run of the command imports."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, *words],
        env=cli.env,
        cwd=cli.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_the_version_needs_neither_msgspec_nor_argparse(cli: Cli) -> None:
    modules = imported(cli, "--version")

    assert "netloom.cli.main" in modules
    assert modules.isdisjoint({"msgspec", "argparse", "asyncio", "netloom.cni"})


def test_no_guess_is_prepared_for_who_makes_no_mistake(cli: Cli) -> None:
    assert imported(cli, "ls", "--help").isdisjoint({"difflib", "netloom.cli.completion"})


def test_help_needs_no_event_loop(cli: Cli) -> None:
    modules = imported(cli, "cni", "add", "--help")

    assert "netloom.cli.commands.cni.add" in modules
    assert "asyncio" not in modules


def test_a_list_of_attachments_needs_neither_the_kernel_nor_the_agent(cli: Cli) -> None:
    state_dir = cli.directory / "state"
    with Journal(str(state_dir / "journal.db")) as journal:
        journal.change(lambda ledger: ledger.reserve(attachment(), [])).result(PATIENCE)

    modules = imported(cli, "ls", "--state-dir", str(state_dir), "--socket", str(state_dir / "socket"))

    assert "netloom.ops.inspect.plan_facts" in modules
    assert modules.isdisjoint({"asyncio", "hashlib", "shutil", "subprocess"})
    assert modules.isdisjoint({"netloom.agent", "netloom.cni.exec", "netloom.kernel"})


@pytest.mark.parametrize("words", [("events",), ("explain", "105")])
def test_the_log_is_read_without_an_event_loop(cli: Cli, words: tuple[str, ...]) -> None:
    """Though the agent is asked first to write down what it knows."""
    state_dir = cli.directory / "state"
    with Journal(str(state_dir / "journal.db")):
        place = ("--state-dir", str(state_dir), "--socket", str(state_dir / "socket"))
    modules = imported(cli, *words, *place)

    assert "netloom.ops.control.asking" in modules
    assert modules.isdisjoint({"asyncio", "netloom.agent.node", "netloom.kernel"})


def test_a_completion_needs_none_of_the_commands(cli: Cli) -> None:
    modules = imported(cli, "__complete", "inspect", "")

    assert "netloom.cli.completion" in modules
    assert modules.isdisjoint({"msgspec", "netloom.cli.commands.inspect", "netloom.cni", "netloom.journal"})


def test_a_command_does_not_import_its_neighbours(cli: Cli) -> None:
    modules = imported(cli, "cni", "status", cli.recorded_network())

    assert {name for name in modules if name.startswith("netloom.cli.commands.cni.")} == {
        "netloom.cli.commands.cni.status",
        "netloom.cli.commands.cni.target",
    }


def test_an_attachment_needs_no_event_loop_and_no_subprocess(cli: Cli) -> None:
    cache = str(cli.cache)

    modules = imported(cli, "cni", "add", cli.recorded_network(), "/ns", "--cache-dir", cache)

    assert cli.verbs == ["ADD"]
    assert modules.isdisjoint({"asyncio", "shutil", "subprocess", "netloom.cni.aio", "netloom.cni.plugin"})
    assert not any(it.startswith("netloom.kernel") for it in modules)
