"""The command with real namespaces, and beside Go's cnitool."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.cli import Cli
from ..lanes import PEERS

# A real interface in the container's namespace, and none after DEL.
_BRIDGING = """\
case $CNI_COMMAND in
    ADD)
        ip -n "${CNI_NETNS##*/}" link add "$CNI_IFNAME" type bridge || exit 1
        echo '{"cniVersion":"1.1.0","interfaces":[{"name":"'"$CNI_IFNAME"'","sandbox":"'"$CNI_NETNS"'"}]}'
        ;;
    CHECK) ip -n "${CNI_NETNS##*/}" link show "$CNI_IFNAME" >/dev/null ;;
    DEL) ip -n "${CNI_NETNS##*/}" link del "$CNI_IFNAME" 2>/dev/null || true ;;
esac
"""


def links(netns: str) -> set[str]:
    shown = subprocess.run(
        ["ip", "-json", "-n", os.path.basename(netns), "link"], check=True, capture_output=True
    )
    return {link["ifname"] for link in json.loads(shown.stdout)} - {"lo"}


@pytest.fixture
def network(cli: Cli) -> str:
    return cli.network("mynet", cli.plugin("bridging", _BRIDGING))


@pytest.mark.kernel
def test_an_interface_comes_with_add_and_goes_with_del(cli: Cli, network: str, netns: str) -> None:
    outcome = cli.cni("add", network, netns, "-i", "net1")

    assert outcome.document["interfaces"] == [{"name": "net1", "sandbox": netns}]
    assert links(netns) == {"net1"}
    assert cli.cni("check", network, netns, "-i", "net1").status == 0
    assert cli.cni("del", network, netns, "-i", "net1").status == 0
    assert links(netns) == set()


@pytest.mark.kernel
def test_check_notices_that_an_interface_has_gone(cli: Cli, network: str, netns: str) -> None:
    cli.cni("add", network, netns)
    subprocess.run(["ip", "-n", os.path.basename(netns), "link", "del", "eth0"], check=True)

    outcome = cli.cni("check", network, netns, "--json")

    assert outcome.status == 1
    assert "eth0" in outcome.error["stderr"]


@pytest.mark.kernel
def test_a_namespace_can_be_named_from_beside_it(cli: Cli, network: str, netns: str) -> None:
    beside = Path(netns).parent

    assert cli.cni("add", network, os.path.basename(netns), cwd=beside).status == 0

    assert links(netns) == {"eth0"}
    assert [it["netns"] for it in cli.cni("attachments", "--json").document] == [netns]
    assert cli.cni("del", network, netns).status == 0
    assert links(netns) == set()


@pytest.mark.kernel
def test_del_succeeds_when_the_namespace_is_gone(cli: Cli, network: str, netns: str) -> None:
    cli.cni("add", network, netns)
    subprocess.run(["ip", "netns", "del", os.path.basename(netns)], check=True)

    assert cli.cni("del", network, netns).status == 0
    assert cli.cni("attachments", "--json").document == []


@pytest.fixture
def reference(cli: Cli) -> str:
    """A network of reference plugins: a real pair of interfaces with a real address."""
    ipam = {
        "type": "host-local",
        "subnet": "10.91.0.0/24",
        "dataDir": str(cli.directory / "leases"),
    }
    return cli.network("mynet", {"type": "ptp", "ipam": ipam}, version="1.0.0")


@pytest.mark.interop
def test_reference_plugins_attach_and_detach(cli: Cli, reference: str, netns: str) -> None:
    env = {"CNI_PATH": str(PEERS / "plugins")}

    added = cli.cni("add", reference, netns, env=env)

    assert added.status == 0
    assert added.document["ips"][0]["address"] == "10.91.0.2/24"
    assert links(netns) == {"eth0"}
    assert cli.cni("check", reference, netns, env=env).status == 0
    assert cli.cni("validate", reference, env=env).status == 0
    assert cli.cni("del", reference, netns, env=env).status == 0
    assert links(netns) == set()


@pytest.mark.interop
def test_attachments_of_cnitool_are_listed_and_deleted(cli: Cli, cnitool: Path, netns: str) -> None:
    """cnitool's cache is where netloom's is unless told otherwise."""
    env = {**cli.env, "CNI_PATH": str(PEERS / "bin")}
    cli.network("mynet", "noop")
    subprocess.run([cnitool, "-i", "net1", "add", "mynet", netns], env=env, check=True, capture_output=True)

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = cli.run("cni", "attachments", "--json").document
        return [it for it in found if it["netns"] == netns]

    assert [(it["network"], it["ifName"]) for it in listed()] == [("mynet", "net1")]
    assert cli.run("cni", "-i", "net1", "del", "mynet", netns, env=env).status == 0
    assert listed() == []
