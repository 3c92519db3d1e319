"""Podman runs containers on a network, with plugins that it finds as it always does.

The reference plugins show that the ground is firm: only the `network` fixture knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lanes import PEERS
from .commands import eventually
from .greeting import GREETING, greeter, greeting
from .network import Network, host_links, reference_bridge
from .podman import Podman

pytestmark = pytest.mark.interop

RELEASES = {"v1.9.1": PEERS / "plugins", "debian-1.1.1": Path("/usr/lib/cni")}
FOREVER = ("sleep", "1000")
PORT_MAPPINGS = {"type": "portmap", "capabilities": {"portMappings": True}}
# Writes down what it finds in its environment, and leaves the rest to the real plugin.
WITNESS = """#!/bin/sh
[ "$CNI_COMMAND" = VERSION ] || echo "$CNI_COMMAND $WITNESSED" >>"$WITNESS_LOG"
exec "$WITNESS_OF"
"""


@pytest.fixture(params=list(RELEASES))
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Network:
    return reference_bridge(tmp_path / "network", RELEASES[request.param], PORT_MAPPINGS)


@pytest.fixture
def podman(
    network: Network,
    tmp_path: Path,
    host: str,  # noqa: ARG001
    shared_cache: Path,  # noqa: ARG001
) -> Iterator[Podman]:
    base = tmp_path / "podman"
    base.mkdir()
    with Podman(network.plugin_dirs, network.conf_dir, base, network.environment) as podman:
        yield podman


def address(podman: Podman, name: str, network: Network) -> str:
    found = podman.inspect(name)["Networks"][network.name]["IPAddress"]
    assert isinstance(found, str)
    return found


def test_two_containers_ping_each_other_and_reach_a_server_on_the_host(
    podman: Podman, network: Network
) -> None:
    podman.run("one", network.name, FOREVER)
    podman.run("two", network.name, FOREVER)
    addresses = {name: address(podman, name, network) for name in ("one", "two")}

    podman.exec("one", ("ping", "-c", "1", "-W", "5", addresses["two"]))
    podman.exec("two", ("ping", "-c", "1", "-W", "5", addresses["one"]))
    with greeter() as port:
        for name in addresses:
            assert podman.exec(name, ("nc", "-w", "5", network.gateway, str(port))) == GREETING


def test_a_removed_container_leaves_no_link_and_no_address(podman: Podman, network: Network) -> None:
    before = host_links() | network.standing
    podman.run("one", network.name, FOREVER)
    podman.run("two", network.name, FOREVER)
    assert network.held() == {address(podman, name, network) for name in ("one", "two")}

    podman.remove("one")
    podman.stop("two")
    podman.remove("two")

    assert network.held() == set()
    assert eventually(lambda: host_links() <= before, within=30), host_links() - before


def test_a_container_gets_the_address_the_mac_and_the_port_that_it_is_run_with(
    podman: Podman, network: Network
) -> None:
    serve = ("sh", "-c", f"while true; do echo -n {GREETING} | nc -l -p 80; done")
    podman.run("one", network.name, serve, ip=network.spare, mac="02:00:00:00:00:77", publish=["8080:80"])

    settings = podman.inspect("one")["Networks"][network.name]
    assert (settings["IPAddress"], settings["MacAddress"]) == (network.spare, "02:00:00:00:00:77")
    podman.restart("one")
    assert eventually(lambda: greeting(network.gateway, 8080) == GREETING, within=30)


def test_plugins_see_their_environment_also_when_a_container_ends_by_itself(
    tmp_path: Path,
    host: str,  # noqa: ARG001
    shared_cache: Path,  # noqa: ARG001
) -> None:
    network = reference_bridge(tmp_path / "network", RELEASES["v1.9.1"])
    witness = tmp_path / "witness" / "bridge"
    witness.parent.mkdir()
    witness.write_text(WITNESS)
    witness.chmod(0o755)
    log = tmp_path / "witnessed"
    environment = {
        "WITNESSED": "what a plugin needs",
        "WITNESS_LOG": str(log),
        "WITNESS_OF": str(RELEASES["v1.9.1"] / "bridge"),
    }

    with Podman((witness.parent, *network.plugin_dirs), network.conf_dir, tmp_path, environment) as podman:
        podman.run("brief", network.name, ("sleep", "0.1"))
        assert eventually(lambda: network.held() == set(), within=30)

    assert log.read_text().splitlines() == ["ADD what a plugin needs", "DEL what a plugin needs"]
