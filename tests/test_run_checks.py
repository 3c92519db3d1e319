"""The checks at the end of a run can fail: leaks of every kind, a lane that did not run, a dead worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lanes import ROOT
from .workers import FULL_KERNEL, LONG, TOGETHER, group_of

LEAKS = {
    "link leak0": "ip link add leak0 type veth peer name leak1",
    "namespace leak": "ip netns add leak",
    "nft table table ip leak": "nft add table ip leak",
    "mount /mnt": "mount -t tmpfs leak /mnt",
    "process": "sleep 300 &",
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


def end_left(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Processes that a run named as left behind; they are ended."""
    left = [int(it) for it in re.findall(r"^process (\d+): sleep 300", done.stdout, re.MULTILINE)]
    for process in left:
        os.kill(process, signal.SIGKILL)
    return left


# In one process, and shared out.
WAYS = pytest.mark.parametrize("way", [(), ("-n", "2")], ids=["alone", "workers"])


@pytest.fixture
def machine() -> Iterator[str]:
    """What to put before a command, so that the run's own machine is what it acts upon."""
    # The shell's parent runs the test, and its parent is where the run was started, or shared out.
    yield "nsenter --net --target $(ps -o ppid= -p $PPID)"
    subprocess.run(["ip", "link", "del", "leak0"], check=False, capture_output=True)


@pytest.mark.kernel
@pytest.mark.parametrize("left", LEAKS)
def test_a_run_that_leaves_something_behind_fails_and_names_it(tmp_path: Path, left: str) -> None:
    done = run_of(tmp_path, LEAKS[left])
    end_left(done)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert f"\n{left}" in done.stdout


@pytest.mark.kernel
def test_what_a_worker_leaves_behind_fails_the_run_and_is_named(tmp_path: Path) -> None:
    done = run_of(tmp_path, "\n".join(LEAKS.values()), "-n", "2")
    end_left(done)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert [left for left in LEAKS if f"\n{left}" not in done.stdout] == []


@pytest.mark.kernel
@WAYS
def test_a_run_that_leaves_something_on_the_machine_fails_and_names_it(
    tmp_path: Path, machine: str, way: tuple[str, ...]
) -> None:
    done = run_of(tmp_path, f"{machine} ip link add leak0 type veth peer name leak1", *way)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "\nlink leak0 on the machine\n" in done.stdout


@pytest.mark.kernel
@WAYS
def test_a_run_that_leaves_nothing_behind_passes(tmp_path: Path, way: tuple[str, ...]) -> None:
    done = run_of(tmp_path, "true", *way)
    assert done.returncode == 0
    assert "\nkernel     1 passed, 0 failed " in done.stdout
    assert "\nnothing (namespaces, links, nft tables, mounts, processes)\n" in done.stdout


@pytest.mark.kernel
@WAYS
def test_a_lane_that_could_run_and_did_not_fails_the_run(tmp_path: Path, way: tuple[str, ...]) -> None:
    done = run_of(tmp_path, "true", "--every-lane", *way)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "could run and did not: unit" in done.stdout


@pytest.mark.kernel
@WAYS
def test_a_lane_of_which_tests_were_deselected_fails_the_run(tmp_path: Path, way: tuple[str, ...]) -> None:
    (tmp_path / "test_more.py").write_text(
        "import pytest\n@pytest.mark.kernel\ndef test_more(): pass\n",
    )
    done = run_of(tmp_path, "true", "--every-lane", "-k", "something", *way)
    assert done.returncode == 1
    assert "could run and did not: kernel: 1 of 2 tests did not run" in done.stdout


@pytest.mark.kernel
def test_a_worker_that_dies_fails_the_run_and_what_it_leaves_is_named(tmp_path: Path) -> None:
    done = run_of(tmp_path, "sleep 300 & kill -9 $PPID", "-n", "2", "--every-lane")
    assert len(end_left(done)) == 1
    assert done.returncode == 1
    assert re.search(r"^worker gw[01] died: ", done.stdout, re.MULTILINE)
    assert "could run and did not: kernel: 1 of 1 tests did not run" in done.stdout


@pytest.mark.unit
def test_the_full_kernel_lane_stays_together_and_goes_first() -> None:
    guests = "tests/fullkernel/test_sctp.py::test_it", "tests/kernel/test_wireguard.py::test_it[a::b]"
    assert {group_of(it) for it in guests} == {FULL_KERNEL} == {LONG[0]}


@pytest.mark.unit
def test_other_tests_stay_with_those_of_their_file() -> None:
    assert group_of("tests/cni/test_lock.py::test_it[a::b]") == "tests/cni/test_lock.py"


@pytest.mark.unit
def test_what_goes_first_is_there() -> None:
    assert [it for it in LONG if it not in TOGETHER.values() and not (ROOT / it).is_file()] == []
    assert [it for it in TOGETHER if not (ROOT / it).exists()] == []
