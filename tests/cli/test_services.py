"""Services that manage links: whether they leave netloom's alone, and how `doctor --fix` tells them to."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

NETWORKD = "/lib/systemd/systemd-networkd"


def findings(machine: Machine, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.run("doctor", "--json", "--only", "services", *words).document[
        "findings"
    ]
    return found


def subjects(machine: Machine) -> list[tuple[str, str]]:
    return [(it["code"], it["subject"]) for it in findings(machine)]


def running(process: subprocess.Popen[bytes], name: str) -> Iterator[None]:
    comm = Path(f"/proc/{process.pid}/comm")
    try:
        assert eventually(lambda: comm.read_text().strip() == name[:15])
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def networkd(machine: Machine) -> Iterator[None]:
    if not os.path.exists(NETWORKD):
        pytest.skip("needs the package systemd")
    process = subprocess.Popen(
        machine.node.command(NETWORKD), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield from running(process, "systemd-networkd")


@pytest.fixture
def network_manager(machine: Machine, tmp_path: Path) -> Iterator[None]:
    """Something of that name: what is looked at is that it runs, and its files."""
    program = tmp_path / "NetworkManager"
    shutil.copy("/bin/sleep", program)
    yield from running(subprocess.Popen(machine.node.command(str(program), "600")), "NetworkManager")


def test_whoever_manages_the_links_of_another_namespace_is_no_concern(
    machine: Machine, tmp_path: Path
) -> None:
    program = tmp_path / "NetworkManager"
    shutil.copy("/bin/sleep", program)
    for _ in running(subprocess.Popen([program, "600"]), "NetworkManager"):
        assert subjects(machine) == []


@pytest.mark.usefixtures("networkd")
def test_networkd_that_removes_what_others_made_is_told_not_to(machine: Machine, own_etc: Path) -> None:
    assert subjects(machine) == [("networkd-interferes", "systemd-networkd")]
    outcome = machine.run("doctor", "--json", "--only", "services", "--fix")
    assert [(it["code"], it["done"]) for it in outcome.document["fixed"]] == [("networkd-interferes", True)]
    assert outcome.document["findings"] == []
    assert "ManageForeignRoutes=no" in (own_etc / "systemd/networkd.conf.d/90-netloom.conf").read_text()


@pytest.mark.usefixtures("networkd")
def test_what_was_written_for_networkd_goes_with_a_purge(machine: Machine, own_etc: Path) -> None:
    machine.run("doctor", "--only", "services", "--fix")
    machine.run("down", "--purge", "--yes")
    assert not (own_etc / "systemd/networkd.conf.d/90-netloom.conf").exists()


@pytest.mark.usefixtures("networkd")
def test_networkd_that_was_told_by_somebody_else_is_no_finding(machine: Machine, own_etc: Path) -> None:
    directory = own_etc / "systemd"
    directory.mkdir(exist_ok=True)
    (directory / "networkd.conf").write_text(
        "[Network]\nManageForeignRoutes = false\n#x\nManageForeignRoutingPolicyRules=no\n"
    )
    assert subjects(machine) == []


@pytest.mark.usefixtures("networkd")
@pytest.mark.parametrize(
    ("match", "is_ours"),
    [
        ("Name=*", True),
        ("Name=en* loom*", True),
        ("Name=!en*", True),
        ("Name=en*", False),
        ("Name=*\nType=wlan", False),
        ("MACAddress=02:00:00:00:00:01", False),
    ],
)
def test_a_file_of_networkd_that_matches_containers_links_is_named(
    machine: Machine, own_etc: Path, match: str, is_ours: bool
) -> None:
    machine.run("doctor", "--only", "services", "--fix")
    directory = own_etc / "systemd/network"
    directory.mkdir()
    (directory / "50-lan.network").write_text(f"[Match]\n{match}\n[Network]\nDHCP=yes\n")
    expected = [("networkd-interferes", str(directory / "50-lan.network"))] if is_ours else []
    assert subjects(machine) == expected
    (directory / "05-loom.network").write_text("[Match]\nName=loom*\n[Link]\nUnmanaged=yes\n")
    assert subjects(machine) == []


@pytest.mark.usefixtures("network_manager")
def test_network_manager_is_told_to_leave_links_alone(machine: Machine, own_etc: Path) -> None:
    assert subjects(machine) == [("networkmanager-interferes", "NetworkManager")]
    assert machine.run("doctor", "--json", "--only", "services", "--fix").document["findings"] == []
    assert (own_etc / "NetworkManager/conf.d/90-netloom.conf").exists()


@pytest.mark.usefixtures("network_manager")
@pytest.mark.parametrize(
    "content",
    [
        "[keyfile]\nunmanaged-devices=interface-name:loom*;interface-name:veth*\n",
        "[keyfile]\nunmanaged-devices=type:veth\n",
        "[device-containers]\nmatch-device=interface-name:loom*\nmanaged=0\n",
        "[keyfile]\nunmanaged-devices=*\n",
    ],
)
def test_network_manager_that_was_told_by_somebody_else_is_no_finding(
    machine: Machine, own_etc: Path, content: str
) -> None:
    directory = own_etc / "NetworkManager/conf.d"
    directory.mkdir(parents=True)
    (directory / "10-theirs.conf").write_text(content)
    assert subjects(machine) == []
