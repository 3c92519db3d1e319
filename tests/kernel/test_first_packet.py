"""What is sent to a link as soon as its plan is applied arrives."""

from __future__ import annotations

import os
import socket

import pytest

from netloom.kernel import Address, Namespace, Neighbour, Plan, Route, Scope, Up, Veth, apply, remove

MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
TIMES = 200

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        tuple(map(int, os.uname().release.split(".")[:2])) < (6, 8),
        reason="a kernel before 6.8 lets a link send when it comes to it",
    ),
]

PLAN = Plan(
    (
        Veth("nl0", "eth0", mac=MAC, peer_mac=PEER_MAC),
        Up("nl0"),
        Up("eth0", on="attachment"),
        Address("eth0", "10.9.0.2/32", on="attachment"),
        Neighbour("nl0", "10.9.0.2", PEER_MAC),
        Route("10.9.0.2/32", link="nl0"),
    )
)


def test_the_first_packet_to_a_new_link_arrives() -> None:
    with Namespace.new() as host:
        apply(Plan((Up("lo"), Address("lo", "192.0.2.1/32"))), Scope(host))
        with host.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("192.0.2.1", 0))
            lost = sum(not arrives(host, sender) for _ in range(TIMES))
    assert lost == 0


def arrives(host: Namespace, sender: socket.socket) -> bool:
    with Namespace.new() as pod:
        with pod.entered():
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with receiver:
            receiver.bind(("0.0.0.0", 9))
            receiver.settimeout(2)
            apply(PLAN, Scope(host, pod))
            sender.sendto(b"first", ("10.9.0.2", 9))
            try:
                receiver.recv(16)
            except TimeoutError:
                return False
            finally:
                remove(PLAN, Scope(host, pod))
    return True
