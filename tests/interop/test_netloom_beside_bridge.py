"""A network of netloom's and one of the reference plugins on one host, both with ports and masqueraded.

Each keeps its rules in tables of its own, and neither may take from the other what is for its containers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .callers import Library
from .greeting import GREETING, greeter, greetings, mirror
from .host import ADDRESSES, EVERYTHING, OUTSIDE, OWN, Host, loom

pytestmark = pytest.mark.interop

# By network, the port of the host that its server has.
PORTS = {"ours": 8080, "theirs": 9090}


class Containers(NamedTuple):
    server: str
    client: str


@pytest.fixture
def library(
    running: Host,
    shared_cache: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Library:
    for name, value in running.plugin_environment.items():
        monkeypatch.setenv(name, value)
    return Library(running)


def bridge(directory: Path, backend: str) -> list[dict[str, Any]]:
    ipam = {
        "type": "host-local",
        "dataDir": str(directory / "addresses"),
        "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd88::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    }
    masquerading = {"ipMasq": True, "ipMasqBackend": backend}
    return [
        {
            "type": "bridge",
            "bridge": "br0",
            "isGateway": True,
            "hairpinMode": True,
            **masquerading,
            "ipam": ipam,
        },
        {"type": "portmap", "backend": backend, "capabilities": {"portMappings": True}},
    ]


def mappings(network: str) -> list[dict[str, Any]]:
    return [{"hostPort": PORTS[network], "containerPort": 80, "protocol": "tcp"}]


def require_port(network: str, host: Host, *others: str) -> None:
    """Its server is heard on the host, outside and in other containers."""
    # ::1 is not for the reference plugins.
    own = OWN if network == "ours" else ("127.0.0.1", *ADDRESSES)
    assert greetings(PORTS[network], *own) == dict.fromkeys(own, GREETING)
    for netns in (host.outside, *others):
        assert greetings(PORTS[network], *ADDRESSES, netns=netns) == dict.fromkeys(ADDRESSES, GREETING)


def require_way_out(host: Host, *containers: str) -> None:
    """They are seen outside by the host's addresses."""
    with mirror(netns=host.outside) as port:
        for netns in containers:
            assert greetings(port, *OUTSIDE, netns=netns) == dict(zip(OUTSIDE, ADDRESSES, strict=True))


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
@pytest.mark.parametrize("order", [("ours", "theirs"), ("theirs", "ours")], ids="-then-".join)
def test_ports_and_masquerade_of_both_networks_work_beside_each_other(
    library: Library,
    running: Host,
    new_netns: Callable[[], str],
    tmp_path: Path,
    order: tuple[str, str],
    backend: str,
) -> None:
    running.network(loom(capabilities=EVERYTHING, ipMasq=True), name="ours")
    running.network(*bridge(tmp_path, backend), name="theirs")
    first, second = order
    containers: dict[str, Containers] = {}

    def attach(network: str) -> None:
        containers[network] = Containers(new_netns(), new_netns())
        library.add(network, containers[network].server, portMappings=mappings(network))
        library.add(network, containers[network].client)

    def detach(network: str) -> None:
        library.delete(network, containers[network].server, portMappings=mappings(network))
        library.delete(network, containers[network].client)

    attach(first)
    attach(second)
    with greeter(80, containers[first].server), greeter(80, containers[second].server):
        require_port(first, running, *containers[first], *containers[second])
        require_port(second, running, *containers[first], *containers[second])
        require_way_out(running, *containers[first], *containers[second])

        detach(first)
        require_port(second, running, *containers[second])
        require_way_out(running, *containers[second])
        attach(first)
        with greeter(80, containers[first].server):
            require_port(first, running, *containers[first], *containers[second])
    detach(second)
    detach(first)
    assert running.leftovers() == []
    assert running.audit() == []
