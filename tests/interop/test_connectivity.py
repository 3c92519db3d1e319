"""`netloom connectivity` on a network of the reference plugins: it asks for nothing that CNI has not."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.cli import NETLOOM
from ..fixtures.machine import Machine
from ..lanes import PEERS

pytestmark = pytest.mark.interop


@pytest.fixture
def machine() -> Iterator[Machine]:
    """One that has no agent, and needs none."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as made:
        made.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
        yield made


def test_a_bridge_with_ports_and_limits_passes(machine: Machine) -> None:
    ipam = machine.cli.directory / "ipam"
    ranges = [[{"subnet": "10.90.0.0/24"}], [{"subnet": "fd90::/64"}]]
    bridge = {
        "type": "bridge",
        "bridge": "br0",
        "isGateway": True,
        "isDefaultGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "dataDir": str(ipam), "ranges": ranges},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    bandwidth = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
    machine.cli.network("bridged", bridge, portmap, bandwidth, version="1.0.0")

    done = subprocess.run(
        machine.node.command(
            NETLOOM, "connectivity", "bridged", "--json", "--plugin-dir", str(PEERS / "plugins"),
            "--bandwidth", "40M",
            "--cache-dir", str(machine.cli.cache),
        ),
        env=machine.cli.env,
        capture_output=True,
        text=True,
        timeout=100,
    )  # fmt: skip

    checks = json.loads(done.stdout)["checks"]
    assert done.returncode == 0, [it for it in checks if it["result"] == "failed"]
    passed = {(it["what"], it["family"]) for it in checks if it["result"] == "passed"}
    both = ("ping", "tcp", "mtu", "host", "hairpin")
    assert {(what, family) for what in both for family in ("ipv4", "ipv6")} <= passed
    assert {("port", "ipv4"), ("bandwidth", "ipv4")} <= passed
    assert {it["result"] for it in checks if it["what"] == "spoofing"} == {"skipped"}
    assert not [name for name in os.listdir("/run/netns") if name.startswith("netloom-")]
    held = [it for it in os.listdir(ipam / "bridged") if not it.startswith(("last_reserved_ip", "lock"))]
    assert held == []
