"""containerd's own library, unchanged, asks netloom for ports, for limits and for name servers.

It writes what it asks for with capital letters (`HostPort`), which Go does not mind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .callers import GoCni, Refused
from .connections import ping
from .greeting import GREETING, datagram_greeter, datagram_greetings, greeter, greetings
from .host import ADDRESSES, EVERYTHING, OUTSIDE, OWN, Host, loom
from .rate import rate

pytestmark = pytest.mark.interop

MEGABIT = 1_000_000
TOLERANCE = 0.1
# A machine that has much else to do is slower than any limit for a while, and makes up for it afterwards.
TRIES = 5


@pytest.fixture
def gocni(
    running: Host,
    shared_cache: Path,  # noqa: ARG001
) -> GoCni:
    running.network(loom(capabilities=EVERYTHING))
    return GoCni(running)


def addresses(result: dict[str, Any]) -> list[str]:
    return [ip["address"].partition("/")[0] for ip in result["ips"]]


def mapping(host: int, container: int, protocol: str = "tcp", at: str = "") -> dict[str, Any]:
    return {"hostPort": host, "containerPort": container, "protocol": protocol, "hostIP": at}


def test_mapped_ports_lead_to_the_container_until_it_is_removed(
    gocni: GoCni, running: Host, new_netns: Callable[[], str]
) -> None:
    ports = [mapping(8080, 80), mapping(8080, 53, "udp"), mapping(8081, 80, at=ADDRESSES[0])]
    server, client = new_netns(), new_netns()
    gocni.setup(server, portMappings=ports)
    gocni.setup(client)

    gocni.check(server, portMappings=ports)
    with greeter(80, server), datagram_greeter(53, server):
        for heard in (greetings, datagram_greetings):
            assert heard(8080, *OWN) == dict.fromkeys(OWN, GREETING)
            for netns in (running.outside, client, server):
                assert heard(8080, *ADDRESSES, netns=netns) == dict.fromkeys(ADDRESSES, GREETING)
        assert greetings(8081, *OWN) == {**dict.fromkeys(OWN), ADDRESSES[0]: GREETING}
    with pytest.raises(Refused, match="8080"):
        gocni.setup(new_netns(), portMappings=ports)
    gocni.remove(server, portMappings=ports)
    gocni.remove(client)
    running.await_dels()
    assert greetings(8080, *ADDRESSES, netns=running.outside) == dict.fromkeys(ADDRESSES)
    assert running.leftovers() == []
    assert running.audit() == []


def is_limited(sender: str, receiver: str, address: str, limit: float) -> bool:
    return any(rate(sender, receiver, address) == pytest.approx(limit, rel=TOLERANCE) for _ in range(TRIES))


def test_both_directions_are_as_fast_as_they_may_be_and_no_faster(
    gocni: GoCni, running: Host, netns: str
) -> None:
    limits = {
        "ingressRate": 30 * MEGABIT,
        "ingressBurst": MEGABIT,
        "egressRate": 20 * MEGABIT,
        "egressBurst": MEGABIT,
    }
    result = gocni.setup(netns, bandwidth=limits)

    gocni.check(netns, bandwidth=limits)
    assert is_limited(running.outside, netns, addresses(result)[0], 30 * MEGABIT)
    assert is_limited(netns, running.outside, OUTSIDE[1], 20 * MEGABIT)
    gocni.remove(netns, bandwidth=limits)
    assert running.leftovers() == []
    assert running.audit() == []


def test_a_pod_that_publishes_nothing_and_is_limited_in_one_direction(
    gocni: GoCni, running: Host, netns: str
) -> None:
    # As containerd asks it: null for no ports, and the greatest burst that it can say.
    asked: dict[str, Any] = {
        "portMappings": None,
        "bandwidth": {"egressRate": 20 * MEGABIT, "egressBurst": (1 << 32) - 1},
    }
    result = gocni.setup(netns, **asked)

    gocni.check(netns, **asked)
    ping(netns, *OUTSIDE)
    measured = (rate(running.outside, netns, addresses(result)[0], seconds=0.2) for _ in range(TRIES))
    assert any(received > 60 * MEGABIT for received in measured)
    gocni.remove(netns, **asked)
    assert running.leftovers() == []
    assert running.audit() == []


def test_the_name_servers_that_the_runtime_says_are_in_the_result(gocni: GoCni, netns: str) -> None:
    result = gocni.setup(netns, dns={"servers": ["10.9.0.53"], "searches": ["example"]})

    assert result["dns"] == {"nameservers": ["10.9.0.53"], "search": ["example"]}
    gocni.remove(netns)
