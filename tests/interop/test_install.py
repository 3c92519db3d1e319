"""Distributions, from their making to a machine from which netloom has gone without a trace."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from netloom.api.catalogue import ENTRIES
from netloom.ops.control.units import SERVICE, SOCKET

from ..lanes import PEERS, ROOT
from .clean_machine import PYTHON, CleanMachine, difference
from .commands import eventually
from .connections import pings

pytestmark = pytest.mark.interop

WHEELS = PEERS / "wheels"
PLUGIN = "netloom/_plugin/netloom"
DEPENDENCIES = ("h11", "msgspec")
# Where the machine has its copy of what was built, and nothing else.
OFFLINE = ("--no-index", "--find-links", "/media/wheels")
CNITOOL = "/usr/local/bin/cnitool"
CONTAINERS = ("web", "db")
# That the kernel forwards stays, as `netloom down --help` says: something else may need it by now. The
# kernel itself has switched something else off with it.
FORWARDING = re.compile(r"sysctl net/ipv[46]/(ip_forward|conf/\w+/(forwarding|accept_redirects))")
# libcni's own, which cnitool has made, and which it leaves.
OF_CNITOOL = {"file /var/lib/cni", "file /var/lib/cni/results"}


class Distributions(NamedTuple):
    wheel: Path
    archive: Path


def build(directory: Path, sources: Path = ROOT) -> Distributions:
    command = [sources / "tools" / "dist", directory]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [archive] = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return Distributions(wheel, archive)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def machine(built: Distributions) -> Iterator[CleanMachine]:
    """With the wheel, those of our dependencies, Go's cnitool, and containers without a network."""
    dependencies = [next(WHEELS.glob(f"{name}-*.whl")) for name in DEPENDENCIES]
    with CleanMachine() as made:
        for wheel in (built.wheel, *dependencies):
            made.put(wheel, f"/media/wheels/{wheel.name}")
        made.put(PEERS / "bin" / "cnitool", CNITOOL)
        for container in CONTAINERS:
            made.run("ip", "netns", "add", container)
        yield made


def install_with_pip(machine: CleanMachine) -> str:
    """Gives back the command."""
    machine.run(str(PYTHON), "-m", "venv", "/opt/netloom")
    machine.run("/opt/netloom/bin/pip", "install", *OFFLINE, "netloom")
    return "/opt/netloom/bin/netloom"


def uninstall_with_pip(machine: CleanMachine) -> None:
    machine.remove("/opt/netloom")


PIPX = {"PIPX_HOME": "/opt/pipx", "PIPX_BIN_DIR": "/usr/local/bin", "PIPX_MAN_DIR": "/opt/pipx/man"}


def install_with_pipx(machine: CleanMachine) -> str:
    """pipx is there already, and has the newer pip that it wants."""
    for wheel in WHEELS.glob("*.whl"):
        machine.put(wheel, f"/media/pipx/{wheel.name}")
    machine.run(str(PYTHON), "-m", "venv", "/opt/pipx-itself")
    machine.run("/opt/pipx-itself/bin/pip", "install", "--no-index", "--find-links", "/media/pipx", "pipx")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/media/pipx"}
    machine.run("/opt/pipx-itself/bin/pipx", "upgrade-shared", env=PIPX | offline)
    machine.run(
        "/opt/pipx-itself/bin/pipx", "install", f"--pip-args={' '.join(OFFLINE)}", "netloom", env=PIPX
    )
    return "netloom"


def uninstall_with_pipx(machine: CleanMachine) -> None:
    machine.run("/opt/pipx-itself/bin/pipx", "uninstall", "netloom", env=PIPX)
    machine.remove("/opt/pipx", "/opt/pipx-itself", "/media/pipx")


def assert_only_changed(wanted: set[str], machine: CleanMachine, before: Mapping[str, str]) -> None:
    def changed() -> set[str]:
        found = difference(before, machine.everything())
        return {it for it in found if not FORWARDING.fullmatch(it)}

    # A process that has ended is seen until its parent has noticed.
    assert eventually(lambda: changed() == wanted, within=10), changed() ^ wanted


Install = Callable[[CleanMachine], str]
Uninstall = Callable[[CleanMachine], None]


@pytest.mark.parametrize(
    ("install", "uninstall"),
    [
        pytest.param(install_with_pip, uninstall_with_pip, id="pip"),
        pytest.param(install_with_pipx, uninstall_with_pipx, id="pipx"),
    ],
)
def test_from_the_wheel_to_a_container_on_the_network_and_back_to_nothing(
    machine: CleanMachine, install: Install, uninstall: Uninstall
) -> None:
    untouched = machine.files()
    for tool in ("cc", "gcc", "musl-gcc", "clang"):
        assert machine.run("sh", "-c", f"command -v {tool}", check=False).status != 0

    netloom = install(machine)
    before = machine.everything()

    machine.run(netloom, "up")
    assert machine.path("/opt/cni/bin/netloom").stat().st_mode & 0o777 == 0o755
    results = [json.loads(cnitool(machine, "add", container)) for container in CONTAINERS]
    addresses = [[ip["address"].partition("/")[0] for ip in result["ips"]] for result in results]
    for container, others in zip(CONTAINERS, reversed(addresses), strict=True):
        machine.run("ip", "netns", "exec", container, *pings(*others))
    machine.run(*pings(*addresses[0]))
    assert len(json.loads(machine.run(netloom, "ls", "--json").stdout)) == len(CONTAINERS)
    for container in CONTAINERS:
        cnitool(machine, "del", container)
    said = json.loads(machine.run(netloom, "down", "--purge", "--yes", "--json").stdout)

    assert (said["kept"], said["failed"]) == ([], [])
    assert_only_changed(OF_CNITOOL, machine, before)
    uninstall(machine)
    assert difference(untouched, machine.files()) == OF_CNITOOL


def test_a_purge_leaves_nothing_of_what_is_attached_by_our_own_command(machine: CleanMachine) -> None:
    netloom = install_with_pip(machine)
    before = machine.everything()
    machine.run(netloom, "up")
    for container in CONTAINERS:
        machine.run(netloom, "cni", "add", "netloom", f"/run/netns/{container}")
    machine.run(netloom, "cni", "del", "netloom", f"/run/netns/{CONTAINERS[0]}")
    machine.run(netloom, "down", "--purge", "--yes")
    assert_only_changed(set(), machine, before)


def cnitool(machine: CleanMachine, verb: str, container: str) -> str:
    environment = {"CNI_PATH": "/opt/cni/bin"}
    return machine.run(CNITOOL, verb, "netloom", f"/run/netns/{container}", env=environment).stdout


def test_up_names_the_package_if_the_firewalls_library_is_missing(machine: CleanMachine) -> None:
    netloom = install_with_pip(machine)
    machine.run("sh", "-c", "rm /usr/lib/*/libnftables.so.1*")
    refused = machine.run(netloom, "up", check=False)
    assert refused.status == 1
    assert "libnftables1" in refused.stderr.splitlines()[0]
    assert "`apt install libnftables1`" in refused.stderr
    assert not machine.path("/etc/cni").exists()
    assert not machine.path("/opt/cni").exists()
    machine.run(netloom, "down", "--purge", "--yes")


def test_an_installation_has_what_systemd_needs_and_can_explain_every_kind_of_error(
    machine: CleanMachine,
) -> None:
    netloom = install_with_pip(machine)
    machine.run(netloom, "up", "--units-only", "/media/units")
    service = machine.path("/media/units/netloom.service").read_text()
    assert "\nExecStart=/opt/netloom/bin/python" in service
    assert "ListenStream=/run/netloom/agent.sock\n" in machine.path("/media/units/netloom.socket").read_text()
    refused = machine.run(netloom, "up", "--systemd", "--json", check=False)
    assert json.loads(refused.stderr)["code"] == "systemd-not-running"
    for it in {it.area: it for it in ENTRIES.values()}.values():
        explained = json.loads(machine.run(netloom, "explain", it.code, "--json").stdout)
        assert it.remedy in json.dumps(explained, ensure_ascii=False)
    offered = machine.run(netloom, "__complete", "up", "--sys").stdout
    assert "--systemd" in offered


def test_the_source_archive_builds_the_plugin_where_there_is_a_compiler(
    built: Distributions, tmp_path: Path
) -> None:
    subprocess.run([PYTHON, "-m", "venv", tmp_path / "venv"], check=True)
    pip = tmp_path / "venv" / "bin" / "pip"
    subprocess.run([pip, "install", "-q", "--no-index", "--find-links", WHEELS, built.archive], check=True)
    [plugin] = (tmp_path / "venv").glob(f"lib/python3*/site-packages/{PLUGIN}")
    answer = subprocess.run([plugin], env={"CNI_COMMAND": "VERSION"}, capture_output=True, check=True).stdout
    assert "1.1.0" in json.loads(answer)["supportedVersions"]


def test_the_source_archive_says_what_it_needs_where_there_is_no_compiler(
    machine: CleanMachine, built: Distributions
) -> None:
    for wheel in WHEELS.glob("*.whl"):
        machine.put(wheel, f"/media/build/{wheel.name}")
    machine.put(built.archive, f"/media/{built.archive.name}")
    machine.run(str(PYTHON), "-m", "venv", "/opt/netloom")
    install = ("/opt/netloom/bin/pip", "install", "--no-index", "--find-links", "/media/build")
    refused = machine.run(*install, f"/media/{built.archive.name}", check=False)
    assert refused.status != 0
    assert "gcc libc6-dev" in refused.stdout + refused.stderr


def test_the_wheel_has_the_package_with_the_plugin_and_nothing_else(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {it for it in wheel.namelist() if not it.startswith("netloom-")}
        assert wheel.getinfo(PLUGIN).external_attr >> 16 & 0o777 == 0o755
    files = (it for it in (ROOT / "netloom").rglob("*") if it.is_file() and "__pycache__" not in it.parts)
    assert names == {str(it.relative_to(ROOT)) for it in files}
    assert {PLUGIN, "netloom/py.typed", "netloom/cli/grammar.json"} <= names
    assert {f"netloom/_units/{unit}" for unit in (SERVICE, SOCKET)} <= names


def test_the_wheel_names_its_dependencies_and_no_others(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        [path] = (it for it in wheel.namelist() if it.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(path))
    required = [it for it in metadata.get_all("Requires-Dist", []) if "extra ==" not in it]
    assert [re.split(r"[<>=~!]", it)[0] for it in sorted(required)] == list(DEPENDENCIES)


@pytest.mark.parametrize("family", ["manylinux_2_17", "manylinux2014", "musllinux_1_1"])
def test_pip_takes_the_wheel_beside_glibc_and_beside_musl(
    built: Distributions, tmp_path: Path, family: str
) -> None:
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    offline = ["--no-index", "--find-links", str(built.wheel.parent), "--platform", f"{family}_x86_64"]
    subprocess.run([*download, *offline, "-d", tmp_path, "netloom"], check=True)
    assert os.listdir(tmp_path) == [built.wheel.name]


def test_the_source_archive_has_what_it_takes_to_build_and_test_and_no_more(built: Distributions) -> None:
    with tarfile.open(built.archive) as archive:
        names = {it.name.partition("/")[2] for it in archive.getmembers()}
    assert {"plugin/build", "plugin/netloom.c", "hatch_build.py", "netloom/py.typed", "LICENSE"} <= names
    assert {"tests/conftest.py", "tools/setup", "Makefile"} <= names
    built_here = (".venv", ".peers", ".git/", "build/", "dist/", "netloom/_plugin")
    assert [it for it in names if it.startswith(built_here) or "__pycache__" in it] == []


def test_the_source_archive_gives_the_very_same_files_again(built: Distributions, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xf", built.archive, "-C", tmp_path], check=True)
    [sources] = tmp_path.iterdir()
    (sources / ".peers").symlink_to(PEERS)  # what it is built with, as it was fetched
    again = build(tmp_path / "dist", sources)
    assert [it.read_bytes() for it in again] == [it.read_bytes() for it in built]
