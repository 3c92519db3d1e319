"""Host ports: whose a port is, when it is refused, and when it is free again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ..fixtures.internet import (
    IPV4,
    IPV6,
    LOOPBACK,
    NODE,
    NODE_TO_BEYOND,
    TCP,
    UDP,
    Answering,
    Internet,
    ask,
    attach,
    detach_all,
    is_refused,
    leftovers,
    mapped,
    new_container,
    new_internet,
    port,
    unsound,
)
from ..fixtures.node import Outcome, eventually

pytestmark = pytest.mark.kernel

FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, UDP])


@pytest.fixture(scope="module")
def lasting_town() -> Iterator[Internet]:
    with new_internet() as internet:
        internet.node.start()
        yield internet


@pytest.fixture
def internet(lasting_town: Internet) -> Iterator[Internet]:
    """Its agent serves all tests of this file. After each, all is sound, and nothing is left."""
    yield lasting_town
    detach_all(lasting_town)


def refused(internet: Internet, **keys: Any) -> Outcome:
    """What an ADD that must fail says."""
    before = leftovers(internet.node)
    done = internet.node.ask("ADD", new_container(internet), internet.node.config(**keys))
    assert done.status != 0
    assert leftovers(internet.node) == before, "a refused ADD left something"
    return done


# Conflicts.


CLASHES = {
    "all addresses, twice": (port(8080), port(8080, 81)),
    "all, written as zeros": (port(8080), port(8080, hostIP="0.0.0.0")),
    "all, written as zeros of IPv6": (port(8080), port(8080, hostIP="::")),
    "all, and then one": (port(8080), port(8080, hostIP=NODE[IPV4])),
    "all, and then one of IPv6": (port(8080), port(8080, hostIP=NODE[IPV6])),
    "one, and then all": (port(8080, hostIP=NODE[IPV4]), port(8080)),
    "one of IPv6, and then all": (port(8080, hostIP=NODE[IPV6]), port(8080)),
    "the same one": (port(8080, hostIP=NODE[IPV4]), port(8080, hostIP=NODE[IPV4])),
    "the same one, written otherwise": (
        port(8080, hostIP=NODE[IPV6]),
        port(8080, hostIP="2001:DB8:0:0::1"),
    ),
    "all, and then the loopback": (port(8080), port(8080, hostIP="127.0.0.1")),
    "udp, written in capitals": (port(8080, protocol="udp"), port(8080, protocol="UDP")),
}


@pytest.mark.parametrize("clash", CLASHES.values(), ids=list(CLASHES))
def test_a_port_that_another_has_is_refused_with_the_holders_name(
    internet: Internet, clash: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    holder = attach(internet, **mapped(clash[0]))
    done = refused(internet, **mapped(port(9000), clash[1], port(9001)))
    assert done.code == 105
    assert f"net/{holder.name}/eth0" in done.message
    assert "8080" in done.message


PEACES = {
    "tcp and udp": (port(8080, protocol=TCP), port(8080, protocol=UDP)),
    "tcp and sctp": (port(8080, protocol=TCP), port(8080, protocol="sctp")),
    "two addresses": (port(8080, hostIP=NODE[IPV4]), port(8080, hostIP=NODE_TO_BEYOND[IPV4])),
    "two families": (port(8080, hostIP=NODE[IPV4]), port(8080, hostIP=NODE[IPV6])),
    "all of IPv4, all of IPv6": (port(8080, hostIP="0.0.0.0"), port(8080, hostIP="::")),
    "an address and the loopback": (port(8080, hostIP=NODE[IPV4]), port(8080, hostIP="127.0.0.1")),
    "two loopbacks": (port(8080, hostIP="127.0.0.1"), port(8080, hostIP="::1")),
    "two addresses of the loopback": (port(8080, hostIP="127.0.0.1"), port(8080, hostIP="127.0.0.2")),
    "two ports": (port(8080), port(8081)),
}


@pytest.mark.parametrize("peace", PEACES.values(), ids=list(PEACES))
def test_ports_that_differ_are_of_two_containers(
    internet: Internet, peace: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    for said in peace:
        attach(internet, **mapped(said))
    assert unsound(internet.node) == []


@FAMILIES
def test_each_address_of_the_host_leads_to_the_container_that_has_its_port(
    internet: Internet, family: str
) -> None:
    one = attach(internet, **mapped(port(8080, hostIP=NODE[family])))
    other = attach(internet, **mapped(port(8080, hostIP=NODE_TO_BEYOND[family])))
    with one.answering(), other.answering():
        assert ask(internet.outside, TCP, NODE[family], 8080).who == one.name
        assert ask(internet.outside, TCP, NODE_TO_BEYOND[family], 8080).who == other.name


@FAMILIES
def test_each_loopback_address_leads_to_the_container_that_has_its_port(
    internet: Internet, family: str
) -> None:
    one = attach(internet, **mapped(port(8080, hostIP=LOOPBACK[family])))
    other = attach(internet, **mapped(port(8080, hostIP=NODE[family])))
    with one.answering(), other.answering():
        assert ask(internet.host, TCP, LOOPBACK[family], 8080).who == one.name
        assert ask(internet.host, TCP, NODE[family], 8080).who == other.name


def test_one_port_that_leads_to_two_at_once_is_a_bad_configuration(internet: Internet) -> None:
    assert refused(internet, **mapped(port(8080, 80), port(8080, 81))).code == 7


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_one_port_that_leads_to_two_at_once_is_a_bad_configuration_however_it_is_written(
    internet: Internet, everywhere: str
) -> None:
    assert refused(internet, **mapped(port(8080, 80), port(8080, 81, hostIP=everywhere))).code == 7


def test_the_same_mapping_twice_is_as_good_as_once(internet: Internet) -> None:
    attach(internet, **mapped(port(8080), port(8080), port(8080, hostIP="0.0.0.0")))
    assert len(internet.node.ledger().ports()) == 2


# Who comes after whom.


@PROTOCOLS
@FAMILIES
def test_a_port_is_refused_by_the_host_when_its_container_is_gone(
    internet: Internet, family: str, protocol: str
) -> None:
    container = attach(internet, **mapped(port(8080, protocol=protocol)))
    with container.answering():
        assert ask(internet.outside, protocol, NODE[family], 8080).who == container.name
    container.delete()
    for place in (internet.outside, internet.host):
        assert is_refused(place, protocol, NODE[family], 8080)


@FAMILIES
def test_a_port_on_which_its_container_does_not_listen_is_refused(internet: Internet, family: str) -> None:
    attach(internet, **mapped(port(8080)))
    assert is_refused(internet.outside, TCP, NODE[family], 8080)
    assert is_refused(internet.host, TCP, LOOPBACK[family], 8080)


@FAMILIES
def test_after_del_the_same_port_is_another_containers_at_once(internet: Internet, family: str) -> None:
    for _ in range(3):
        container = attach(internet, **mapped(port(8080)))
        with container.answering():
            assert ask(internet.outside, TCP, NODE[family], 8080).who == container.name
        container.delete()


def test_the_same_add_again_is_the_same_answer(internet: Internet) -> None:
    container = attach(internet, **mapped(port(8080)))
    again = internet.node.ask("ADD", container.name, container.config)
    assert again.document == container.added.document


def test_another_port_for_the_same_attachment_is_refused(internet: Internet) -> None:
    container = attach(internet, **mapped(port(8080)))
    again = internet.node.ask("ADD", container.name, internet.node.config(**mapped(port(8081))))
    assert again.code == 104


def test_a_container_that_vanished_gives_its_port_to_its_successor_at_once(internet: Internet) -> None:
    vanished = attach(internet, **mapped(port(8080), ipMasq=True, isolation="networks"))
    vanished.place.close()
    internet.node.remove_container(vanished.name)
    link = vanished.added.document["interfaces"][0]["name"]
    assert eventually(lambda: link not in internet.node.links())
    successor = attach(internet, **mapped(port(8080)))
    with successor.answering():
        assert ask(internet.outside, TCP, NODE[IPV4], 8080).who == successor.name
    assert [place.key.container_id for place in internet.node.ledger().places()] == [successor.name]


def test_a_container_that_lives_keeps_its_port(internet: Internet) -> None:
    """Its path is gone, but a process is still in it."""
    container = attach(internet, **mapped(port(8080)))
    with container.answering():
        internet.node.remove_container(container.name)
        assert refused(internet, **mapped(port(8080))).code == 105
        assert ask(internet.outside, TCP, NODE[IPV4], 8080).who == container.name
    container.delete()


# Many.


def test_two_interfaces_of_one_container_have_ports_of_their_own(internet: Internet) -> None:
    first = attach(internet, **mapped(port(8080)))
    second = internet.node.config("second", **mapped(port(8081, 81)))
    assert internet.node.ask("ADD", first.name, second, ifname="net1").status == 0
    with Answering(first.place, "at-80", 80), Answering(first.place, "at-81", 81):
        assert ask(internet.outside, TCP, NODE[IPV4], 8080).who == "at-80"
        assert ask(internet.outside, TCP, NODE[IPV4], 8081).who == "at-81"


@FAMILIES
def test_one_container_has_many_ports(internet: Internet, family: str) -> None:
    many = range(20000, 20200)
    container = attach(internet, **mapped(*(port(number, number) for number in many)))
    with container.answering(*many, protocols=(TCP,)):
        for number in many:
            assert ask(internet.outside, TCP, NODE[family], number).who == container.name
    assert container.check().code == 0
    container.delete()
    assert leftovers(internet.node) == []


def test_one_port_of_many_that_is_taken_refuses_them_all(internet: Internet) -> None:
    attach(internet, **mapped(port(20150)))
    done = refused(internet, **mapped(*(port(number) for number in range(20000, 20200))))
    assert done.code == 105
    assert is_refused(internet.outside, TCP, NODE[IPV4], 20000)


def test_check_finds_a_port_that_somebody_took_away(internet: Internet) -> None:
    container = attach(internet, **mapped(port(8080)))
    internet.node.inside("nft", "delete element inet netloom ports4 { tcp . 8080 }")
    done = container.check()
    if done.code == 0:  # the agent was quicker, and has put it back
        assert "8080" in json.dumps(internet.node.inside("nft", "list", "map", "inet", "netloom", "ports4"))
    else:
        assert done.code == 103
        assert "8080" in done.message
    assert eventually(lambda: container.check().code == 0)
