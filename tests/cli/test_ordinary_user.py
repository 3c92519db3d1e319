"""Whoever is not root is sent to root, and sees nothing of libraries that complain on their own."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine

pytestmark = pytest.mark.kernel

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/run") as directory:
        os.chmod(directory, 0o777)
        yield Path(directory)


@pytest.mark.parametrize("words", [("journal", "verify"), ("ls",), ("pools",), ("status",)], ids=" ".join)
def test_what_only_root_may_read_is_for_root(machine: Machine, words: tuple[str, ...]) -> None:
    os.chmod(machine.node.state_dir, 0o700)
    outcome = machine.run(*words, "--json", prefix=AS_NOBODY)
    assert (outcome.status, outcome.error["next"]) == (1, "run it as root")


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
