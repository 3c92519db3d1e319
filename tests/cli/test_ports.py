"""`netloom ports`: who holds which port of the host."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from netloom.journal import schema

from ..fixtures.cli import Cli, Outcome
from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel


def published(machine: Machine, *mappings: dict[str, Any]) -> str:
    """A container with ports of the host, as a runtime asks for them."""
    container = machine.node.container()
    machine.attach(container, CAP_ARGS=json.dumps({"portMappings": mappings}))
    return container


WEB = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}
DNS = {"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "192.0.2.1"}


def test_every_port_is_listed_with_where_it_leads_and_who_holds_it(machine: Machine) -> None:
    published(machine, WEB, DNS)
    (attached,) = machine.listed()
    holder = {
        "network": "netloom",
        "containerID": attached["containerID"],
        "ifName": "eth0",
        "state": "committed",
        "queued": False,
    }
    web = {"hostIP": "", "hostPort": 8080, "protocol": "tcp", "containerPort": 80}
    dns = {"hostIP": "192.0.2.1", "hostPort": 53, "protocol": "udp", "containerPort": 5353}
    assert machine.run("ports", "--json").document == [
        {**dns, "containerIP": "10.78.0.1", **holder},
        {**web, "containerIP": "10.78.0.1", **holder},
        {**web, "containerIP": "fd78::1", **holder},
    ]


def test_on_a_terminal_it_is_a_table(machine: Machine) -> None:
    published(machine, WEB, DNS)
    (attached,) = machine.listed()
    outcome = machine.on_a_terminal("ports")
    assert (outcome.status, outcome.stderr) == (0, "")
    header, *rows = outcome.stdout.splitlines()
    assert header.split("  ")[0] == "HOST IP"
    holder = ["netloom", attached["containerID"], "eth0", "committed"]
    assert [row.split() for row in rows] == [
        ["192.0.2.1", "53", "udp", "10.78.0.1", "5353", *holder],
        ["*", "8080", "tcp", "10.78.0.1", "80", *holder],
        ["*", "8080", "tcp", "fd78::1", "80", *holder],
    ]


def test_on_a_terminal_json_may_be_asked_for(machine: Machine) -> None:
    published(machine, DNS)
    assert machine.on_a_terminal("ports", "--json").document == machine.run("ports", "--json").document


def test_one_port_may_be_asked_for(machine: Machine) -> None:
    published(machine, WEB, DNS)
    assert [it["protocol"] for it in machine.run("ports", "--json", "53").document] == ["udp"]
    assert machine.run("ports", "--json", "80").document == []


def test_no_agent_is_needed(machine: Machine) -> None:
    published(machine, DNS)
    machine.end_agent()
    assert len(machine.run("ports", "--json").document) == 1


def test_a_port_is_free_after_del(machine: Machine) -> None:
    container = published(machine, WEB)
    assert machine.cni("del", container, CAP_ARGS=json.dumps({"portMappings": [WEB]})).status == 0
    machine.await_dels()
    assert machine.run("ports", "--json").document == []


def test_a_port_that_is_taken_is_refused_with_who_holds_it(machine: Machine) -> None:
    published(machine, WEB)
    (attached,) = machine.listed()
    asked = {"CAP_ARGS": json.dumps({"portMappings": [{**WEB, "hostIP": "192.0.2.1"}]})}
    outcome = machine.cni("add", machine.node.container(), **asked)
    assert outcome.status == 1
    assert "8080/tcp" in outcome.said["error"]
    assert attached["containerID"] in outcome.said["error"]
    assert "`netloom ports`" in outcome.stderr


def test_nothing_is_said_to_be_nothing(bare: Machine) -> None:
    assert bare.run("ports", "--json") == Outcome(0, "[]\n", "")
    assert bare.on_a_terminal("ports") == Outcome(0, "no host port is in use\n", "")
    assert bare.on_a_terminal("ports", "8080") == Outcome(0, "no container holds port 8080\n", "")


@pytest.mark.parametrize("given", ["0", "65536", "8080/tcp", "", "9" * 5000])
def test_what_is_no_port_is_a_usage_error_that_says_what_one_is(bare: Machine, given: str) -> None:
    outcome = bare.run("ports", "--", given)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "from 1 to 65535" in outcome.stderr
    assert len(outcome.stderr) < 1000


def test_a_journal_that_is_none_is_an_error_with_its_name(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.run("ports", "--json")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert str(bare.journal) in outcome.error["error"]


def test_a_journal_that_is_gone_is_no_empty_list(machine: Machine) -> None:
    machine.journal.unlink()
    outcome = machine.run("ports", "--json")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert str(machine.journal) in outcome.error["error"]


def test_a_journal_of_the_version_before_has_none(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    with closing(sqlite3.connect(bare.journal, isolation_level=None)) as connection:
        connection.executescript(
            f"{schema.MIGRATIONS[0].script} {schema.MIGRATIONS[1].script}"
            f"PRAGMA application_id = {schema.APPLICATION_ID}; PRAGMA user_version = 2;"
        )
        connection.execute(
            "INSERT INTO attachment VALUES (1, 'net', 'web', 'eth0', 'committed', '/run/netns/web', 4, 77, "
            "0, '', '', '', 'hash', 'loom1', x'', x'', 'boot', 1.0, 1.0, 99)"
        )
    before = bare.journal.read_bytes()
    assert bare.run("ports", "--json") == Outcome(0, "[]\n", "")
    assert bare.journal.read_bytes() == before


def test_its_help_says_what_a_star_stands_for(cli: Cli) -> None:
    outcome = cli.run("ports", "--help")
    assert outcome.status == 0
    assert "*" in outcome.stdout
    assert "PORT" in outcome.stdout


def test_a_port_whose_del_waits_for_the_agent_is_told_so(machine: Machine) -> None:
    published(machine, DNS)
    machine.end_agent()
    (name,) = [it["netns"].rpartition("/")[2] for it in machine.listed()]
    assert machine.run("cni", "del", "netloom", name).status == 0
    assert [it["queued"] for it in machine.run("ports", "--json").document] == [True]
