"""Files that `netloom doctor` reads, and that are none, or somebody else's: nobody waits, nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import eventually
from . import strange_files

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


STRANGE: dict[str, Callable[[Path], object]] = {
    **strange_files.STRANGE,
    "no text": lambda path: path.write_bytes(b"[keyfile]\n\xff = \xff\n"),
}


@pytest.fixture
def network_manager(machine: Machine, tmp_path: Path) -> Any:
    """Something of that name, so that its files are looked at."""
    program = tmp_path / "NetworkManager"
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen(machine.node.command(str(program), "600"))
    try:
        comm = Path(f"/proc/{process.pid}/comm")
        assert eventually(lambda: comm.read_text().strip() == "NetworkManager")
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("network_manager")
@pytest.mark.parametrize("strange", STRANGE)
def test_nobody_waits_for_a_file_of_settings_that_is_none(
    machine: Machine, own_etc: Path, strange: str
) -> None:
    for path in ("sysctl.d/50-x.conf", "NetworkManager/conf.d/x.conf"):
        (own_etc / path).parent.mkdir(parents=True, exist_ok=True)
        STRANGE[strange](own_etc / path)
    (own_etc / "sysctl.d/60-y.conf").write_text("net.ipv4.ip_forward = 0\n")
    found = machine.run("doctor", "--json", "--only", "sysctls", "--only", "services").document["findings"]
    assert {it["code"] for it in found} == {"sysctl-at-boot", "networkmanager-interferes"}


def test_nothing_counts_after_the_last_file_of_settings(machine: Machine, own_etc: Path) -> None:
    (own_etc / "sysctl.d").mkdir()
    (own_etc / "sysctl.d/99-last.conf").write_text("net.ipv4.ip_forward = 1\n")
    (own_etc / "sysctl.conf").write_text("net.ipv4.ip_forward = 0\n")
    (finding,) = machine.run("doctor", "--json", "--only", "sysctls").document["findings"]
    assert (finding["subject"], "sorts after" in finding["next"]) == ("/etc/sysctl.conf", False)


@pytest.mark.usefixtures("network_manager")
@pytest.mark.parametrize("theirs", ["[keyfile]\nunmanaged-devices=interface-name:mine*\n", "# nothing\n"])
def test_a_drop_in_of_our_name_that_somebody_else_wrote_is_left_alone(
    machine: Machine, own_etc: Path, theirs: str
) -> None:
    path = own_etc / "NetworkManager/conf.d/90-netloom.conf"
    path.parent.mkdir(parents=True)
    path.write_text(theirs)
    document = machine.run("doctor", "--json", "--only", "services", "--fix").document
    assert [it["code"] for it in document["findings"]] == ["networkmanager-interferes"]
    (fix,) = document["fixed"]
    assert (fix["done"], str(path) in fix["error"], path.read_text()) == (False, True, theirs)


def test_a_mount_whose_path_is_no_text_does_not_hide_who_holds_a_namespace(
    machine: Machine, tmp_path: Path
) -> None:
    container = machine.node.container()
    machine.attach(container)
    strange, place = tmp_path / os.fsdecode(b"\xff"), tmp_path / "else where"
    for it in (strange, place):
        it.touch()
        subprocess.run(["mount", "--bind", f"/run/netns/{container}", it], check=True)
    try:
        machine.node.remove_container(container)
        outcome = machine.run("doctor", "--json", "--only", "netns-busy")
        (finding,) = outcome.document["findings"]
        assert f"umount '{place}'`" in finding["next"]
    finally:
        for it in (strange, place):
            subprocess.run(["umount", it], check=True)
