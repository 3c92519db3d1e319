"""The network namespace reaches the agent as a descriptor, whatever becomes of its path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from ..fixtures.plugin import BODY_MAX, FarEnd, Plugin

pytestmark = pytest.mark.kernel


def identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@pytest.mark.parametrize("size", [0, 100, BODY_MAX], ids=["no config", "a config", "the largest config"])
def test_the_namespace_arrives_once_and_with_the_first_byte(
    plugin: Plugin, far_end: FarEnd, netns: str, size: int
) -> None:
    assert plugin("ADD", bytes(size), CNI_NETNS=netns).status == 0
    (descriptor,) = far_end.request.descriptors
    assert identity(os.fstat(descriptor)) == identity(os.stat(netns))
    assert far_end.request.head["own_netns"] is False
    assert "netns_error" not in far_end.request.head


def test_each_of_two_requests_brings_its_own_namespace(
    plugin: Plugin, far_end: FarEnd, new_netns: Callable[[], str]
) -> None:
    for netns in (new_netns(), new_netns()):
        plugin("ADD", CNI_NETNS=netns)
        (descriptor,) = far_end.requests[-1].descriptors
        assert identity(os.fstat(descriptor)) == identity(os.stat(netns))


def test_the_namespace_lives_on_at_the_agent_when_its_name_is_gone(
    plugin: Plugin, far_end: FarEnd, new_netns: Callable[[], str]
) -> None:
    netns = new_netns()
    before = identity(os.stat(netns))
    plugin("DEL", CNI_NETNS=netns)
    subprocess.run(["ip", "netns", "del", os.path.basename(netns)], check=True)
    (descriptor,) = far_end.request.descriptors
    assert identity(os.fstat(descriptor)) == before


def test_another_name_of_its_own_namespace_is_known(plugin: Plugin, far_end: FarEnd, netns: str) -> None:
    inside = ["ip", "netns", "exec", os.path.basename(netns), *plugin.command]
    subprocess.run(
        inside, env=plugin.environment("ADD", CNI_NETNS=netns, PATH=os.environ["PATH"]), check=True
    )
    assert far_end.request.head["own_netns"] is True
    assert far_end.request.descriptors == []
