"""What an operator sees of links that no attachment has, as after a journal was lost."""

from __future__ import annotations

import pytest

from .machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

CONTAINER = "3f2a9c0d11e5"


@pytest.fixture
def forgetful(machine: Machine) -> Machine:
    """A node with a container that its journal does not know any more."""
    machine.attach(machine.node.container(), "--container-id", CONTAINER)
    machine.run("down")
    machine.journal.rename(machine.journal.with_name("elsewhere.db"))
    machine.brought_up()
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


def test_a_pool_whose_addresses_all_are_such_is_not_well(forgetful: Machine) -> None:
    forgetful.brought_up("--pool", "10.78.0.1/32")
    outcome = forgetful.run("status", "--json")
    codes = [it["code"] for it in outcome.document["findings"]]
    assert (outcome.status, codes) == (1, ["pool-exhausted", "link-orphaned"])


def test_its_addresses_are_not_called_free(forgetful: Machine) -> None:
    (link,) = forgetful.node.links()
    for address in ("10.78.0.1", "fd78::1"):
        told = forgetful.run("explain", address, "--json").document
        assert told["address"]["state"] == "orphaned"
        assert link in told["summary"]
    assert forgetful.run("explain", "10.78.0.2", "--json").document["address"]["state"] == "free"


@pytest.mark.parametrize("form", ["{link}", CONTAINER, f"netloom/{CONTAINER}/eth0"])
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
