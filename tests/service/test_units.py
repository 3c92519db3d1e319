"""The units that are shipped: what systemd thinks of them, and what is written where it does not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netloom.api.paths import DEFAULT_SOCKET, DEFAULT_STATE_DIR, Place
from netloom.ops.control.units import SERVICE, rendered
from netloom.ops.control.units import SOCKET as SOCKET_UNIT
from netloom.ops.errors import UsageError

from ..cli.conftest import bare as bare
from ..fixtures.machine import Machine
from ..lanes import ROOT

pytestmark = pytest.mark.kernel

DEFAULT = Place(DEFAULT_STATE_DIR, DEFAULT_SOCKET)
# What stays of 10, of which most is what the agent is for: root, the host's network, CAP_NET_ADMIN,
# CAP_SYS_ADMIN and /proc, which are two thirds of it.
EXPOSURE = 3.3

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs the package systemd"
)


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """For an executable that is there."""
    made = []
    for name, content in rendered(DEFAULT, [sys.executable, "-m", "netloom.cli.main", "agent"]).items():
        (tmp_path / name).write_bytes(content)
        made.append(tmp_path / name)
    return made


def settings(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@needs_systemd
def test_systemd_finds_nothing_wrong_with_them(units: list[Path]) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_what_the_service_may_do_is_bounded(units: list[Path]) -> None:
    (service,) = (it for it in units if it.name == SERVICE)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", service],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= EXPOSURE


def test_those_in_the_repository_are_those_that_up_writes() -> None:
    for name, content in rendered(DEFAULT, ["/opt/netloom/bin/netloom", "agent"]).items():
        assert (ROOT / "deploy" / "systemd" / name).read_bytes() == content


def test_every_setting_that_restricts_says_why() -> None:
    """Between two comments, there are at most so many settings that nobody has said a word about."""
    service = (ROOT / "deploy" / "systemd" / SERVICE).read_text()
    section = service[service.index("[Service]") : service.index("[Install]")]
    assert section.count("\n#") >= 15


def test_other_places_than_the_usual_ones_may_be_written_to() -> None:
    place = Place("/srv/net loom/state", "/srv/net loom/run/agent.sock")
    unit = settings(rendered(place, ["/opt/a b/python", "-m", "x"])[SERVICE].decode())
    assert unit["ExecStart"] == ['"/opt/a b/python" -m x']
    assert '"/srv/net loom/run"' in unit["ReadWritePaths"]
    assert '"/srv/net loom/state"' in unit["ReadWritePaths"]
    assert "RuntimeDirectory" not in unit
    socket = settings(rendered(place, ["x"])[SOCKET_UNIT].decode())
    assert socket["ListenStream"] == ["/srv/net loom/run/agent.sock"]


@pytest.mark.parametrize(
    ("word", "written"),
    [("/a%b", "/a%%b"), ("/a$b", "/a$$b"), ('/a"b', '"/a\\"b"'), ("/a\\b", '"/a\\\\b"'), ("/a;b", '"/a;b"')],
)
def test_what_systemd_would_take_for_its_own_is_escaped(word: str, written: str) -> None:
    unit = settings(rendered(DEFAULT, [word, "agent"])[SERVICE].decode())
    assert unit["ExecStart"] == [f"{written} agent"]


@pytest.mark.parametrize("path", ["/run/a\nExecStartPre=/bin/true/s", "/run/a\x07/s", "/run/a/s "])
def test_a_path_that_cannot_stand_in_a_unit_is_refused(path: str) -> None:
    with pytest.raises(UsageError):
        rendered(Place(DEFAULT_STATE_DIR, path), ["x"])


STRANGE = "/srv/a b%n$HOME 'c';d"


@needs_systemd
def test_systemd_takes_places_of_any_name(tmp_path: Path) -> None:
    place = Place(f"{STRANGE}/state", f"{STRANGE}/run/agent.sock")
    command = [sys.executable, "-P", "-m", "netloom.cli.main", "agent", "--conf-dir", f"{STRANGE}/net.d"]
    paths = [tmp_path / name for name in (SERVICE, SOCKET_UNIT)]
    for path in paths:
        path.write_bytes(rendered(place, command)[path.name])
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit = settings(paths[0].read_text())
    assert unit["ExecStart"][0].endswith(""" --conf-dir "/srv/a b%%n$$HOME 'c';d/net.d\"""")
    # A variable is one in a command only.
    assert """"/srv/a b%%n$HOME 'c';d/state\"""" in unit["ReadWritePaths"]


# Where systemd does not run.


def test_without_systemd_nothing_is_done_and_that_is_said(bare: Machine) -> None:
    done = bare.up("--systemd", "--json")
    assert (done.status, done.error["code"]) == (1, "systemd-not-running")
    assert "--units-only" in done.error["next"]
    assert not bare.plugin.exists()
    assert not bare.node.state_dir.exists()
    assert bare.agent is None


def test_systemd_and_no_agent_is_no_wish(bare: Machine) -> None:
    assert bare.up("--systemd", "--no-agent").status == 2
    assert not bare.plugin.exists()


def test_units_can_be_written_for_another_machine_and_nothing_else_is_done(bare: Machine) -> None:
    directory = bare.node.directory / "units"
    assert bare.up("--units-only", str(directory)).status == 0
    assert sorted(os.listdir(directory)) == [SERVICE, SOCKET_UNIT]
    unit = settings((directory / SERVICE).read_text())
    assert unit["ExecStart"][0].startswith(f"{sys.executable} -P -m netloom.cli.main agent ")
    assert f" --conf-dir {bare.cli.networks}" in unit["ExecStart"][0]
    assert str(bare.node.state_dir) in unit["ExecStart"][0]
    assert not bare.plugin.exists()
    assert not bare.node.state_dir.exists()
