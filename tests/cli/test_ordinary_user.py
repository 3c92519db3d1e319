"""Whoever is not root is sent to root, and sees nothing of libraries that complain on their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/run") as directory:
        os.chmod(directory, 0o777)
        yield Path(directory)


# What each is called with, beside `--json`; CONTAINER is one that is attached.
COMMANDS = [
    ("journal", "verify"), ("ls",), ("pools",), ("status",), ("ports",), ("events",), ("check",), ("gc",),
    ("gc", "--dry-run"), ("explain", "CONTAINER"), ("inspect", "CONTAINER"), ("doctor",),
]  # fmt: skip


@pytest.fixture(params=["nothing", "state", "all"])
def readable(machine: Machine, request: pytest.FixtureRequest) -> Machine:
    """A node of whose directories others may enter none, that of the state, or both."""
    machine.node.directory.chmod(0o755)
    machine.node.state_dir.chmod(0o700 if request.param == "nothing" else 0o755)
    machine.node.socket.parent.chmod(0o755 if request.param == "all" else 0o700)
    machine.attach(machine.node.container("theirs"))
    return machine


def test_what_only_root_may_read_is_for_root(readable: Machine) -> None:
    """Each says what was denied, and how the same is run as root."""
    for words in COMMANDS:
        given = ["theirs" if it == "CONTAINER" else it for it in words]
        outcome = readable.run(*given, "--json", prefix=AS_NOBODY)
        error = outcome.error
        assert (outcome.status, words) == (1, words)
        assert "permission denied" in error["error"].lower(), words
        assert error["code"] in ("needs-root", "journal-unreadable"), words
        (command,) = re.findall("`([^`]+)`", error["next"])
        assert shlex.split(command)[0] == "sudo", words
        assert shlex.split(command)[-len(given) - 1 :] == [*given, "--json"], words


def test_the_command_for_root_leads_to_the_same_node(readable: Machine) -> None:
    """Variables that say where the node is are not lost on the way."""
    (command,) = re.findall("`([^`]+)`", readable.run("ls", "--json", prefix=AS_NOBODY).error["next"])
    (kept,) = [it for it in shlex.split(command) if it.startswith("--preserve-env=")]
    assert {"NETLOOM_STATE_DIR", "NETLOOM_SOCKET"} <= set(kept.partition("=")[2].split(","))


def test_a_bundle_says_which_parts_are_for_root_and_nothing_else(machine: Machine, open_to_all: Path) -> None:
    path = open_to_all / "b.tar.gz"
    outcome = machine.run("bundle", str(path), prefix=AS_NOBODY)
    assert (outcome.status, outcome.stderr) == (0, "")
    with tarfile.open(path) as archive:
        file = archive.extractfile("netloom-bundle/MANIFEST.json")
        assert file is not None
        parts = {it["name"]: it for it in json.load(file)["parts"]}
    for name in ("kernel/nft-netloom.txt", "kernel/nft-others.json"):
        assert parts[name]["error"] == "only root may read nftables: run it as root"


def test_where_no_node_is_yet_both_ways_to_one_are_told(bare: Machine) -> None:
    advice = bare.run("cni", "validate", "--json").error["next"]
    assert "`netloom up`" in advice
    assert "NETCONFPATH" in advice
