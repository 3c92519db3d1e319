"""A receipt that is damaged where systemd runs the agent: units are told from others' by what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from netloom.api.paths import Place
from netloom.ops.control import units
from netloom.ops.control.start import own_command
from netloom.ops.control.units import SERVICE, SOCKET, paths, rendered
from netloom.ops.node.install import Receipt

from ..lanes import ROOT
from ..service.booted import Booted, why_not_booted

RECEIPT = "/var/lib/netloom/installed.json"
PLUGIN, NETWORK = "/opt/cni/bin/netloom", "/etc/cni/net.d/10-netloom.conflist"
UNITS = paths()
PLACE = Place("/var/lib/netloom", "/run/netloom/agent.sock")

booted = [
    pytest.mark.interop,
    pytest.mark.skipif(why_not_booted() is not None, reason=str(why_not_booted())),
]


@pytest.fixture
def machine() -> Iterator[Booted]:
    with Booted() as made:
        yield made


@pytest.fixture
def node(machine: Booted) -> Booted:
    """Made a node by `netloom up --systemd`."""
    machine.brought_up("--systemd")
    return machine


def write(machine: Booted, path: str, content: str) -> None:
    assert machine.run("tee", path, stdin=content).status == 0


def content_of(machine: Booted, path: str) -> str:
    return machine.run("cat", path).stdout


def process_of(machine: Booted) -> str:
    return machine.shown("netloom.service", "MainPID")["MainPID"]


def files_in_receipt(machine: Booted) -> set[str]:
    return set(json.loads(content_of(machine, RECEIPT))["files"])


def assert_refused(machine: Booted, *words: str) -> Any:
    outcome = machine.netloom("up", *words, "--json")
    assert (outcome.status, outcome.error["code"]) == (3, "unit-foreign")
    return outcome.error


class TestOnAMachine:
    pytestmark = booted

    @pytest.mark.parametrize("words", [("--systemd",), ()], ids=["systemd", "plain"])
    @pytest.mark.parametrize("size", [0, 1, 100])
    def test_it_is_repaired_and_that_is_said_and_nothing_else_changes(
        self, node: Booted, words: tuple[str, ...], size: int
    ) -> None:
        process = process_of(node)
        before = files_in_receipt(node)
        write(node, RECEIPT, content_of(node, RECEIPT)[:size])
        done = node.brought_up(*words)
        assert [it["change"] for it in done["units"]] == ["kept", "kept"]
        assert (done["agent"]["change"], process_of(node)) == ("kept", process)
        (warning,) = (it for it in done["warnings"] if RECEIPT in it)
        assert "is damaged" in warning
        assert files_in_receipt(node) == before == {PLUGIN, NETWORK, *UNITS}
        assert not [it for it in node.brought_up()["warnings"] if RECEIPT in it]

    def test_units_that_were_written_for_other_networks_are_replaced(self, node: Booted) -> None:
        write(node, RECEIPT, "neither JSON nor anything\0else")
        done = node.brought_up("--systemd", "--conf-dir", "/srv/net.d")
        assert [it["change"] for it in done["units"]] == ["kept", "replaced"]
        assert (done["agent"]["change"], done["agent"]["unit"]) == ("replaced", SERVICE)
        assert set(UNITS) <= files_in_receipt(node)

    def test_a_unit_that_somebody_has_changed_is_theirs_all_the_same(self, node: Booted) -> None:
        changed = content_of(node, UNITS[1]).replace("UMask=0077", "UMask=0027")
        write(node, UNITS[1], changed)
        write(node, RECEIPT, "{")
        assert "--force" in assert_refused(node, "--systemd")["next"]
        assert content_of(node, UNITS[1]) == changed
        assert content_of(node, RECEIPT) == "{"
        done = node.brought_up("--systemd", "--force")
        assert [it["change"] for it in done["units"]] == ["kept", "replaced"]

    def test_a_unit_that_was_written_down_and_changed_is_theirs_whatever_it_says(self, node: Booted) -> None:
        """Also if it is as we would write it for other networks."""
        changed = content_of(node, UNITS[1]).replace("/etc/cni/net.d", "/srv/net.d")
        write(node, UNITS[1], changed)
        assert_refused(node)
        assert content_of(node, UNITS[1]) == changed

    def test_one_that_is_moved_away_as_advised_needs_no_force_either(self, node: Booted) -> None:
        node.run("rm", RECEIPT)
        node.run("mkdir", RECEIPT)
        refused = node.netloom("up", "--systemd", "--json")
        assert (refused.status, refused.error["code"]) == (1, "receipt-unreadable")
        node.run("mv", RECEIPT, f"{RECEIPT}.away")
        assert [it["change"] for it in node.brought_up("--systemd")["units"]] == ["kept", "kept"]
        assert set(UNITS) <= files_in_receipt(node)

    def test_a_run_without_an_agent_writes_the_units_down_too(self, node: Booted) -> None:
        write(node, RECEIPT, "{")
        assert node.brought_up("--no-agent")["units"] == []
        assert set(UNITS) <= files_in_receipt(node)
        assert [it["change"] for it in node.brought_up()["units"]] == ["kept", "kept"]

    def test_down_stops_the_service_and_a_purge_takes_its_units_along(self, node: Booted) -> None:
        write(node, RECEIPT, "{")
        assert node.netloom("down").status == 0
        for unit in (SERVICE, SOCKET):
            assert node.shown(unit, "ActiveState") == {"ActiveState": "inactive"}
        done = node.netloom("down", "--purge", "--yes", "--json")
        assert done.status == 0, done.stderr
        assert set(UNITS) <= set(done.document["removed"])
        assert node.run("find", "/etc/systemd/system", "-name", "netloom*").stdout == ""
        assert node.shown(SERVICE, "LoadState") == {"LoadState": "not-found"}

    def test_units_that_somebody_copied_from_the_repository_are_theirs(self, machine: Booted) -> None:
        machine.run("mkdir", "-p", "/var/lib/netloom")
        write(machine, RECEIPT, "{")
        for path, name in zip(UNITS, (SOCKET, SERVICE), strict=True):
            write(machine, path, (ROOT / "deploy" / "systemd" / name).read_text())
        assert UNITS[1] in assert_refused(machine, "--systemd")["error"]
        assert not machine.exists(PLUGIN)

    def test_a_directory_in_the_place_of_a_unit_is_named(self, machine: Booted) -> None:
        machine.run("mkdir", UNITS[1])
        assert UNITS[1] in assert_refused(machine, "--systemd")["error"]
        assert not machine.exists(PLUGIN)


class TestByWhatTheySay:
    pytestmark = pytest.mark.unit

    @pytest.mark.parametrize("directory", ["/var/lib/netloom", "/srv/a b%n$HOME 'c'\"\\;"])
    def test_they_are_ours_for_whatever_interpreter_and_places(self, directory: str) -> None:
        place = Place(directory, f"{directory}/run/agent.sock")
        command = ["/opt/an older/bin/python3", *own_command(place, f"{directory}/net.d")[1:]]
        for name, content in rendered(place, command).items():
            assert units.is_ours(f"/somewhere/{name}", content, directory, Receipt())

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            ("UMask=0077", "UMask=0077\nEnvironment=A=b"),
            ("main agent ", "main agent --quiet "),
            ("-m netloom.cli.main", "-m theirs"),
            ("--state-dir /var/lib/netloom", "--state-dir /var/lib/other"),
            ("ExecStart=", "ExecStart=\nExecStart="),
            ("ExecStart=", "ExecStart=-"),
            ("SocketMode=0600", "SocketMode=0666"),
            ("WantedBy=sockets.target\n", "WantedBy=sockets.target"),
        ],
    )
    def test_a_change_of_any_line_makes_them_theirs(self, ours: str, theirs: str) -> None:
        changed = 0
        for name, content in rendered(PLACE, own_command(PLACE, "/etc/cni/net.d")).items():
            other = content.replace(ours.encode(), theirs.encode())
            if other == content:
                continue
            changed += 1
            assert not units.is_ours(f"/somewhere/{name}", other, PLACE.state_dir, Receipt())
        assert changed == 1

    @pytest.mark.parametrize("content", [b"", b"\xff", b'ExecStart="', b"ListenStream=\x01", b"ExecStart=a"])
    def test_what_is_no_unit_is_theirs(self, content: bytes) -> None:
        for path in UNITS:
            assert not units.is_ours(path, content, PLACE.state_dir, Receipt())
