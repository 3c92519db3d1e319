"""Names that are no text, or would steer a terminal: nothing has them, and they can be shown and copied."""

from __future__ import annotations

import subprocess

import pytest

from netloom.api.text import for_shell

from ..fixtures.machine import Machine

WORDS = [
    "web",
    "two words",
    "it's",
    "$HOME",
    "\x1b[31mred\a",
    "back\\slash\t'",
    "\u202egnp",
    "\x9b1m",
    "\udcff\udc80",
]


@pytest.mark.unit
@pytest.mark.parametrize("word", WORDS)
def test_a_quoted_word_is_itself_again_in_a_shell(word: str) -> None:
    quoted = for_shell(word)
    assert quoted.isprintable()
    echoed = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True)
    assert echoed.stdout == word.encode("utf-8", "surrogateescape")


@pytest.mark.kernel
def test_a_name_that_is_no_text_is_a_name_that_nothing_has(machine: Machine) -> None:
    machine.attach(machine.node.container())
    for name in ("\udcff\udcfe\udc80", "a/\udcff", "net/\udcff/eth0", "/run/netns/\udcff"):
        explained = machine.run("explain", name, "--json")
        assert (explained.status, explained.document["kind"]) == (1, "unknown")
        for command in ("inspect", "check"):
            assert machine.run(command, name, "--json").error["code"] == "not-attached"
        assert machine.run("explain", name).status == 1


@pytest.mark.kernel
def test_a_name_that_would_steer_a_terminal_is_written_out_in_every_line(machine: Machine) -> None:
    for command in ("inspect", "check"):
        outcome = machine.run(command, "\x1b[31mred\a")
        assert outcome.status == 1
        assert all(line.isprintable() for line in outcome.stderr.splitlines())
        assert "`netloom explain $'\\x1b[31mred\\x07'`" in outcome.said["next"]


@pytest.mark.kernel
def test_a_name_with_line_breaks_makes_no_line_of_its_own(machine: Machine) -> None:
    """Else a pod could show what looks like an attachment, an event or a finding."""
    container = machine.node.container()
    forged = "netloom  deadbeef  eth0  10.78.9.9"
    machine.attach(container, CNI_ARGS=f"IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web\n{forged}")
    for words in (
        ("ls",),
        ("events",),
        ("explain", container),
        ("inspect", container),
        ("check",),
        ("top", "--json"),
    ):
        outcome = machine.run(*words)
        forging = [it for it in outcome.stdout.splitlines() if it.lstrip().startswith(forged)]
        assert forging == [], words
    assert "web\\nnetloom" in machine.run("ls").stdout
