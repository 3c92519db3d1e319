"""What a command advises can be typed as it stands, helps, and is the same wherever it is said."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netloom.api.findings import remedy_of

from ..fixtures.cli import Cli
from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel

SMALL, IPV6, NEW = "10.78.0.0/30", "fd78::/64", "10.79.0.0/24"
COMMAND = re.compile(r"`netloom (up [^`]*)`")


@pytest.fixture
def small(bare: Machine) -> Machine:
    """A node whose network has two IPv4 addresses."""
    bare.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    bare.brought_up("--pool", SMALL, "--pool", IPV6)
    return bare


def finding(machine: Machine, command: str, code: str) -> dict[str, Any]:
    listed = machine.run(command, "--json").document["findings"]
    found: dict[str, Any] = next(it for it in listed if it["code"] == code)
    return found


@contextmanager
def halted(machine: Machine) -> Iterator[int]:
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        yield process
    finally:
        os.kill(process, signal.SIGCONT)


# Pools.


def test_when_the_next_address_is_free_is_the_same_in_pools_and_in_the_error(small: Machine) -> None:
    kept, gone, late = (small.node.container() for _ in range(3))
    small.attach(kept)
    small.attach(gone)
    assert small.cni("del", gone).status == 0
    refused = small.cni("add", late, "--json")
    seconds = re.search(r"ready in (\d+) s", refused.error["error"])
    assert seconds, refused.stderr
    pools = {
        it["cidr"]: it["nextFree"] - time.time() for it in small.run("pools", "--json").document["pools"]
    }
    # A tenth of the rest must do where nothing else is free; where something is, all of it.
    assert -5 < pools[SMALL] <= int(seconds[1]) <= 13
    assert pools[IPV6] > 100
    assert re.search(rf"{SMALL}.*100%  (in \d+s|now)", small.run("pools").stdout)


def test_an_address_that_rests_has_all_of_its_rest_while_another_pool_has_room(small: Machine) -> None:
    kept, gone = small.node.container(), small.node.container()
    small.attach(kept)
    small.attach(gone)
    assert small.cni("del", gone).status == 0
    small.brought_up("--pool", SMALL, "--pool", NEW, "--pool", IPV6)
    listed = small.run("pools", "--json").document["pools"]
    full = next(it for it in listed if it["cidr"] == SMALL)
    assert full["free"] == 0
    assert full["nextFree"] - time.time() > 100


@pytest.mark.parametrize("command", ["status", "pools", "doctor"])
def test_another_pool_is_advised_as_a_command_that_keeps_those_that_are_there(
    small: Machine, command: str
) -> None:
    for _ in range(2):
        small.attach(small.node.container())
    said = COMMAND.search(finding(small, command, "pool-exhausted")["next"])
    assert said, command
    words = said[1].replace("NEW_CIDR", NEW).split()[1:]
    done = small.brought_up(*words)
    assert done["network"]["pools"] == [SMALL, IPV6, NEW]
    small.attach(small.node.container())


def test_a_network_of_a_file_of_its_own_gets_another_pool_there(small: Machine) -> None:
    plugin = {"type": "netloom", "pools": [{"cidr": "10.20.0.0/31"}]}
    path = small.cli.networks / "20-tiny.conflist"
    path.write_text(json.dumps({"cniVersion": "1.0.0", "name": "tiny", "plugins": [plugin]}))
    config = json.dumps({**plugin, "cniVersion": "1.0.0", "name": "tiny"}).encode()
    for _ in range(2):
        small.node.add(small.node.container(), config)
    advice = finding(small, "status", "pool-exhausted")["next"]
    assert str(path) in advice
    assert not COMMAND.search(advice)


# Files.


def test_up_advises_no_options_where_none_were_given(machine: Machine) -> None:
    machine.conflist.write_text(machine.conflist.read_text().replace('"pools"', '"pool"'))
    error = machine.up("--json").error
    assert (error["code"], "leave out the options" in error["next"]) == ("network-broken", False)
    machine.conflist.write_text('{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge"}]}')
    error = machine.up("--json").error
    assert (error["code"], "options" in error["next"]) == ("network-file-foreign", False)


def test_a_misspelled_key_is_named_wherever_it_is_in_the_way(machine: Machine) -> None:
    machine.conflist.write_text(machine.conflist.read_text().replace('"pools"', '"pool"'))
    container = machine.node.container()
    hint = "unknown key `pool`; did you mean `pools`?"
    assert hint in machine.cni("add", container, "--json").error["error"]
    assert hint in machine.up("--json").error["error"]
    assert hint in finding(machine, "status", "network-broken")["text"]
    assert hint in machine.run("explain", container).stdout


BROKEN = "{\n\n  x\n}\n"


@pytest.mark.parametrize(
    "words", [("plan", "check"), ("journal", "import"), ("cni", "validate")], ids=lambda it: it[0]
)
def test_where_a_file_is_no_json_is_told_by_line_and_column(bare: Machine, words: tuple[str, ...]) -> None:
    path = bare.cli.networks / "10-broken.conflist"
    path.write_text(BROKEN)
    outcome = bare.run(*words, *([] if words[0] == "cni" else [str(path)]))
    assert outcome.status != 0
    assert "(line 3, column 3)" in outcome.stdout + outcome.stderr


# Attachments.


@pytest.mark.parametrize("words", [("check",), ("check", "netloom"), ("doctor",)], ids=" ".join)
def test_a_renamed_interface_is_told_what_helps_at_once(machine: Machine, words: tuple[str, ...]) -> None:
    container = machine.node.container()
    machine.attach(container)
    for action in (("down",), ("name", "other"), ("up",)):
        name = "other" if action == ("up",) else "eth0"
        machine.node.in_container(container, "ip", "link", "set", name, *action)
    listed = machine.run(*words, "--json").document["findings"]
    advice = {it["next"] for it in listed if it["code"] in ("object-missing", "object-changed")}
    assert len(advice) == 1
    said = re.search(r"`netloom (check \S+ --repair --recreate)`", advice.pop())
    assert said
    assert machine.run(*said[1].split()).status == 0


def test_who_holds_an_address_that_was_asked_for_is_named(machine: Machine) -> None:
    machine.attach(machine.node.container())
    (holder,) = machine.listed("--json")
    refused = machine.cni("add", machine.node.container(), "--json", CNI_ARGS="IP=10.78.0.1")
    assert refused.error["code"] == 101
    assert f"in use by netloom/{holder['containerID']}/eth0; " in refused.error["error"]


def test_an_error_reads_well_with_a_colon_or_a_semicolon_before_its_details(machine: Machine) -> None:
    """libcni puts the one there, and podman the other."""
    refused = machine.node.plugin("ADD", "nosuch").document
    assert (refused["code"], refused["details"]) == (8, "more: netloom explain 8")


def test_what_has_the_name_of_the_interface_is_said_in_plain_words(machine: Machine) -> None:
    container = machine.node.container()
    machine.node.in_container(container, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "x")
    error = machine.cni("add", container, "--json").error
    assert error["code"] == 102
    assert "eth0 in the attachment's namespace is another link" in error["error"]


@pytest.mark.parametrize("content", ["{", None], ids=["broken", "gone"])
def test_what_is_attached_can_be_deleted_without_the_networks_file(
    machine: Machine, content: str | None
) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.conflist.unlink()
    if content is not None:
        machine.conflist.write_text(content)
    outcome = machine.cni("del", container)
    assert outcome.status == 0
    assert outcome.stderr.startswith("warning: ")
    assert machine.listed("--json") == []


def test_a_stranger_is_not_deleted_without_the_networks_file(cli: Cli) -> None:
    (cli.networks / "10-mynet.conflist").write_text("{")
    outcome = cli.cni("del", "mynet", "/run/netns/nobody", "--json")
    assert (outcome.status, "netloom ls --wide" in outcome.error["next"]) == (3, True)


def test_an_add_that_found_no_address_is_explained_with_what_gives_one(small: Machine) -> None:
    for _ in range(2):
        small.attach(small.node.container())
    container = small.node.container()
    assert small.cni("add", container).status == 1
    said = small.told("explain", container, "--json").document
    (failed,) = (it for it in said["operations"] if it["verb"] == "ADD")
    (found,) = (it for it in said["findings"] if it["code"] == "add-failed")
    assert (failed["reason"], found["next"]) == ("pool-exhausted", remedy_of("pool-exhausted"))


# The agent and its journal.


def test_a_halted_agent_has_one_code_whoever_meets_it(machine: Machine) -> None:
    container = machine.node.container()
    with halted(machine):
        assert machine.up("--json").error["code"] == "agent-halted"
        assert finding(machine, "status", "agent-halted")
        late = machine.cni("add", container, "--json", "--timeout", "1")
        assert (late.status, "`netloom status`" in late.error["next"]) == (124, True)


def test_a_journal_that_is_gone_is_called_gone(machine: Machine) -> None:
    machine.journal.rename(machine.journal.with_suffix(".away"))
    assert finding(machine, "status", "journal-gone")


def test_a_file_that_is_not_there_is_no_journal_to_mend(bare: Machine) -> None:
    error = bare.run("journal", "verify", "/run/nosuch", "--json").error
    assert (error["code"], error["next"].startswith("give the path")) == ("journal-unreadable", True)


def test_a_copy_that_is_damaged_is_no_reason_to_touch_the_journal(machine: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(b"no database" * 1000)
    error = machine.run("journal", "verify", str(copy), "--json").error
    assert error["code"] == "journal-damaged"
    assert "move" not in error["error"] + error["next"]
    assert "use another" in error["next"]
