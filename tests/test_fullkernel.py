"""The full-kernel lane tells the truth: what fails, dies or lingers in the guest fails on the machine."""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from .fullkernel.guest import INSIDE, Guest, newest_kernel, why_no_guest
from .lanes import ROOT

DYING = """
import pytest

pytestmark = pytest.mark.fullkernel

def test_that_passes(tmp_path):
    assert tmp_path.is_dir()

@pytest.mark.parametrize("number", [7], ids=["a::b[c] d"])
def test_that_fails(number):
    print("said in the guest")
    assert number + 1 == 3

@pytest.mark.skip(reason="not in this guest")
def test_that_is_skipped():
    pass

def test_that_dies():
    open("/proc/sysrq-trigger", "w").write("c")

def test_that_comes_later():
    pass
"""

LEAVING = """
import subprocess
import pytest

@pytest.mark.fullkernel
def test_something():
    subprocess.run("ip link add leak0 type dummy", shell=True, check=True)
"""


class Run:
    """A run of its own over one file of tests, in a directory that only the machine has."""

    def __init__(self, directory: Path, source: str) -> None:
        (directory / "test_something.py").write_text(source)
        report = directory / "report.xml"
        plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
        places = ["-c", "pyproject.toml", "--rootdir", str(directory), f"--junit-xml={report}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *places, str(directory)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.code = done.returncode
        self.output = done.stdout
        self.cases = {case.attrib["name"]: case for case in ElementTree.parse(report).iter("testcase")}

    def failure(self, name: str) -> str:
        text = self.cases[name].findtext("failure")
        assert text is not None, f"{name} did not fail"
        return text


@pytest.fixture(scope="module")
def _guest_can_boot() -> None:
    reason = why_no_guest()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def dying(_guest_can_boot: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("dying"), DYING)


@pytest.mark.kernel
def test_what_passes_and_what_is_skipped_in_the_guest_does_so_here(dying: Run) -> None:
    assert "1 skipped: not in this guest" in dying.output
    assert [it.tag for it in dying.cases["test_that_passes"] if it.tag != "properties"] == []
    assert "3 failed, 1 passed, 1 skipped" in dying.output


@pytest.mark.kernel
def test_a_failure_in_the_guest_brings_its_text_and_its_output(dying: Run) -> None:
    assert dying.code == 1
    assert "assert (7 + 1) == 3" in dying.failure("test_that_fails[a::b[c] d]")
    assert "said in the guest" in dying.output


@pytest.mark.kernel
def test_a_guest_that_dies_fails_the_test_that_ran_and_shows_its_console(dying: Run) -> None:
    failure = dying.failure("test_that_dies")
    assert "exit code 255, while this test ran" in failure
    assert "Kernel panic - not syncing: sysrq triggered crash" in failure


@pytest.mark.kernel
def test_a_guest_that_dies_fails_the_tests_that_it_did_not_reach(dying: Run) -> None:
    assert "exit code 255, before this test" in dying.failure("test_that_comes_later")


@pytest.mark.kernel
@pytest.mark.usefixtures("_guest_can_boot")
def test_a_run_that_fails_in_the_guest_fails_here_though_its_tests_passed(tmp_path: Path) -> None:
    run = Run(tmp_path, LEAVING)
    assert "1 passed" in run.output
    assert run.code == 1
    assert "The guest ended with exit code 1, though no test failed" in run.output
    assert "link leak0 in the run's namespace" in run.output


@pytest.mark.kernel
@pytest.mark.usefixtures("_guest_can_boot")
def test_a_guest_ends_at_its_deadline() -> None:
    guest = Guest(["sleep", "60"], [], deadline=3)
    started = time.monotonic()
    guest.start()
    assert guest.wait() != 0
    assert time.monotonic() - started < 50
    assert guest.expired
    guest.end()


@pytest.mark.unit
def test_the_newest_kernel_with_modules_is_chosen(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    for release in ("6.1.0-9-amd64", "6.1.0-54-amd64", "6.1.0-60-rt-amd64", "6.1.0-60-cloud-amd64"):
        (modules / release).mkdir(parents=True)
        (tmp_path / f"vmlinuz-{release}").touch()
    (tmp_path / "vmlinuz-6.12.9+bpo-amd64").touch()
    assert newest_kernel(tmp_path, modules) == tmp_path / "vmlinuz-6.1.0-54-amd64"
    (modules / "6.12.9+bpo-amd64").mkdir()
    assert newest_kernel(tmp_path, modules) == tmp_path / "vmlinuz-6.12.9+bpo-amd64"


@pytest.mark.unit
def test_a_machine_without_a_kernel_to_boot_has_none(tmp_path: Path) -> None:
    assert newest_kernel(tmp_path, tmp_path) is None


@pytest.mark.unit
def test_the_lane_says_which_package_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(INSIDE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_no_guest() == "needs the package qemu-system-x86"
