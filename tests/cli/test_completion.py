"""Completion by real shells: what they offer for a word that somebody has begun."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from netloom.cli.completion import candidates
from netloom.cli.tree import TREE, Command
from netloom.journal import Journal, Ledger

from ..fixtures.cli import NETLOOM, PATIENCE, Cli
from ..journal.rows import attachment

CONTAINERS = ("0a1b2c3d4e5f", "0a1b2c3d9999", "web-1")
COMMANDS = [
    [word] if isinstance(node, Command) else [word, verb]
    for word, node in TREE.items()
    for verb in ([""] if isinstance(node, Command) else node.commands)
]


@pytest.fixture
def node(cli: Cli) -> Cli:
    """A machine with two networks and three containers, one of them a pod; no agent runs."""
    cli.network("front", "any")
    cli.network("back", "any")
    (cli.networks / "broken.conflist").write_text("{")
    cli.env |= {"NETLOOM_STATE_DIR": str(cli.directory / "state"), "HOME": str(cli.directory)}
    write_journal(cli.directory / "state")
    return cli


def write_journal(state_dir: Path) -> None:
    """As an agent does."""

    def attach(ledger: Ledger) -> None:
        for number, name in enumerate(CONTAINERS):
            row = replace(attachment(name), namespace="shop", pod=f"api-{number}")
            ledger.reserve(row, [bytes((10, 9, 0, number)), bytes((0xFD, 9, *[0] * 13, number))])

    with Journal(str(state_dir / "journal.db")) as journal:
        journal.change(attach).result(PATIENCE)


def offered(node: Cli, *words: str) -> list[str]:
    outcome = node.run("__complete", *words)
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.stdout.splitlines()


@pytest.mark.unit
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_options_of_every_command_are_known(command: list[str]) -> None:
    assert "--help" in candidates([it for it in command if it])


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ls", ""], ["front", "back"]),
        (["cni", "add", "f"], ["front"]),
        (["inspect", "0a"], ["0a1b2c3d4e5f", "0a1b2c3d9999"]),
        (["inspect", "shop/"], ["shop/api-0", "shop/api-1", "shop/api-2"]),
        (["inspect", "net/w"], ["net/web-1/eth0"]),
        (["explain", "web"], ["web-1"]),
        (["explain", "10.9.0.1"], ["10.9.0.1"]),
        (["explain", "fd09::"], ["fd09::", "fd09::1", "fd09::2"]),
        (["explain", "journal-g"], ["journal-gone"]),
        (["explain", "105"], ["105"]),
        (["plan", "show", "back", "--container-id", "w"], ["web-1"]),
        (["cni", "del", "front", "x", "--container-id", "we"], ["web-1"]),
        (["up", "--cni-version", "1"], ["1.0.0", "1.1.0"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["up", "--fo"], ["--force"]),
        (["cni", "add", "front", "--timeout", ""], []),
        (["nonsense", ""], []),
    ],
    ids=lambda it: " ".join(it),
)
def test_what_is_offered(node: Cli, words: list[str], expected: list[str]) -> None:
    assert offered(node, *words) == expected


@pytest.mark.unit
def test_another_place_that_was_given_counts(node: Cli) -> None:
    elsewhere = node.directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.conflist").write_text('{"name": "far"}')
    assert offered(node, "ls", "--conf-dir", str(elsewhere), "") == ["far"]
    assert offered(node, "inspect", "--state-dir", str(elsewhere), "") == []


@pytest.mark.unit
@pytest.mark.parametrize("damage", ["none", "directory", "rubbish"])
def test_nothing_that_is_wrong_is_an_error(node: Cli, damage: str) -> None:
    state = node.directory / "other"
    if damage != "none":
        state.mkdir()
    if damage == "directory":
        (state / "journal.db").mkdir()
    if damage == "rubbish":
        (state / "journal.db").write_bytes(b"no database at all" * 100)
    node.env |= {"NETLOOM_STATE_DIR": str(state), "NETCONFPATH": str(node.directory / "no-such")}
    assert offered(node, "inspect", "") == []
    assert offered(node, "ls", "") == []
    assert offered(node, "explain", "journal-g") == ["journal-gone"]


@pytest.mark.unit
def test_an_answer_comes_at_once(node: Cli) -> None:
    """Half of a person's patience would be 150 ms; a machine that is busy gets some more, and more tries."""

    def took(words: list[str]) -> float:
        began = time.monotonic()
        offered(node, *words)
        return time.monotonic() - began

    for words in (["ls", ""], ["up", "--"], ["explain", ""], ["inspect", ""]):
        assert any(took(words) < 0.3 for _ in range(20)), words


class Terminal:
    """A shell at which somebody types."""

    def __init__(self, cli: Cli, *command: str) -> None:
        pid, self._terminal = os.forkpty()
        if pid == 0:
            path = f"{os.path.dirname(NETLOOM)}:{cli.env['PATH']}"
            # Wide enough that no line is broken.
            env = {
                **cli.env,
                "PATH": path,
                "TERM": "dumb",
                "COLUMNS": "200",
                "PS1": "$ ",
                "INPUTRC": "/dev/null",
            }
            os.chdir(cli.directory)
            os.execvpe(command[0], command, env)
        self._process = pid
        self.shown = ""

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, wanted: str) -> None:
        """Waits for what is shown, without what steers the terminal."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.shown:
            ready, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{wanted!r} was not shown; there is {self.shown!r}"
            chunk = os.read(self._terminal, 65536).decode(errors="replace")
            self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|[\r\x07]", "", chunk)

    def close(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._terminal)


@contextmanager
def terminal(cli: Cli, *command: str) -> Iterator[Terminal]:
    opened = Terminal(cli, *command)
    try:
        yield opened
    finally:
        opened.close()


# What is typed before Tab, and what stands there then.
TYPED = [
    ("cni attachm", "cni attachments "),
    ("inspect we", "inspect web-1 "),
    ("ls fr", "ls front "),
    ("explain journal-go", "explain journal-gone "),
    ("up --forc", "up --force "),
]


@pytest.mark.unit
@pytest.mark.parametrize(("typed", "there"), [*TYPED, ("explain fd09::2", "explain fd09::2 ")])
def test_bash_completes_what_is_typed(node: Cli, typed: str, there: str) -> None:
    with terminal(node, "bash", "--noprofile", "--norc", "-i") as shell:
        shell.until("$ ")
        shell.types('eval "$(netloom completion bash)"; echo read""y\n')
        shell.until("\nready\n")
        shell.types(f"netloom {typed}\t")
        shell.until(f"netloom {there}")


@pytest.mark.interop
@pytest.mark.parametrize(("typed", "there"), TYPED)
def test_zsh_completes_what_is_typed(node: Cli, typed: str, there: str) -> None:
    with terminal(node, "zsh", "-f", "-i") as shell:
        shell.until("$ ")
        shell.types('autoload -Uz compinit; compinit -u -D; eval "$(netloom completion zsh)"; echo read""y\n')
        shell.until("\nready\n")
        shell.types(f"netloom {typed}\t")
        shell.until(f"netloom {there}")


@pytest.mark.interop
@pytest.mark.parametrize(("typed", "there"), TYPED)
def test_fish_offers_what_was_begun(node: Cli, typed: str, there: str) -> None:
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"netloom completion fish | source; complete -C 'netloom {typed}'"],
        env={**node.env, "PATH": f"{os.path.dirname(NETLOOM)}:{node.env['PATH']}"},
        cwd=node.directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [there.split()[-1]]
