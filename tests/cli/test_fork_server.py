"""A fork of the server behaves as a process of its own does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ..fixtures.cli import NETLOOM, PATIENCE, Cli
from ..fixtures.fork_server import run_forked

pytestmark = pytest.mark.unit


def outcomes(
    cli: Cli, *words: str, directory: Path, stdin: bytes = b"", **variables: str
) -> list[tuple[int, bytes, bytes]]:
    """How the same command ends in a fork, and in a process."""
    environment = {**cli.env, **variables}
    forked = run_forked(
        words, prefix=(), environment=environment, directory=directory, stdin=stdin, timeout=PATIENCE
    )
    assert forked is not None
    started = subprocess.run(
        [NETLOOM, *words], env=environment, cwd=directory, input=stdin, capture_output=True, timeout=PATIENCE
    )
    return [(it.returncode, it.stdout, it.stderr) for it in (forked, started)]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["cni", "add", "--help"], 0),
        (["no-such-command"], 2),
        (["cni", "add", "none", "/run/netns/none"], 3),
        (["explain", "105"], 0),
        (["plan", "check", "-"], 3),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_it_ends_and_speaks_as_a_process(cli: Cli, tmp_path: Path, words: list[str], status: int) -> None:
    forked, started = outcomes(cli, *words, directory=tmp_path, stdin=b"{")
    assert forked == started
    assert forked[0] == status


def test_it_has_the_environment_and_the_directory_that_it_is_given(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.conflist").write_text("{")
    forked, started = outcomes(
        cli, "cni", "validate", "bad.conflist", directory=tmp_path, COLUMNS="40", NETCONFPATH=str(tmp_path)
    )
    assert forked == started
    assert forked[0] == 3


def test_a_failpoint_of_its_environment_is_armed(cli: Cli, tmp_path: Path) -> None:
    forked = run_forked(
        ["--version"],
        prefix=(),
        environment={**cli.env, "NETLOOM_FAILPOINT": "no-such-step"},
        directory=tmp_path,
        timeout=PATIENCE,
    )
    assert forked is not None
    assert (forked.returncode, "unknown step 'no-such-step'" in forked.stderr.decode()) == (1, True)


def test_what_only_a_process_can_have_needs_a_process(cli: Cli, tmp_path: Path) -> None:
    for variable in ("LD_PRELOAD", "PYTHONWARNINGS"):
        environment = {**os.environ, variable: "x"}
        assert (
            run_forked(
                ["--version"], prefix=(), environment=environment, directory=tmp_path, timeout=PATIENCE
            )
            is None
        )
    words = ("setpriv", "--no-new-privs")
    assert run_forked((), prefix=words, environment=cli.env, directory=tmp_path, timeout=PATIENCE) is None
