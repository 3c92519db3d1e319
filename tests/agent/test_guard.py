"""What the guard of a container's link drops beside forged sources, and how often that is counted."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from netloom.networks.names import HOST_MAC

from ..fixtures.internet import IPV6, OUTSIDE, Attached, Internet, attach, new_internet, run_in
from ..fixtures.packets import send_raw, udp6

pytestmark = pytest.mark.kernel

PORT = 5555
_IPV6 = 0x86DD


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with new_internet() as internet:
        internet.node.start()
        run_in(internet.host, "ip", "-6", "route", "add", "default", "via", OUTSIDE[IPV6])
        yield internet


@pytest.fixture(scope="module")
def container(internet: Internet) -> Attached:
    return attach(internet, ipMasq=True)


def send(container: Attached, packet: bytes) -> None:
    send_raw(container.name, "eth0", _IPV6, packet, to=HOST_MAC, source="02:00:00:00:00:09")


@pytest.mark.parametrize("destination", ["::ffff:192.0.2.2", "::ffff:10.9.0.1", "::192.0.2.2", "::2"])
def test_what_is_for_an_address_that_no_host_can_have_does_not_leave(
    container: Attached, destination: str
) -> None:
    own, outside = container.addresses[IPV6], container.internet.outside
    with outside.entered():
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV6))
    with wire:
        wire.settimeout(20)
        send(container, udp6(own, destination, PORT, b"nowhere"))
        send(container, udp6(own, OUTSIDE[IPV6], PORT, b"honest"))
        # Neighbours are solicited on this wire, too.
        while (seen := wire.recv(2000)[40 + 8 :]) not in (b"nowhere", b"honest"):
            pass
    assert seen == b"honest"
