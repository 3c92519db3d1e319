"""Host ports of SCTP, which many kernels do not have."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from netloom.kernel import Namespace

from ..fixtures.internet import (
    IPV4,
    IPV6,
    LOOPBACK,
    NODE,
    OUTSIDE,
    SCTP,
    TCP,
    Answer,
    Attached,
    Internet,
    ask,
    attach,
    detach_all,
    is_refused,
    leftovers,
    mapped,
    new_internet,
    port,
)

pytestmark = pytest.mark.fullkernel

FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])

PORT, ONLY_TCP = 8080, 8081


class Street(NamedTuple):
    internet: Internet
    web: Attached
    neighbour: Attached


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    """`web` answers on a host port of SCTP."""
    subprocess.run(["modprobe", "sctp"], check=True)
    with new_internet() as internet:
        internet.node.start(patience=120)
        web = attach(internet, "web", **mapped(port(PORT, protocol=SCTP), port(ONLY_TCP)))
        neighbour = attach(internet, "neighbour")
        with web.answering(protocols=(SCTP,)):
            yield Street(internet, web, neighbour)
        detach_all(internet)


def callers(street: Street) -> dict[str, Namespace]:
    return {
        "outside": street.internet.outside,
        "the host": street.internet.host,
        "the container itself": street.web.place,
        "another container": street.neighbour.place,
    }


@FAMILIES
@pytest.mark.parametrize("caller", ["outside", "the host", "the container itself", "another container"])
def test_a_host_port_of_sctp_is_reached_at_the_hosts_address_by(
    street: Street, caller: str, family: str
) -> None:
    assert ask(callers(street)[caller], SCTP, NODE[family], PORT, patience=10).who == "web"


@FAMILIES
def test_a_host_port_of_sctp_is_reached_at_the_hosts_loopback(street: Street, family: str) -> None:
    assert ask(street.internet.host, SCTP, LOOPBACK[family], PORT, patience=10).who == "web"


@FAMILIES
def test_who_calls_from_outside_is_seen_by_its_own_address(street: Street, family: str) -> None:
    answer = ask(street.internet.outside, SCTP, NODE[family], PORT, patience=10)
    assert answer == Answer("web", OUTSIDE[family])


def test_a_port_of_sctp_is_none_of_tcp_and_the_other_way_round(street: Street) -> None:
    assert is_refused(street.internet.outside, TCP, NODE[IPV4], PORT)
    assert is_refused(street.internet.outside, SCTP, NODE[IPV4], ONLY_TCP)


def test_a_port_of_sctp_is_refused_by_the_host_when_its_container_is_gone(street: Street) -> None:
    before = leftovers(street.internet.node)
    gone = attach(street.internet, **mapped(port(PORT + 10, protocol=SCTP)))
    with gone.answering(protocols=(SCTP,)):
        assert ask(street.internet.outside, SCTP, NODE[IPV4], PORT + 10, patience=10).who == gone.name
    # Not by the plugin, which would queue what takes long on a processor that is emulated.
    assert street.internet.node.ask("DEL", gone.name, gone.config).status == 0
    assert is_refused(street.internet.outside, SCTP, NODE[IPV4], PORT + 10)
    assert leftovers(street.internet.node) == before
