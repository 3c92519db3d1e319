"""What an operator sees of links that no attachment has, as after a journal was lost."""

from __future__ import annotations

import json

import pytest

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

CONTAINER = "3f2a9c0d11e5"


# What brings an attachment ports, queues and chains.
SERVICES = {
    "CAP_ARGS": json.dumps(
        {
            "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
            "bandwidth": {"ingressRate": 8_000_000, "egressRate": 8_000_000},
        }
    )
}


def lose_journal(machine: Machine) -> None:
    machine.run("down")
    machine.journal.rename(machine.journal.with_name("elsewhere.db"))
    machine.brought_up()


@pytest.fixture
def forgetful(machine: Machine) -> Machine:
    """A node with a container that its journal does not know any more."""
    machine.attach(machine.node.container(), "--container-id", CONTAINER)
    lose_journal(machine)
    return machine


@pytest.fixture
def many(machine: Machine) -> Machine:
    """A node with more such containers than are named one by one, and one that it knows."""
    for _ in range(5):
        machine.attach(machine.node.container())
    lose_journal(machine)
    machine.attach(machine.node.container())
    return machine


def test_status_names_the_link_and_what_to_do(forgetful: Machine) -> None:
    (link,) = forgetful.node.links()
    outcome = forgetful.run("status", "--json")
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["subject"]) == ("link-orphaned", link)
    assert "10.78.0.1, fd78::1" in finding["text"]
    assert f"`ip link del {link}`" in finding["next"]
    assert outcome.status == 0


def test_new_containers_are_attached_at_once(forgetful: Machine) -> None:
    given = [forgetful.attach(forgetful.node.container())["ips"][0]["address"] for _ in range(2)]
    assert given == ["10.78.0.2/32", "10.78.0.3/32"]


def test_doctor_tells_of_each_once(forgetful: Machine) -> None:
    found = forgetful.run("doctor", "--json").document["findings"]
    told = [it["subject"] for it in found if it["code"] == "link-orphaned"]
    assert told == forgetful.node.links()


def test_status_counts_those_of_very_many_that_it_does_not_name(many: Machine) -> None:
    found = many.run("status", "--json").document["findings"]
    assert [bool(it["subject"]) for it in found] == [True, True, True, False]
    assert "`netloom doctor`" in found[-1]["next"]


@pytest.mark.parametrize("words", [("doctor",), ("doctor", "--only", "node"), ("check",)])
def test_of_very_many_each_is_named_once_with_its_addresses(many: Machine, words: tuple[str, ...]) -> None:
    found = [
        it for it in many.run(*words, "--json").document["findings"] if not it["code"].startswith("runtime")
    ]
    assert {it["code"] for it in found} == {"link-orphaned"}
    told = [it["text"].partition("; ")[2] for it in found]
    kept = "its addresses stay reserved"
    assert told == [f"{kept}: 10.78.0.{number}, fd78::{number}" for number in range(1, 6)]


@pytest.mark.parametrize("command", ["doctor", "check"])
def test_what_a_link_has_in_the_table_is_a_part_of_it(machine: Machine, command: str) -> None:
    """Also its queue. It guards a container, so nothing removes it, and nothing needs to."""
    document = json.loads(machine.conflist.read_text())
    document["plugins"][0]["isolation"] = "networks"
    machine.conflist.write_text(json.dumps(document))
    machine.attach(machine.node.container(), **SERVICES)
    lose_journal(machine)
    found = machine.run(command, "--json").document["findings"]
    assert [(it["code"], it["subject"]) for it in found] == [("link-orphaned", *machine.node.links())]


def test_ls_and_ports_tell_of_links_and_ports_that_no_journal_has(machine: Machine) -> None:
    machine.attach(machine.node.container(), **SERVICES)
    before = machine.run("ls"), machine.run("ports")
    assert not any("orphaned" in it.stdout for it in before)
    lose_journal(machine)
    (link,) = machine.node.links()
    assert "1 link is not in the journal (orphaned)" in machine.run("ls").stdout
    for words in (("ports",), ("ports", "8080")):
        told = machine.run(*words).stdout
        assert f"8080/tcp leads to 10.78.0.1 port 80 by link {link}" in told
    assert link not in machine.run("ports", "8081").stdout


def test_there_is_nothing_to_fix_about_it(forgetful: Machine) -> None:
    outcome = forgetful.run("doctor", "--fix", "--json")
    assert (outcome.status, outcome.document["fixed"]) == (0, [])


@pytest.mark.parametrize("agent", ["runs", "is gone"])
def test_its_addresses_are_in_no_pool_free(many: Machine, agent: str) -> None:
    if agent == "is gone":
        many.end_agent()
    (network,) = many.run("status", "--json").document["networks"]
    for pools in (network["pools"], many.run("pools", "--json").document["pools"]):
        counted = [(it["held"], it["resting"], it["orphaned"]) for it in pools]
        assert counted == [(1, 0, 5)] * 2
        assert [it["capacity"] - it["free"] for it in pools] == [6, 6]


def test_pools_has_a_column_for_them_if_there_are_some(machine: Machine) -> None:
    machine.attach(machine.node.container())
    assert "ORPHANED" not in machine.run("pools").stdout
    lose_journal(machine)
    header, ipv4, *_ = machine.run("pools").stdout.splitlines()
    assert dict(zip(header.split(), ipv4.split(), strict=False))["ORPHANED"] == "1"


def test_a_pool_without_an_address_says_that_they_have_it(forgetful: Machine) -> None:
    forgetful.brought_up("--pool", "10.78.0.1/32")
    refused = forgetful.cni("add", forgetful.node.container())
    said = [refused.stderr, *(forgetful.run(it).stdout for it in ("status", "pools"))]
    cause = "0 held and 0 resting, and 1 that an orphaned link has"
    assert [cause in it for it in said] == [True] * 3


def test_who_purges_is_told_of_them(many: Machine) -> None:
    refused = many.asked("n\n", "down", "--purge")
    assert "1 attachment and of 5 links that are not in the journal (orphaned)" in refused.stderr


def test_a_pool_whose_addresses_all_are_such_is_not_well(forgetful: Machine) -> None:
    forgetful.brought_up("--pool", "10.78.0.1/32")
    outcome = forgetful.run("status", "--json")
    codes = [it["code"] for it in outcome.document["findings"]]
    assert (outcome.status, codes) == (1, ["pool-exhausted", "link-orphaned"])


def test_its_addresses_are_not_called_free(forgetful: Machine) -> None:
    (link,) = forgetful.node.links()
    for address in ("10.78.0.1", "fd78::1"):
        outcome = forgetful.run("explain", address, "--json")
        told = outcome.document
        assert (outcome.status, told["address"]["state"]) == (1, "orphaned")
        assert link in told["summary"]
        assert told["findings"] == forgetful.run("explain", link, "--json").document["findings"]
    assert forgetful.run("explain", "10.78.0.2", "--json").document["address"]["state"] == "free"


@pytest.mark.parametrize("form", ["{link}", CONTAINER, f"netloom/{CONTAINER}", f"netloom/{CONTAINER}/eth0"])
def test_explain_knows_whose_link_it_was(forgetful: Machine, form: str) -> None:
    (link,) = forgetful.node.links()
    outcome = forgetful.run("explain", form.format(link=link), "--json")
    assert outcome.status == 1
    assert [(it["code"], it["subject"]) for it in outcome.document["findings"]] == [("link-orphaned", link)]
    assert "10.78.0.1, fd78::1" in outcome.document["summary"]


@pytest.mark.parametrize("word", [f"netloom/{CONTAINER}/eth1", f"other/{CONTAINER}/eth0", "3f2a9c0d11e6"])
def test_explain_takes_nobody_elses_link_for_it(forgetful: Machine, word: str) -> None:
    codes = [it["code"] for it in forgetful.run("explain", word, "--json").document["findings"]]
    assert "never-asked" in codes
    assert "link-orphaned" not in codes


def test_explain_knows_a_namespace_that_was_attached_by_hand(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    (link,) = machine.node.links()
    machine.run("down")
    machine.journal.unlink()
    machine.brought_up()
    for word in (container, f"/run/netns/{container}"):
        found = machine.run("explain", word, "--json").document["findings"]
        assert [(it["code"], it["subject"]) for it in found] == [("link-orphaned", link)]


@pytest.mark.parametrize("command", ["ls", "check", "pools"])
def test_a_journal_that_is_gone_with_its_lock_is_not_called_an_empty_one(
    machine: Machine, command: str
) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    for it in machine.node.state_dir.glob("journal.db*"):
        it.unlink()
    outcome = machine.run(command, "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "journal-gone")


def test_without_agent_and_journal_a_table_that_is_gone_is_named(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    machine.journal.unlink()
    codes = ["journal-gone", "agent-not-running"]
    kept = machine.run("status", "--json").document["findings"]
    assert [it["code"] for it in kept] == codes
    machine.node.inside("nft", "flush", "ruleset")
    outcome = machine.run("status", "--json")
    found = outcome.document["findings"]
    assert {it["code"] for it in found} == {*codes, "table-broken"}
    assert outcome.status == 1
    # Who has lost the table is not promised that all stays as it is.
    without = {it["code"]: it["next"] for it in found}
    assert all(without[it["code"]] != it["next"] for it in kept)
    for said in (*without.values(), outcome.document["next"], machine.run("ls", "--json").error["next"]):
        assert "keep their networks" not in said
        assert "stay as they are" not in said
