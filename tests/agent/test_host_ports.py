"""Host ports: who reaches a container by a port of the host, and whom the container sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from netloom.kernel import Namespace
from netloom.networks.names import HOST_MAC

from ..fixtures.internet import (
    BEYOND,
    IPV4,
    IPV6,
    LOOPBACK,
    NODE,
    NODE_TO_BEYOND,
    OUTSIDE,
    TCP,
    UDP,
    Answer,
    Answering,
    Attached,
    Internet,
    ask,
    attach,
    is_refused,
    leftovers,
    mapped,
    new_internet,
    port,
    send_on_the_wire,
    socket_at,
)
from ..fixtures.node import POOLS
from ..fixtures.packets import udp4

pytestmark = pytest.mark.kernel

FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, UDP])

OTHER_POOLS = ({"cidr": "10.8.0.0/16"}, {"cidr": "fd08::/64"})

# Ports of the host: of all its addresses; of UDP only; of one address; of its loopback; of nobody.
OPEN, ONLY_TCP, AT_ONE, AT_HOME, NOBODYS = 8080, 8081, 8082, 8083, 8084
# Of the loopback, too; it leads to a port on which nobody answers by itself.
AT_HOME_QUIET, QUIET = 8085, 90


class Street(NamedTuple):
    """`web` has the ports; `neighbour` is of the same network, `stranger` of another."""

    internet: Internet
    web: Attached
    neighbour: Attached
    stranger: Attached


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    with new_internet() as internet, ExitStack() as stack:
        internet.node.start()
        web = attach(
            internet,
            "web",
            **mapped(
                *(port(OPEN, protocol=protocol) for protocol in (TCP, UDP)),
                port(ONLY_TCP),
                port(AT_HOME_QUIET, QUIET, UDP, hostIP=LOOPBACK[IPV4]),
                *(
                    port(number, protocol=protocol, hostIP=address)
                    for number, addresses in ((AT_ONE, NODE), (AT_HOME, LOOPBACK))
                    for address in addresses.values()
                    for protocol in (TCP, UDP)
                ),
            ),
        )
        neighbour = attach(internet, "neighbour", isolation="none", ipMasq=True)
        stranger = attach(internet, "stranger", network="other", pools=OTHER_POOLS, ipMasq=True)
        stack.enter_context(web.answering())
        stack.enter_context(Answering(internet.beyond, "beyond", OPEN))
        yield Street(internet, web, neighbour, stranger)
        assert internet.node.audit([*POOLS, *OTHER_POOLS]) == []
        for it in (web, neighbour, stranger):
            it.delete()
        assert leftovers(internet.node) == []


def callers(street: Street) -> dict[str, Namespace]:
    return {
        "outside": street.internet.outside,
        "beyond": street.internet.beyond,
        "the host": street.internet.host,
        "the container itself": street.web.place,
        "another of its network": street.neighbour.place,
        "one of another network": street.stranger.place,
    }


@PROTOCOLS
@FAMILIES
@pytest.mark.parametrize(
    "caller",
    [
        "outside",
        "beyond",
        "the host",
        "the container itself",
        "another of its network",
        "one of another network",
    ],
)
def test_a_host_port_is_reached_at_the_hosts_address_by(
    street: Street, caller: str, family: str, protocol: str
) -> None:
    assert ask(callers(street)[caller], protocol, NODE[family], OPEN).who == "web"


@PROTOCOLS
@FAMILIES
@pytest.mark.parametrize("number", [OPEN, AT_HOME])
def test_a_host_port_is_reached_at_the_hosts_loopback_by_the_host(
    street: Street, family: str, protocol: str, number: int
) -> None:
    assert ask(street.internet.host, protocol, LOOPBACK[family], number).who == "web"


@PROTOCOLS
@FAMILIES
def test_a_host_port_is_reached_at_the_hosts_other_address(
    street: Street, family: str, protocol: str
) -> None:
    assert ask(street.internet.outside, protocol, NODE_TO_BEYOND[family], OPEN).who == "web"


@PROTOCOLS
@FAMILIES
def test_who_calls_from_outside_is_seen_by_its_own_address(
    street: Street, family: str, protocol: str
) -> None:
    seen = ask(street.internet.outside, protocol, NODE[family], OPEN)
    assert seen == Answer("web", OUTSIDE[family])


@PROTOCOLS
@FAMILIES
def test_another_container_that_calls_is_seen_by_its_own_address(
    street: Street, family: str, protocol: str
) -> None:
    seen = ask(street.stranger.place, protocol, NODE[family], OPEN)
    assert seen == Answer("web", street.stranger.addresses[family])


def test_no_link_is_opened_to_loopback_addresses(street: Street) -> None:
    every = street.internet.node.inside("sysctl", "-a", "--pattern", r"route_localnet$").split("\n")
    assert {line.split(" = ")[1] for line in every if line} == {"0"}


# Of one address.


@PROTOCOLS
@FAMILIES
def test_a_port_of_one_address_is_reached_there(street: Street, family: str, protocol: str) -> None:
    assert ask(street.internet.outside, protocol, NODE[family], AT_ONE).who == "web"


@PROTOCOLS
@FAMILIES
def test_a_port_of_one_address_is_no_port_of_another(street: Street, family: str, protocol: str) -> None:
    assert is_refused(street.internet.outside, protocol, NODE_TO_BEYOND[family], AT_ONE)


@PROTOCOLS
@FAMILIES
def test_a_port_of_one_address_is_no_port_of_the_loopback(street: Street, family: str, protocol: str) -> None:
    assert is_refused(street.internet.host, protocol, LOOPBACK[family], AT_ONE)


@PROTOCOLS
@FAMILIES
def test_a_port_of_the_loopback_is_no_port_of_the_hosts_address(
    street: Street, family: str, protocol: str
) -> None:
    assert is_refused(street.internet.outside, protocol, NODE[family], AT_HOME)


def first_heard_at_home(street: Street, place: Namespace, to: str, source: str) -> bytes:
    """What the container hears first, if somebody sends to 127.0.0.1 on a wire before the host calls it."""
    with (
        socket_at(street.web.place, UDP, IPV4) as listening,
        socket_at(street.internet.host, UDP, IPV4) as own,
    ):
        listening.bind(("0.0.0.0", QUIET))
        packet = udp4(source, LOOPBACK[IPV4], AT_HOME_QUIET, b"from the wire")
        for _ in range(3):
            send_on_the_wire(place, "eth0", packet, to=to)
        own.sendto(b"from home", (LOOPBACK[IPV4], AT_HOME_QUIET))
        return listening.recv(100)


def test_a_port_of_the_loopback_is_not_reached_by_a_neighbour_who_sends_to_it_on_the_wire(
    street: Street,
) -> None:
    """Nobody may send to 127.0.0.1 on a wire, but everybody on it can."""
    link = json.loads(street.internet.node.inside("ip", "-j", "link", "show", "out0"))[0]
    heard = first_heard_at_home(street, street.internet.outside, link["address"], OUTSIDE[IPV4])
    assert heard == b"from home"


def test_a_port_of_the_loopback_is_not_reached_by_a_container_that_sends_to_it_on_the_wire(
    street: Street,
) -> None:
    caller = street.stranger
    heard = first_heard_at_home(street, caller.place, HOST_MAC, caller.addresses[IPV4])
    assert heard == b"from home"


# What is no business of a host port.


@PROTOCOLS
@FAMILIES
def test_the_same_port_of_another_machine_is_reached_through_the_host(
    street: Street, family: str, protocol: str
) -> None:
    assert ask(street.internet.outside, protocol, BEYOND[family], OPEN) == Answer("beyond", OUTSIDE[family])


@PROTOCOLS
@FAMILIES
def test_the_same_port_of_another_machine_is_reached_by_a_container(
    street: Street, family: str, protocol: str
) -> None:
    assert ask(street.neighbour.place, protocol, BEYOND[family], OPEN).who == "beyond"


@PROTOCOLS
@FAMILIES
def test_the_same_port_of_another_machine_is_reached_by_the_host(
    street: Street, family: str, protocol: str
) -> None:
    assert ask(street.internet.host, protocol, BEYOND[family], OPEN).who == "beyond"


@FAMILIES
def test_a_port_of_tcp_is_none_of_udp(street: Street, family: str) -> None:
    assert ask(street.internet.outside, TCP, NODE[family], ONLY_TCP).who == "web"
    assert is_refused(street.internet.outside, UDP, NODE[family], ONLY_TCP)


@PROTOCOLS
@FAMILIES
@pytest.mark.parametrize("caller", ["outside", "the host", "another of its network"])
def test_a_port_that_nobody_has_is_refused(street: Street, caller: str, family: str, protocol: str) -> None:
    assert is_refused(callers(street)[caller], protocol, NODE[family], NOBODYS)


@PROTOCOLS
@FAMILIES
def test_a_service_of_the_host_on_another_port_is_reached_and_sees_its_callers(
    street: Street, family: str, protocol: str
) -> None:
    with Answering(street.internet.host, "host", NOBODYS):
        assert ask(street.internet.host, protocol, LOOPBACK[family], NOBODYS) == Answer(
            "host", LOOPBACK[family]
        )
        assert ask(street.internet.outside, protocol, NODE[family], NOBODYS) == Answer(
            "host", OUTSIDE[family]
        )


@PROTOCOLS
@FAMILIES
def test_a_service_of_the_host_answers_a_caller_whose_own_port_is_mapped(
    street: Street, family: str, protocol: str
) -> None:
    """An ephemeral port may be one that is mapped: what comes back to it is no call."""
    with (
        Answering(street.internet.host, "host", NOBODYS),
        socket_at(street.internet.host, protocol, family) as own,
    ):
        own.bind((LOOPBACK[family], OPEN))
        own.connect((LOOPBACK[family], NOBODYS))
        own.send(b"who?")
        assert own.recv(100).decode() == f"host {LOOPBACK[family]}"


@PROTOCOLS
def test_a_service_of_the_host_on_another_loopback_address_sees_its_callers(
    street: Street, protocol: str
) -> None:
    """Such as a resolver on 127.0.0.53, beside a container that has the port of 127.0.0.1."""
    with Answering(street.internet.host, "host", AT_HOME, at="127.0.0.53"):
        assert ask(street.internet.host, protocol, "127.0.0.53", AT_HOME) == Answer("host", "127.0.0.1")


@PROTOCOLS
def test_a_host_port_is_reached_from_any_loopback_address(street: Street, protocol: str) -> None:
    assert ask(street.internet.host, protocol, "127.0.0.1", OPEN, source="127.0.0.2").who == "web"


@PROTOCOLS
@FAMILIES
def test_a_host_port_of_any_address_is_reached_from_the_loopback_address(
    street: Street, family: str, protocol: str
) -> None:
    assert ask(street.internet.host, protocol, NODE[family], OPEN, source=LOOPBACK[family]).who == "web"
