"""What `make test` and `make soak` run: the whole, or the part that is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .lanes import ROOT

pytestmark = pytest.mark.unit


def pytest_command(*words: str) -> list[str]:
    """How `make` would run pytest: its arguments."""
    planned = subprocess.run(
        ["make", "--no-print-directory", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    [line] = (it for it in planned.splitlines() if " -m pytest " in it)
    return line.partition(" -m pytest ")[2].split()


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ([], ["--every-lane", "-n", "4"]),
        (["WORKERS=1"], ["--every-lane", "-n", "1"]),
        (["LANE=kernel"], ["-n", "4", "-m", "'kernel'"]),
        (["ONLY=tests/agent"], ["-n", "4", "tests/agent"]),
        (
            ["ONLY=tests/cni tests/ipam", "LANE=unit"],
            ["-n", "4", "-m", "'unit'", "tests/cni", "tests/ipam"],
        ),
    ],
    ids=str,
)
def test_the_whole_is_every_lane_and_a_part_is_what_was_asked_for(
    variables: list[str], arguments: list[str]
) -> None:
    assert pytest_command("test", *variables) == arguments


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_soak_runs_the_tests_that_are_shorter_otherwise_and_no_others() -> None:
    assert pytest_command("soak") == ["--soak"]
    said = run("--soak", "--collect-only", "tests/agent/test_model.py", "tests/agent/test_settings.py").stdout
    assert [it for it in said.splitlines() if "::" in it] == [
        "tests/agent/test_model.py::test_every_answer_is_what_a_simple_model_says"
    ]


_SHORTER = """
import pytest

@pytest.mark.unit
def test_long(soak):
    if not soak: pytest.fail("it is not whole")
    {body}
"""


@pytest.mark.parametrize(("body", "status"), [("pass", 0), ("pytest.skip('it cannot run here')", 1)])
def test_a_soak_that_skips_a_test_fails(tmp_path: Path, body: str, status: int) -> None:
    path = tmp_path / "test_shorter.py"
    path.write_text(_SHORTER.format(body=body))
    done = run("-p", "tests.conftest", "-c", "pyproject.toml", "--rootdir", str(ROOT), "--soak", str(path))
    assert done.returncode == status, done.stdout + done.stderr
