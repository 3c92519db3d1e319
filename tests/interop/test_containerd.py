"""Containerd's `ctr run --cni` runs containers on a network, with plugins where it looks for them.

The reference plugins show that the ground is firm: only the `network` fixture knows of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lanes import PEERS
from .commands import CommandFailed, eventually
from .containerd import Containerd
from .greeting import GREETING, greeter
from .network import Network, host_links, reference_bridge

pytestmark = pytest.mark.interop

RELEASES = {"v1.9.1": PEERS / "plugins", "debian-1.1.1": Path("/usr/lib/cni")}
FOREVER = ("sleep", "1000")


@pytest.fixture(params=list(RELEASES))
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Network:
    return reference_bridge(tmp_path / "network", RELEASES[request.param])


@pytest.fixture
def containerd(
    network: Network,
    tmp_path: Path,
    host: str,  # noqa: ARG001
    shared_cache: Path,  # noqa: ARG001
) -> Iterator[Containerd]:
    base = tmp_path / "containerd"
    base.mkdir()
    with Containerd(network.plugin_dirs, network.conf_dir, base, network.environment) as containerd:
        yield containerd


def address(containerd: Containerd, name: str) -> str:
    shown = containerd.exec(name, ("ip", "-o", "-4", "addr", "show", "dev", "eth0")).split()
    return shown[shown.index("inet") + 1].partition("/")[0]


def test_two_containers_ping_each_other_and_reach_a_server_on_the_host(
    containerd: Containerd, network: Network
) -> None:
    containerd.run("one", FOREVER)
    containerd.run("two", FOREVER)
    addresses = {name: address(containerd, name) for name in ("one", "two")}

    containerd.exec("one", ("ping", "-c", "1", "-W", "5", addresses["two"]))
    containerd.exec("two", ("ping", "-c", "1", "-W", "5", addresses["one"]))
    with greeter() as port:
        for name in addresses:
            assert containerd.exec(name, ("nc", "-w", "5", network.gateway, str(port))) == GREETING


def test_a_removed_container_leaves_no_link_and_no_address(containerd: Containerd, network: Network) -> None:
    before = host_links() | network.standing
    containerd.run("one", FOREVER)
    containerd.run("two", FOREVER)
    assert network.held() == {address(containerd, name) for name in ("one", "two")}

    containerd.remove("one")
    containerd.remove("two")

    assert network.held() == set()
    # DEL has no namespace to go to: the links end with the containers' namespaces, a moment later.
    assert eventually(lambda: host_links() <= before, within=30), host_links() - before


def test_a_container_that_cannot_be_attached_is_not_left_behind(
    containerd: Containerd, network: Network
) -> None:
    conflist = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "no-such-plugin"}]}
    (network.conf_dir / "00-none.conflist").write_text(json.dumps(conflist))

    with pytest.raises(CommandFailed, match="no-such-plugin"):
        containerd.run("one", FOREVER)

    assert containerd.tasks() == {}
