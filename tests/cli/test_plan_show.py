"""`netloom plan show`: the very plan that the next ADD makes, without making it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel


def shown(machine: Machine, container: str, *words: str, **env: str) -> Any:
    outcome = machine.run("plan", "show", "--json", "netloom", "--netns", container, *words, env=env)
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.document


def recorded(machine: Machine) -> Any:
    """The plan of the attachment that was made last."""
    return json.loads(list(machine.node.ledger().attachments())[-1].plan)


@pytest.mark.parametrize(
    ("words", "env"),
    [
        ([], {}),
        (["-i", "net1"], {}),
        ([], {"CNI_ARGS": "IP=10.78.9.9"}),
        ([], {"CAP_ARGS": '{"ips": ["fd78::99"], "mac": "02:00:00:00:00:09"}'}),
        ([], {"CAP_ARGS": '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'}),
        ([], {"CAP_ARGS": '{"bandwidth": {"ingressRate": 8000000, "egressRate": 8000000}}'}),
    ],
    ids=["plain", "interface", "arguments", "capabilities", "host ports", "limits"],
)
def test_it_is_the_plan_that_the_next_add_records(
    machine: Machine, words: list[str], env: dict[str, str]
) -> None:
    machine.attach(machine.node.container())
    container = machine.node.container()
    plan = shown(machine, container, *words, **env)
    machine.attach(container, *words, **env)
    assert plan == recorded(machine)


def test_a_second_interface_is_shown_as_one(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    plan = shown(machine, container, "-i", "net1")
    machine.attach(container, "-i", "net1")
    assert plan == recorded(machine)
    assert any(item["type"] == "rule" for item in plan["objects"])


def test_nothing_is_changed(machine: Machine) -> None:
    container = machine.node.container()
    assert shown(machine, container) == shown(machine, container)
    assert machine.listed() == []
    assert machine.node.links() == []
    assert list(machine.node.ledger().held()) == []


def ruleset(machine: Machine) -> str:
    return machine.node.inside("nft", "list", "ruleset")


def test_of_host_ports_and_networks_that_are_kept_apart_nothing_is_made(machine: Machine) -> None:
    document = json.loads(machine.conflist.read_text())
    document["plugins"][0]["isolation"] = "networks"
    machine.conflist.write_text(json.dumps(document))
    before = ruleset(machine)
    ports = '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
    plan = shown(machine, machine.node.container(), CAP_ARGS=ports)
    chains = [it["name"].split("-")[0] for it in plan["objects"] if it["type"] == "nft-chain"]
    assert chains == ["leave", "apart"]
    sets = {it["set"].split("-")[0] for it in plan["objects"] if it["type"] == "nft-element"}
    assert sets >= {"sources4", "sources6", "leaving4", "leaving6", "apart", "ports4", "ports6", "looped4"}
    assert ruleset(machine) == before
    assert machine.run("ports", "--json").document == []


def test_a_port_that_is_taken_is_the_error_that_an_add_would_get(machine: Machine) -> None:
    ports = '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
    machine.attach(machine.node.container(), CAP_ARGS=ports)
    container = machine.node.container()
    outcome = machine.run("plan", "show", "netloom", "--netns", container, "--json", env={"CAP_ARGS": ports})
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (1, "", 105)
    assert "8080/tcp" in outcome.error["error"]


def test_apply_takes_it_from_standard_input(machine: Machine) -> None:
    container = machine.node.container()
    plan = json.dumps(shown(machine, container))
    applied = machine.run("plan", "apply", "-", "--netns", container, stdin=plan)
    assert applied.status == 0
    assert machine.reaches("10.78.0.1")
    assert machine.run("plan", "check", "--json", "-", "--netns", container, stdin=plan).document == []
    assert machine.run("plan", "remove", "-", "--netns", container, stdin=plan).status == 0


def test_neither_agent_nor_journal_nor_container_is_needed(bare: Machine) -> None:
    bare.brought_up("--no-agent", "--mtu", "1300")
    plan = bare.run("plan", "show", "--json", "netloom").document
    (veth,) = [item for item in plan["objects"] if item["type"] == "veth"]
    assert veth["mtu"] == 1300
    named = bare.run("plan", "show", "--json", "netloom", "--container-id", "web-1").document
    assert named != plan


def test_on_a_terminal_it_is_a_list_of_objects(machine: Machine) -> None:
    outcome = machine.on_a_terminal("plan", "show", "netloom")
    assert outcome.status == 0
    header, first, second, *_ = outcome.stdout.splitlines()
    assert header.split() == ["ON", "OBJECT"]
    assert first.startswith("host        nft chain inet netloom leave-")
    assert second.startswith("host        nft element loom")
    assert "attachment  address 10.78.0.1/32 on eth0" in outcome.stdout


def test_an_attachment_that_is_there_already_is_shown_as_it_is(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    outcome = machine.run("plan", "show", "--json", "netloom", "--netns", container)
    assert outcome.document == recorded(machine)
    assert "already attached" in outcome.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nosuch"], 3, "nosuch"),
        (["bridged"], 3, "type netloom"),
        (["netloom", "--container-id", "a b"], 1, "a b"),
        (["netloom", "-i", "far-too-long-for-a-link"], 1, "too long"),
    ],
)
def test_what_cannot_be_shown_is_said_with_a_next_step(
    machine: Machine, words: list[str], status: int, said: str
) -> None:
    (machine.cli.networks / "20-bridged.conflist").write_text(
        '{"cniVersion":"1.0.0","name":"bridged","plugins":[{"type":"bridge"}]}'
    )
    outcome = machine.run("plan", "show", *words)
    assert outcome.status == status
    assert said in outcome.said["error"]
    assert outcome.said["next"]


def test_an_exhausted_pool_is_the_error_that_an_add_would_get(bare: Machine) -> None:
    bare.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    bare.brought_up("--pool", "10.20.0.0/30")
    for _ in range(2):
        bare.attach(bare.node.container())
    outcome = bare.run("plan", "show", "netloom")
    assert outcome.status == 1
    assert "10.20.0.0/30" in outcome.said["error"]


@pytest.mark.parametrize("kind", ["missing", "a file", "the host's"])
def test_a_namespace_that_an_add_refuses_is_refused_with_its_code(machine: Machine, kind: str) -> None:
    netns = str(machine.node.directory / "netns")
    if kind == "a file":
        (machine.node.directory / "netns").touch()
    elif kind == "the host's":
        netns = f"/proc/{machine.agent}/ns/net"
    added = machine.run("cni", "add", "netloom", netns, "--json", "--cache-dir", str(machine.cli.cache))
    outcome = machine.run("plan", "show", "netloom", "--netns", netns, "--json")
    assert (added.status, outcome.status, outcome.stdout) == (1, 1, "")
    assert (added.error["code"], outcome.error["code"]) == (8, 8)
    assert netns in outcome.error["error"]
    assert outcome.error["attachment"] == added.error["attachment"]
