"""Host ports as elements of the node's table, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netloom.kernel import Plan
from netloom.networks.features import ports
from netloom.networks.features.options import MappedPort

pytestmark = pytest.mark.unit

NUMBERS = st.integers(1, 65535)
HOST_IPS = {
    False: st.sampled_from(["", "192.0.2.1", "127.0.0.1", "127.0.0.53"]),
    True: st.sampled_from(["", "2001:db8::1", "::1"]),
}
IPS = {False: "10.9.0.1", True: "fd09::1"}


@st.composite
def host_ports(draw: st.DrawFn) -> MappedPort:
    is_ipv6 = draw(st.booleans())
    return MappedPort(
        protocol=draw(st.sampled_from(["tcp", "udp", "sctp"])),
        host_port=draw(NUMBERS),
        ip=IPS[is_ipv6],
        port=draw(NUMBERS),
        host_ip=draw(HOST_IPS[is_ipv6]),
    )


def made(host_ip: str, ip: str) -> list[str]:
    """The sets that a port has elements in."""
    port = MappedPort(protocol="tcp", host_port=8080, ip=ip, port=80, host_ip=host_ip)
    return [it.set for it in ports.elements([port])]


@given(st.lists(host_ports(), max_size=8))
def test_what_is_read_from_a_plan_is_what_was_put_there(said: list[MappedPort]) -> None:
    assert ports.of_plan(Plan(tuple(dict.fromkeys(ports.elements(said))))) == list(dict.fromkeys(said))


@pytest.mark.parametrize(("ip", "family"), [("10.9.0.1", "4"), ("fd09::1", "6")])
def test_a_port_of_all_addresses_is_one_of_the_loopback(ip: str, family: str) -> None:
    assert made("", ip) == [f"ports{family}", f"looped{family}"]


@pytest.mark.parametrize(
    ("host_ip", "ip", "place"),
    [("192.0.2.1", "10.9.0.1", "ports4_at"), ("2001:db8::1", "fd09::1", "ports6_at")],
)
def test_a_port_of_another_address_is_none_of_the_loopback(host_ip: str, ip: str, place: str) -> None:
    assert made(host_ip, ip) == [place]


@pytest.mark.parametrize(
    ("host_ip", "shown"), [("", "80/tcp"), ("192.0.2.1", "192.0.2.1:80/tcp"), ("::1", "[::1]:80/tcp")]
)
def test_a_port_is_shown_as_people_write_it(host_ip: str, shown: str) -> None:
    port = MappedPort(protocol="tcp", host_port=80, ip="10.9.0.1", port=80, host_ip=host_ip)
    assert str(port) == shown
