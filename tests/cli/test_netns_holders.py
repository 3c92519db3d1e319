"""Who holds a namespace is named whatever others call their mounts, and what is advised does that alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from netloom.api.text import for_shell

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

# As bytes, since that is all that a path has to be.
NAMES = (
    b"plain", b"two words", b"x;touch injected", b"$(touch injected)", b"`touch injected`", b"it's", b"a\"b",
    b"\xff\xfe", b"\x1b[31mred", b"tab\there", b"line\nbreak", b"return\rhere", b"form\x0cfeed",
    b"back\\slash", b"\\040", b"no\xc2\xa0break", b"\xe2\x80\xa8", b"\xc3\xa4", b"#", b"-f",
)  # fmt: skip

# In a mount namespace of its own, it has a namespace mounted at many places.
_HOLD = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def done(result):
    if result:
        raise OSError(ctypes.get_errno(), "")
done(libc.unshare(0x20000))
done(libc.mount(b"none", b"/", None, 0x44000, None))
done(libc.prctl(15, b"\\xff\\xfebad", 0, 0, 0))
source, *places = map(os.fsencode, sys.argv[1:])
for place in places:
    open(place, "w").close()
    done(libc.mount(source, place, None, 0x1000, None))
print(flush=True)
sys.stdin.read()
"""


class Held(NamedTuple):
    machine: Machine
    container: str
    directory: Path
    process: int

    @property
    def places(self) -> list[bytes]:
        return [bytes(self.directory) + b"/" + name for name in NAMES]

    def mounts(self) -> int:
        return Path(f"/proc/{self.process}/mountinfo").read_bytes().count(bytes(self.directory) + b"/")

    def advice(self, place: bytes) -> str:
        return f"nsenter --mount=/proc/{self.process}/ns/mnt umount {for_shell(os.fsdecode(place))}"


def naming(machine: Machine, holder: str, *words: str) -> Outcome:
    """Asked until a holder is named: on a busy machine, the search ends before it has seen every process."""
    outcomes: list[Outcome] = []

    def is_named() -> bool:
        outcomes.append(machine.run(*words))
        return holder in outcomes[-1].stdout

    assert eventually(is_named), outcomes[-1]
    return outcomes[-1]


@pytest.fixture
def held(machine: Machine, tmp_path: Path) -> Iterator[Held]:
    container = machine.node.container()
    machine.attach(container)
    places = [bytes(tmp_path) + b"/" + name for name in NAMES]
    words: list[str | bytes] = [sys.executable, "-c", _HOLD, f"/run/netns/{container}", *places]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        machine.node.remove_container(container)
        yield Held(machine, container, tmp_path, process.pid)
        process.communicate(timeout=20)


def test_every_place_is_named_and_what_is_advised_takes_that_mount_away_and_does_nothing_else(
    held: Held,
) -> None:
    outcome = naming(held.machine, str(held.directory / "plain"), "doctor", "--json", "--only", "netns-busy")
    (finding,) = outcome.document["findings"]
    assert held.mounts() == len(NAMES)
    for number, place in enumerate(held.places):
        advice = held.advice(place)
        assert f"`{advice}`" in finding["next"]
        subprocess.run(["bash", "-c", advice], check=True, cwd=held.directory)
        assert held.mounts() == len(NAMES) - number - 1
    assert not (held.directory / "injected").exists()


@pytest.mark.parametrize("words", [("doctor", "--only", "netns-busy"), ("inspect",)], ids=" ".join)
def test_nothing_that_others_have_named_steers_a_terminal(held: Held, words: tuple[str, ...]) -> None:
    asked = (*words, held.container) if words == ("inspect",) else words
    outcome = naming(held.machine, str(held.directory / "plain"), *asked)
    shown = outcome.stdout + outcome.stderr
    assert "Traceback" not in shown
    assert all(it.isprintable() or it == "\n" for it in shown)
    # A line break of a name begins no line of ours.
    assert not re.search(r"^break", shown, re.MULTILINE)


def test_a_command_line_with_line_breaks_writes_no_finding_of_its_own(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "x\n  next: `touch y`"]
    entered = ["nsenter", f"--net=/run/netns/{container}", *words]
    with subprocess.Popen(entered, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        machine.node.remove_container(container)
        shown = naming(machine, f"process {process.pid} ", "doctor", "--only", "netns-busy").stdout
        process.communicate(timeout=20)
    assert not re.search(r"^  next: `touch", shown, re.MULTILINE)
