"""Flows that began before a host port came or went follow it soon, and nobody else's do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ..fixtures.internet import (
    BEYOND,
    IPV4,
    IPV6,
    LOOPBACK,
    NODE,
    TCP,
    UDP,
    Answering,
    Internet,
    Sender,
    ask,
    attach,
    detach_all,
    mapped,
    new_internet,
    port,
    socket_at,
)
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])

PORT = 5300
# Much less than a flow lasts that nobody ends: as long as somebody sends, for ever.
SOON = 10.0
# After an agent was killed: its successor has to start first.
LATER = 20.0


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


@pytest.fixture
def own(internet: Internet) -> Iterator[None]:
    """The host has a service of its own on the port."""
    with Answering(internet.host, "host", PORT, protocols=(UDP,)):
        yield


def restart(internet: Internet) -> None:
    internet.node.kill()
    internet.node.start()


MAPPED = mapped(port(PORT, protocol=UDP))


@pytest.mark.usefixtures("own")
@FAMILIES
def test_a_sender_from_outside_reaches_the_container_after_add_and_the_host_after_del(
    internet: Internet, family: str
) -> None:
    with Sender(internet.outside, NODE[family], PORT) as sender:
        assert sender.hears("host", SOON)
        container = attach(internet, **MAPPED)
        with container.answering(protocols=(UDP,)):
            assert sender.hears(container.name, SOON)
            container.delete()
            assert sender.hears("host", SOON)


@pytest.mark.usefixtures("own")
@FAMILIES
@pytest.mark.parametrize("where", ["its address", "its loopback"])
def test_a_sender_on_the_host_reaches_the_container_after_add_and_the_host_after_del(
    internet: Internet, family: str, where: str
) -> None:
    address = NODE[family] if where == "its address" else LOOPBACK[family]
    with Sender(internet.host, address, PORT) as sender:
        assert sender.hears("host", SOON)
        container = attach(internet, **MAPPED)
        with container.answering(protocols=(UDP,)):
            assert sender.hears(container.name, SOON)
            container.delete()
            assert sender.hears("host", SOON)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("address", [NODE[IPV4], NODE[IPV6], "169.254.1.1"])
def test_a_sender_in_a_container_reaches_another_after_add_and_the_host_after_del(
    internet: Internet, address: str
) -> None:
    caller = attach(internet)
    with Sender(caller.place, address, PORT) as sender:
        assert sender.hears("host", SOON)
        container = attach(internet, **MAPPED)
        with container.answering(protocols=(UDP,)):
            assert sender.hears(container.name, SOON)
            container.delete()
            assert sender.hears("host", SOON)


@FAMILIES
def test_a_sender_to_whom_nobody_listened_reaches_the_container_after_add(
    internet: Internet, family: str
) -> None:
    with Sender(internet.outside, NODE[family], PORT) as sender:
        assert not sender.hears("host", 0.1)
        container = attach(internet, **MAPPED)
        with container.answering(protocols=(UDP,)):
            assert sender.hears(container.name, SOON)


@FAMILIES
def test_a_sender_reaches_the_next_container_that_has_the_port(internet: Internet, family: str) -> None:
    first = attach(internet, **MAPPED)
    with first.answering(protocols=(UDP,)), Sender(internet.outside, NODE[family], PORT) as sender:
        assert sender.hears(first.name, SOON)
        first.delete()
        second = attach(internet, **MAPPED)
        with second.answering(protocols=(UDP,)):
            assert sender.hears(second.name, SOON)


@FAMILIES
def test_a_sender_reaches_the_next_container_that_has_the_port_and_the_address(
    internet: Internet, family: str
) -> None:
    first = attach(internet, cooldown=0, **MAPPED)
    with Sender(internet.outside, NODE[family], PORT) as sender:
        with first.answering(protocols=(UDP,)):
            assert sender.hears(first.name, SOON)
        first.delete()
        again = {"cni": {"ips": first.added.addresses}}
        second = attach(internet, cooldown=0, args=again, **mapped(port(PORT, 81, protocol=UDP)))
        with second.answering(81, protocols=(UDP,)):
            assert sender.hears(second.name, SOON)


@pytest.mark.usefixtures("own")
@FAMILIES
def test_a_sender_reaches_the_container_after_add_though_the_agent_was_killed(
    internet: Internet, family: str
) -> None:
    with Sender(internet.outside, NODE[family], PORT) as sender:
        assert sender.hears("host", SOON)
        container = attach(internet, **MAPPED)
        restart(internet)
        with container.answering(protocols=(UDP,)):
            assert sender.hears(container.name, LATER)


@pytest.mark.usefixtures("own")
@FAMILIES
def test_a_sender_reaches_the_host_after_del_though_the_agent_was_killed(
    internet: Internet, family: str
) -> None:
    container = attach(internet, **MAPPED)
    with container.answering(protocols=(UDP,)), Sender(internet.outside, NODE[family], PORT) as sender:
        assert sender.hears(container.name, SOON)
        container.delete()
        restart(internet)
        assert sender.hears("host", LATER)


@FAMILIES
def test_a_sender_reaches_the_next_container_though_the_agent_was_killed_in_between(
    internet: Internet, family: str
) -> None:
    first = attach(internet, cooldown=0, **MAPPED)
    with Sender(internet.outside, NODE[family], PORT) as sender:
        with first.answering(protocols=(UDP,)):
            assert sender.hears(first.name, SOON)
        first.delete()
        restart(internet)
        second = attach(internet, cooldown=0, **MAPPED)
        with second.answering(protocols=(UDP,)):
            assert sender.hears(second.name, LATER)


@pytest.fixture
def firewall(internet: Internet) -> Iterator[None]:
    """Somebody else's rules, which make the kernel track connections whether our table is there or not."""
    chain = "chain there { type filter hook input priority 0; ct state invalid drop; };"
    internet.node.inside("nft", f"table inet firewall {{ {chain} }}")
    yield
    internet.node.inside("nft", "delete table inet firewall")


@pytest.mark.usefixtures("own", "firewall")
@FAMILIES
def test_a_sender_that_began_while_the_table_was_gone_reaches_the_container(
    internet: Internet, family: str
) -> None:
    container = attach(internet, **MAPPED)
    tables = internet.node.counted("tables")
    with container.answering(protocols=(UDP,)):
        internet.node.inside("nft", "delete table inet netloom")
        with Sender(internet.outside, NODE[family], PORT) as sender:
            assert eventually(lambda: internet.node.counted("tables") > tables)
            assert sender.hears(container.name, SOON)


@FAMILIES
def test_a_late_answer_of_the_hosts_own_service_does_not_keep_its_caller(
    internet: Internet, family: str
) -> None:
    """What the host sends from a port that is mapped by then looks like a flow of its own, the other way."""
    everywhere = "0.0.0.0" if family == IPV4 else "::"
    with socket_at(internet.host, UDP, family) as own, socket_at(internet.outside, UDP, family) as calling:
        own.bind((everywhere, PORT))
        calling.bind((everywhere, 0))
        calling.settimeout(0.1)
        calling.sendto(b"who?", (NODE[family], PORT))
        _, caller = own.recvfrom(100)
        container = attach(internet, **MAPPED)
        own.sendto(b"host, late", caller)
        with container.answering(protocols=(UDP,)):

            def reaches_the_container() -> bool:
                calling.sendto(b"who?", (NODE[family], PORT))
                with suppress(TimeoutError):
                    return calling.recv(100).startswith(container.name.encode())
                return False

            assert eventually(reaches_the_container, SOON)


# Those of others.


def tracked(internet: Internet, pattern: str) -> list[str]:
    """Tracked connections of the host, without what changes by itself."""
    listed = "".join(internet.node.inside("conntrack", "-L", "-f", it, "-o", "id") for it in ("ipv4", "ipv6"))
    return re.findall(r"id=\d+", "\n".join(line for line in listed.splitlines() if pattern in line))


@FAMILIES
def test_a_flow_to_the_same_port_of_another_machine_is_left_alone(internet: Internet, family: str) -> None:
    with (
        Answering(internet.beyond, "beyond", PORT, protocols=(UDP,)),
        Sender(internet.outside, BEYOND[family], PORT) as sender,
    ):
        assert sender.hears("beyond", SOON)
        before = tracked(internet, f"dst={BEYOND[family]} ")
        container = attach(internet, **MAPPED)
        time.sleep(0.6)
        container.delete()
        time.sleep(0.6)
        assert sender.hears("beyond", SOON)
        assert tracked(internet, f"dst={BEYOND[family]} ") == before != []


@FAMILIES
def test_a_flow_to_another_port_of_the_same_container_is_left_alone(internet: Internet, family: str) -> None:
    stays = attach(internet, **mapped(port(PORT + 1, protocol=UDP)))
    with stays.answering(protocols=(UDP,)), Sender(internet.outside, NODE[family], PORT + 1) as sender:
        assert sender.hears(stays.name, SOON)
        before = tracked(internet, f"dport={PORT + 1} ")
        goes = attach(internet, **MAPPED)
        goes.delete()
        time.sleep(0.6)
        assert tracked(internet, f"dport={PORT + 1} ") == before != []


@FAMILIES
@pytest.mark.parametrize("where", ["outside", "the host by its address", "the host by its loopback"])
def test_a_connection_to_a_service_of_the_host_lives_on_when_its_port_is_mapped(
    internet: Internet, family: str, where: str
) -> None:
    address = LOOPBACK[family] if where == "the host by its loopback" else NODE[family]
    place = internet.outside if where == "outside" else internet.host
    with socket_at(internet.host, TCP, family) as listening, socket_at(place, TCP, family) as calling:
        listening.bind((address, PORT))
        listening.listen()
        calling.connect((address, PORT))
        serving, _ = listening.accept()
        with serving:
            serving.settimeout(2)
            container = attach(internet, **mapped(port(PORT)))
            for _ in range(4):
                calling.send(b"ping")
                assert serving.recv(10) == b"ping"
                serving.send(b"pong")
                assert calling.recv(10) == b"pong"
                time.sleep(0.15)
            with container.answering(protocols=(TCP,)):
                assert ask(place, TCP, address, PORT).who == container.name


@FAMILIES
def test_a_connection_to_a_container_lives_on_when_another_port_comes_and_goes(
    internet: Internet, family: str
) -> None:
    stays = attach(internet, **mapped(port(PORT)))
    with (
        socket_at(stays.place, TCP, family) as listening,
        socket_at(internet.outside, TCP, family) as calling,
    ):
        listening.bind(("0.0.0.0" if family == IPV4 else "::", 80))
        listening.listen()
        calling.connect((NODE[family], PORT))
        serving, _ = listening.accept()
        with serving:
            serving.settimeout(2)
            attach(internet, **mapped(port(PORT + 1))).delete()
            restart(internet)
            time.sleep(0.6)
            calling.send(b"ping")
            assert serving.recv(10) == b"ping"
