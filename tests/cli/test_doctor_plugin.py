"""What `netloom doctor` says of the plugin's place, and what `--fix` does there: nothing that is not safe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import PLUGIN

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

THEIRS = b"#!/bin/sh\nexit 0\n"


@pytest.fixture
def place(machine: Machine) -> Path:
    """A place at which the plugin was never installed, where somebody else's file is."""
    path = machine.cli.directory / "other" / "netloom"
    path.parent.mkdir()
    path.write_bytes(THEIRS)
    path.chmod(0o755)
    return path


def doctor(machine: Machine, *words: str) -> Any:
    return machine.run("doctor", "--json", "--only", "plugin", *words).document


def codes(document: Any) -> list[str]:
    return [it["code"] for it in document["findings"]]


@pytest.mark.parametrize("mode", [0o755, 0o644], ids=["executable", "not executable"])
def test_somebody_elses_file_is_left_alone_and_stays_a_finding(
    machine: Machine, place: Path, mode: int
) -> None:
    place.chmod(mode)
    receipt = (machine.node.state_dir / "installed.json").read_bytes()
    done = doctor(machine, "--fix", "--plugin-dir", str(place.parent))
    assert (codes(done), done["fixed"]) == (["plugin-foreign"], [])
    (finding,) = done["findings"]
    assert (finding["subject"], finding["severity"]) == (str(place), "error")
    assert f"`netloom up --force --plugin-dir {place.parent}`" in finding["next"]
    assert (place.read_bytes(), place.stat().st_mode & 0o777) == (THEIRS, mode)
    assert (machine.node.state_dir / "installed.json").read_bytes() == receipt


def test_what_is_advised_of_somebody_elses_file_helps(machine: Machine, place: Path) -> None:
    assert machine.run("up", "--force", "--plugin-dir", str(place.parent)).status == 0
    assert codes(doctor(machine, "--plugin-dir", str(place.parent))) == []


def test_doctor_and_up_judge_alike_whose_a_file_is(machine: Machine, place: Path) -> None:
    assert machine.run("up", "--json", "--plugin-dir", str(place.parent)).error["code"] == "plugin-foreign"
    place.write_bytes(PLUGIN.read_bytes() + b"\0")
    done = doctor(machine, "--fix", "--plugin-dir", str(place.parent))
    assert [(it["code"], it["done"]) for it in done["fixed"]] == [("plugin-differs", True)]
    assert place.read_bytes() == PLUGIN.read_bytes()


def test_a_link_is_replaced_and_what_it_leads_to_stays(machine: Machine, place: Path) -> None:
    target = place.rename(machine.cli.directory / "theirs")
    place.symlink_to(target)
    assert codes(doctor(machine, "--fix", "--plugin-dir", str(place.parent))) == []
    assert (target.read_bytes(), place.is_symlink()) == (THEIRS, False)


@pytest.mark.parametrize("change", ["missing", "of another version", "not executable"])
def test_our_own_is_mended(machine: Machine, change: str) -> None:
    if change == "missing":
        machine.plugin.unlink()
    elif change == "of another version":
        machine.plugin.write_bytes(PLUGIN.read_bytes() + b"\0")
    else:
        machine.plugin.chmod(0o644)
    done = doctor(machine, "--fix")
    assert ([it["done"] for it in done["fixed"]], done["findings"]) == ([True], [])
    assert machine.plugin.read_bytes() == PLUGIN.read_bytes()
    assert os.access(machine.plugin, os.X_OK)


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b"[]", b'{"files": {"netloom": "0"}}', b'{"files": {"/\\u0000/netloom": "0"}}', b"["],
    ids=["cut off", "no text", "no object", "a relative path", "no path", "nested"],
)
def test_a_damaged_receipt_is_named_and_not_written_over(machine: Machine, content: bytes) -> None:
    receipt = machine.node.state_dir / "installed.json"
    receipt.write_bytes(content * 100_000 if content == b"[" else content)
    before = receipt.read_bytes()
    done = doctor(machine, "--fix")
    assert (codes(done), done["fixed"]) == (["receipt-unreadable"], [])
    machine.plugin.unlink()
    done = doctor(machine, "--fix", "--plugin-dir", str(machine.cli.plugins))
    assert [(it["code"], it["done"]) for it in done["fixed"]] == [("plugin-missing", False)]
    assert "damaged" in done["fixed"][0]["error"]
    assert receipt.read_bytes() == before
    # What is advised helps.
    assert machine.up().status == 0
    assert codes(doctor(machine)) == []
