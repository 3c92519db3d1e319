"""Podman, unchanged, publishes ports of containers on a network that has netloom alone.

The servers are the test's own, in the containers' namespaces: they speak both families and UDP.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.cni.plugin import inside

from ..fixtures.node import POOLS
from .callers import Cnitool, Refused
from .commands import CommandFailed
from .greeting import (
    GREETING,
    datagram_greeter,
    datagram_greeting,
    datagram_greetings,
    greeter,
    greetings,
    mirror,
)
from .host import ADDRESSES, EVERYTHING, OUTSIDE, OWN, PLUGIN_DIRS, Host, loom
from .podman import Podman

pytestmark = pytest.mark.interop

FOREVER = ("sleep", "1000")
HEARD_AT_ADDRESSES = dict.fromkeys(ADDRESSES, GREETING)


@pytest.fixture
def podman(
    running: Host,
    tmp_path: Path,
    shared_cache: Path,  # noqa: ARG001
) -> Iterator[Podman]:
    # Debian's podman knows no version that is newer.
    running.network(loom(capabilities=EVERYTHING), version="1.0.0")
    with Podman(PLUGIN_DIRS, running.confs, tmp_path, running.plugin_environment) as podman:
        yield podman


def namespace(podman: Podman, name: str) -> str:
    path = podman.inspect(name)["SandboxKey"]
    assert isinstance(path, str)
    return path


def addresses(podman: Podman, name: str) -> tuple[str, str]:
    """Of both families, as podman tells them."""
    settings = podman.inspect(name)["Networks"]["net"]
    return settings["IPAddress"], settings["GlobalIPv6Address"]


def test_a_published_port_is_reached_from_everywhere_until_the_container_is_removed(
    podman: Podman, running: Host
) -> None:
    podman.run("server", "net", FOREVER, publish=["8080:80"])
    podman.run("client", "net", FOREVER)
    server, client = namespace(podman, "server"), namespace(podman, "client")

    with greeter(80, server):
        assert greetings(8080, *OWN) == dict.fromkeys(OWN, GREETING)
        for netns in (running.outside, client, server):
            assert greetings(8080, *ADDRESSES, netns=netns) == HEARD_AT_ADDRESSES
        # Of others it is not our port.
        with mirror(8080, running.outside):
            assert greetings(8080, *OUTSIDE, netns=client) == dict(
                zip(OUTSIDE, addresses(podman, "client"), strict=True)
            )
    podman.remove("server")

    running.await_dels()
    assert greetings(8080, *OWN) == dict.fromkeys(OWN)
    assert greetings(8080, *ADDRESSES, netns=running.outside) == dict.fromkeys(ADDRESSES)
    podman.remove("client")
    assert running.leftovers() == []
    assert running.audit() == []


def test_a_container_publishes_at_one_address_by_udp_and_many_ports_at_once(
    podman: Podman, running: Host
) -> None:
    many = range(9000, 9005)
    publish = [
        "127.0.0.1:8081:80",
        "[::1]:8082:80",
        "192.0.2.1:8083:80",
        "5353:53/udp",
        "9000-9004:9000-9004",
    ]
    podman.run("server", "net", FOREVER, publish=publish)
    podman.run("client", "net", FOREVER)
    server, client = namespace(podman, "server"), namespace(podman, "client")

    with greeter(80, server):
        for port, at in ((8081, "127.0.0.1"), (8082, "::1"), (8083, "192.0.2.1")):
            assert greetings(port, *OWN) == {**dict.fromkeys(OWN), at: GREETING}
        assert greetings(8081, *ADDRESSES, netns=running.outside) == dict.fromkeys(ADDRESSES)
        assert greetings(8083, "192.0.2.1", netns=running.outside) == {"192.0.2.1": GREETING}
    with datagram_greeter(53, server):
        assert datagram_greetings(5353, *OWN) == dict.fromkeys(OWN, GREETING)
        for netns in (running.outside, client, server):
            assert datagram_greetings(5353, *ADDRESSES, netns=netns) == HEARD_AT_ADDRESSES
    for port in many:
        with greeter(port, server):
            assert greetings(port, *ADDRESSES, netns=running.outside) == HEARD_AT_ADDRESSES
    podman.remove("server")
    podman.remove("client")
    assert running.leftovers() == []


def test_a_port_that_is_taken_is_refused_and_its_holder_keeps_it(
    podman: Podman, running: Host, netns: str
) -> None:
    podman.run("holder", "net", FOREVER, publish=["8080:80"])
    mapping = {"hostPort": 8080, "containerPort": 81, "protocol": "tcp"}
    before = running.leftovers()

    with pytest.raises(CommandFailed, match="8080"):
        podman.run("second", "net", FOREVER, publish=["8080:80"])
    podman.remove("second")
    # Podman is the first to refuse, as it holds a socket there. Others ask the plugin at once.
    with pytest.raises(Refused, match="8080"):
        Cnitool(running).add("net", netns, portMappings=[mapping])

    assert running.leftovers() == before
    with greeter(80, namespace(podman, "holder")):
        assert greetings(8080, *ADDRESSES, netns=running.outside) == HEARD_AT_ADDRESSES


def test_a_container_keeps_its_ports_when_it_is_restarted_and_when_the_agent_dies(
    podman: Podman, running: Host
) -> None:
    podman.run("server", "net", FOREVER, publish=["8080:80", "5353:53/udp"])

    def require_greetings() -> None:
        server = namespace(podman, "server")
        with greeter(80, server), datagram_greeter(53, server):
            assert greetings(8080, "127.0.0.1", *ADDRESSES) == dict.fromkeys(
                ("127.0.0.1", *ADDRESSES), GREETING
            )
            assert greetings(8080, *ADDRESSES, netns=running.outside) == HEARD_AT_ADDRESSES
            # One who asks by UDP always from the same port is led to where the container is now.
            with inside(running.outside):
                for address in ADDRESSES:
                    assert datagram_greeting(address, 5353, source_port=4000) == GREETING

    require_greetings()
    podman.restart("server")
    require_greetings()
    podman.reload("server")
    require_greetings()
    running.kill()
    require_greetings()
    running.start()
    require_greetings()
    podman.stop("server")
    with inside(running.outside):
        for address in ADDRESSES:
            assert datagram_greeting(address, 5353, source_port=4000, patience=0.5) is None
    podman.start("server")
    require_greetings()
    podman.remove("server")
    assert running.leftovers() == []
    assert running.audit() == []


def test_a_container_on_two_networks_publishes_its_ports_once(podman: Podman, running: Host) -> None:
    """Podman asks every network of a container for all of its ports."""
    pools = ({"cidr": "10.19.0.0/16"}, {"cidr": "fd19::/64"})
    for name in ("other", "third"):
        running.network(loom(capabilities=EVERYTHING, pools=pools), name=name, version="1.0.0")
    podman.run("server", "net,other", FOREVER, publish=["8080:80"])

    with greeter(80, namespace(podman, "server")):
        for change in (podman.connect, podman.disconnect):
            assert greetings(8080, *ADDRESSES, netns=running.outside) == HEARD_AT_ADDRESSES
            change("third", "server")
        assert greetings(8080, *OWN) == dict.fromkeys(OWN, GREETING)
    podman.remove("server")
    assert running.leftovers() == []
    assert running.audit((*POOLS, *pools)) == []
