"""`netloom pools`: how full the pools are, and whether the numbers add up."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest

from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel


def pools(machine: Machine, *words: str) -> Any:
    outcome = machine.run("pools", "--json", *words)
    assert outcome.stderr == ""
    return outcome.document


def network(machine: Machine, name: str, *entries: Any, file: str = "", **keys: Any) -> None:
    """A network of netloom with these pools, in a file of its own."""
    plugin = {"type": "netloom", "pools": list(entries), **keys}
    document = {"cniVersion": "1.1.0", "name": name, "plugins": [plugin]}
    (machine.cli.networks / (file or f"20-{name}.conflist")).write_text(json.dumps(document))


def test_what_is_held_rests_and_is_free_adds_up_to_the_capacity(machine: Machine) -> None:
    kept, gone = machine.node.container(), machine.node.container()
    machine.attach(kept)
    machine.attach(gone)
    assert machine.cni("del", gone).status == 0
    ipv4, ipv6 = pools(machine)["pools"]
    rest = ipv4.pop("nextFree") - time.time()
    assert 100 < rest <= 130
    assert ipv4 == {
        "networks": ["netloom"],
        "cidr": "10.78.0.0/16",
        "family": 4,
        "strategy": "sequential",
        "gateway": "",
        "exclude": [],
        "capacity": 65534,
        "held": 1,
        "resting": 1,
        "orphaned": 0,
        "host": 0,
        "free": 65532,
        "percent": 0.0,
    }
    assert (ipv6["cidr"], ipv6["family"], ipv6["held"], ipv6["resting"]) == ("fd78::/64", 6, 1, 1)
    assert ipv6["capacity"] == 2**64 - 1


def test_exclusions_a_gateway_and_the_hosts_own_are_told(machine: Machine) -> None:
    entry = {
        "cidr": "10.20.0.0/29", "gateway": "10.20.0.1", "exclude": ["10.20.0.2", "10.20.0.5-10.20.0.6"],
        "strategy": "random",
    }  # fmt: skip
    network(machine, "small", entry)
    machine.node.inside("ip", "address", "add", "10.20.0.3/32", "dev", "lo")
    small = next(it for it in pools(machine)["pools"] if it["cidr"] == "10.20.0.0/29")
    assert (small["gateway"], small["strategy"]) == ("10.20.0.1", "random")
    assert small["exclude"] == ["10.20.0.2", "10.20.0.5-10.20.0.6"]
    assert (small["capacity"], small["host"], small["free"], small["percent"]) == (2, 1, 1, 50.0)


def test_a_pool_that_networks_share_is_counted_once(machine: Machine) -> None:
    network(machine, "second", {"cidr": "10.78.0.0/16"})
    machine.attach(machine.node.container())
    shared = [it for it in pools(machine)["pools"] if it["cidr"] == "10.78.0.0/16"]
    assert [(it["networks"], it["held"]) for it in shared] == [(["netloom", "second"], 1)]


def test_a_pool_that_is_used_up_is_a_finding(machine: Machine) -> None:
    network(machine, "tiny", {"cidr": "10.20.0.0/31"}, cooldown=0)
    config = json.dumps({
        "cniVersion": "1.1.0", "name": "tiny", "type": "netloom", "pools": [{"cidr": "10.20.0.0/31"}],
        "cooldown": 0,
    }).encode()  # fmt: skip
    for _ in range(2):
        machine.node.add(machine.node.container(), config)
    outcome = machine.run("pools", "--json")
    assert outcome.status == 1
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["subject"]) == ("pool-exhausted", "tiny")


@pytest.mark.parametrize("rests", [False, True])
def test_to_wait_is_advised_only_where_an_address_rests(machine: Machine, rests: bool) -> None:
    network(machine, "tiny", {"cidr": "10.20.0.0/31"})
    config = json.dumps({
        "cniVersion": "1.1.0", "name": "tiny", "type": "netloom", "pools": [{"cidr": "10.20.0.0/31"}],
    }).encode()  # fmt: skip
    containers = [machine.node.container() for _ in range(2)]
    for container in containers:
        machine.node.add(container, config)
    if rests:
        machine.node.delete(containers[0], config)
    for command in ("pools", "status"):
        found = machine.run(command, "--json").document["findings"]
        (finding,) = [it for it in found if it["code"] == "pool-exhausted"]
        assert finding["next"].startswith("wait until addresses have rested, " if rests else "detach ")


def test_a_pool_that_is_used_up_is_a_note_while_another_of_its_family_is_not(machine: Machine) -> None:
    machine.brought_up("--pool", "10.20.0.0/31", "--pool", "fd20::/64")
    for _ in range(2):
        machine.attach(machine.node.container())
    outcome = machine.run("pools", "--json")
    # Of the other family, there are enough.
    assert (outcome.status, [it["subject"] for it in outcome.document["findings"]]) == (1, ["netloom"])
    pools = ("--pool", "10.20.0.0/31", "--pool", "10.21.0.0/31", "--pool", "fd20::/64")
    machine.brought_up("--network", "netloom", *pools)
    outcome = machine.run("pools")
    assert outcome.status == 0
    assert "\nnote: pool 10.20.0.0/31 has no free address; netloom uses 10.21.0.0/31\n" in outcome.stdout
    assert machine.run("pools", "--json").document["findings"] == []
    for _ in range(2):
        machine.attach(machine.node.container())
    outcome = machine.run("pools", "--json")
    assert outcome.status == 1
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["subject"]) == ("pool-exhausted", "netloom")
    assert "note:" not in machine.run("pools").stdout


def test_networks_that_share_a_pool_are_told_of_once_and_by_what_each_has_left(machine: Machine) -> None:
    network(machine, "rich", {"cidr": "10.20.0.0/31"}, {"cidr": "10.21.0.0/24"})
    network(machine, "tiny", {"cidr": "10.20.0.0/31"})
    network(machine, "twin", {"cidr": "10.20.0.0/31"})
    config = json.dumps({
        "cniVersion": "1.1.0", "name": "tiny", "type": "netloom", "pools": [{"cidr": "10.20.0.0/31"}],
    }).encode()  # fmt: skip
    for _ in range(2):
        machine.node.add(machine.node.container(), config)
    (finding,) = pools(machine)["findings"]
    assert (finding["code"], finding["severity"]) == ("pool-exhausted", "error")
    said = machine.run("pools").stdout
    assert "note: pool 10.20.0.0/31 has no free address; rich uses 10.21.0.0/24" in said


def test_a_pool_that_is_nearly_used_up_is_a_warning(machine: Machine) -> None:
    network(machine, "tiny", {"cidr": "10.20.0.0/28"})
    config = json.dumps({
        "cniVersion": "1.1.0", "name": "tiny", "type": "netloom", "pools": [{"cidr": "10.20.0.0/28"}],
    }).encode()  # fmt: skip
    for _ in range(13):
        machine.node.add(machine.node.container(), config)
    outcome = machine.run("pools", "--json")
    assert outcome.status == 0
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["severity"]) == ("pool-nearly-exhausted", "warning")


def test_addresses_that_no_pool_has_any_more_are_listed_with_their_holders(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    (listed,) = machine.listed()
    network(machine, "netloom", {"cidr": "10.99.0.0/24"}, file="10-netloom.conflist")
    key = f"netloom/{listed['containerID']}/eth0"
    assert pools(machine)["outside"] == [
        {"address": "10.78.0.1", "attachment": key},
        {"address": "fd78::1", "attachment": key},
    ]


def test_an_audit_of_a_sound_journal_finds_nothing(machine: Machine) -> None:
    machine.attach(machine.node.container())
    outcome = machine.run("pools", "--json", "--audit")
    assert (outcome.status, outcome.document["findings"]) == (0, [])


def test_an_audit_finds_an_address_that_nobody_holds(machine: Machine) -> None:
    machine.run("down")
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(
            "INSERT INTO address (scope, ip, attachment, allocated, released) VALUES (?, ?, 77, 0, NULL)",
            ("main", bytes([10, 78, 7, 7])),
        )
    assert machine.run("pools").status == 0
    outcome = machine.run("pools", "--json", "--audit")
    assert outcome.status == 1
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["subject"]) == ("address-orphaned", "10.78.7.7")


def test_a_network_that_cannot_work_does_not_hide_the_others(machine: Machine) -> None:
    network(machine, "broken", {"cidr": "nonsense"})
    outcome = machine.run("pools", "--json")
    assert (outcome.status, len(outcome.document["pools"])) == (1, 2)
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["severity"]) == ("network-broken", "error")
    assert finding["subject"].endswith("20-broken.conflist")


def test_no_agent_is_needed(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    assert [it["held"] for it in pools(machine)["pools"]] == [1, 1]


def test_on_a_terminal_it_is_a_table(machine: Machine) -> None:
    machine.attach(machine.node.container())
    outcome = machine.on_a_terminal("pools")
    assert (outcome.status, outcome.stderr) == (0, "")
    header, ipv4, ipv6 = outcome.stdout.splitlines()
    assert header.split()[:3] == ["NETWORK", "POOL", "STRATEGY"]
    assert ipv4.split()[:8] == [
        "netloom", "10.78.0.0/16", "sequential", "65534", "1", "0", "65533", "<1%",
    ]  # fmt: skip
    assert ipv6.split()[3] == "2^64"
    assert "audit passed" in machine.on_a_terminal("pools", "--audit").stdout


def test_a_machine_without_networks_has_none(bare: Machine) -> None:
    assert pools(bare) == {"pools": [], "outside": [], "findings": []}
    assert "netloom up" in bare.on_a_terminal("pools").stdout


def test_a_journal_that_is_damaged_is_an_error_with_its_code(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.run("pools", "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "journal-damaged")
