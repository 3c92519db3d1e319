"""The checks at the end of a run can fail: a leak of every kind, and a lane that did not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .lanes import ROOT

LEAKS = {
    "link leak0": "ip link add leak0 type veth peer name leak1",
    "namespace leak": "ip netns add leak",
    "nft table table ip leak": "nft add table ip leak",
    "mount /mnt": "mount -t tmpfs leak /mnt",
    "process": "sleep 4 &",
}


def run_of(directory: Path, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, with one test of the kernel lane that executes a command."""
    source = f"""
import subprocess
import pytest

@pytest.mark.kernel
def test_something():
    subprocess.run({command!r}, shell=True, check=True)
"""
    (directory / "test_something.py").write_text(source)
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(directory), *options]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *words, str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.kernel
@pytest.mark.parametrize("left", LEAKS)
def test_a_run_that_leaves_something_behind_fails_and_names_it(tmp_path: Path, left: str) -> None:
    done = run_of(tmp_path, LEAKS[left])
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert f"\n{left}" in done.stdout


@pytest.mark.kernel
def test_a_run_that_leaves_nothing_behind_passes(tmp_path: Path) -> None:
    done = run_of(tmp_path, "true")
    assert done.returncode == 0
    assert "\nnothing (namespaces, links, nft tables, mounts, processes)\n" in done.stdout


@pytest.mark.kernel
def test_a_lane_that_could_run_and_did_not_fails_the_run(tmp_path: Path) -> None:
    done = run_of(tmp_path, "true", "--every-lane")
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "could run and did not: unit" in done.stdout
