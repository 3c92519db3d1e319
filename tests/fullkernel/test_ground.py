"""The guest is what its tests take it for: the distribution's kernel, with what networks need."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .guest import newest_kernel, release_of

pytestmark = pytest.mark.fullkernel

LINKS = {
    "wireguard": "type wireguard",
    "vlan": "link below type vlan id 7",
    "vrf": "type vrf table 10",
    "dummy": "type dummy",
}


def ip(netns: str, *words: str) -> Any:
    command = ["ip", "-netns", Path(netns).name, "-json", "-details", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout or "null")


def tc(netns: str, *words: str) -> Any:
    command = ["tc", "-netns", Path(netns).name, "-json", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout or "null")


@pytest.fixture
def below(netns: str) -> str:
    """A link for others to sit on."""
    ip(netns, "link", "add", "below", "type", "veth", "peer", "name", "other")
    return "below"


def test_the_guest_runs_the_chosen_kernel() -> None:
    kernel = newest_kernel()
    assert kernel is not None
    assert platform.release() == release_of(kernel)


@pytest.mark.usefixtures("below")
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_can_be_of_the_kind(netns: str, kind: str) -> None:
    ip(netns, "link", "add", "name", "it", *LINKS[kind].split())
    assert ip(netns, "link", "show", "it")[0]["linkinfo"]["info_kind"] == kind


def test_a_bridge_can_filter_vlans(netns: str) -> None:
    ip(netns, "link", "add", "name", "br", "type", "bridge", "vlan_filtering", "1")
    assert ip(netns, "link", "show", "br")[0]["linkinfo"]["info_data"]["vlan_filtering"] == 1


def test_matchall_can_mirror_a_link(netns: str, below: str) -> None:
    tc(netns, "qdisc", "add", "dev", below, "clsact")
    mirror = "matchall action mirred egress mirror dev other"
    tc(netns, "filter", "add", "dev", below, "ingress", *mirror.split())
    kinds = [each["kind"] for each in tc(netns, "filter", "show", "dev", below, "ingress")]
    assert "matchall" in kinds
