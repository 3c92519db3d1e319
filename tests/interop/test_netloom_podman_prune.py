"""Podman deletes networks that no container uses, and takes netloom's for its own: the node has it again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.machine import Machine
from .commands import eventually
from .podman import Podman

pytestmark = pytest.mark.interop

POOLS = ["10.20.0.0/24", "fd20::/64"]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A node whose network has none of the defaults; the test runs there."""
    with (
        tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory,
        Machine(Path(directory)) as made,
        made.node.namespace.entered(),
    ):
        made.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
        made.brought_up("--pool", POOLS[0], "--pool", POOLS[1], "--no-masquerade")
        yield made


@pytest.fixture
def podman(
    machine: Machine,
    tmp_path: Path,
    shared_cache: Path,  # noqa: ARG001
) -> Iterator[Podman]:
    environment = {"NETLOOM_SOCKET": str(machine.node.socket)}
    with Podman([machine.cli.plugins], machine.cli.networks, tmp_path, environment) as podman:
        yield podman


def test_a_pruned_network_is_an_error_until_up_or_the_agent_has_restored_it(
    machine: Machine, podman: Podman
) -> None:
    before = machine.conflist.read_text()
    podman.prune("network")
    assert not machine.conflist.exists()
    status = machine.run("status", "--json")
    assert status.status == 1
    assert "network-file-missing" in [it["code"] for it in status.document["findings"]]

    done = machine.brought_up("--keep-network")["network"]
    assert (done["change"], done["pools"], done["ipMasq"]) == ("restored", POOLS, False)
    assert machine.conflist.read_text() == before
    assert podman.run("one", "netloom", ("cat", "/proc/sys/net/ipv4/ip_forward"), detach=False) == "0"

    podman.remove("one")
    podman.prune("system")
    assert eventually(lambda: machine.node.counted("restored") == 1, within=30)
    assert machine.conflist.read_text() == before
    assert machine.run("status").status == 0
    assert podman.run("two", "netloom", ("cat", "/proc/sys/net/ipv4/ip_forward"), detach=False) == "0"
    events = machine.told("events", "--verb", "RESTORE", "--json").stdout.splitlines()
    assert [json.loads(it)["network"] for it in events] == ["netloom"]
