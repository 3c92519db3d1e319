"""Faults that need a kernel of their own: a module that is not there, and a clock that somebody sets."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netloom.kernel.errors import Refused
from netloom.ops.node.host import FAR_AWAY, FILTERED, way

from ..fixtures.fork_server import run_forked
from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.fullkernel

# The guest's processor is emulated.
PATIENCE = 120.0
HOURS = 2


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="n-", dir="/run") as directory, Node(Path(directory)) as made:
        yield made


def found(node: Node, *words: str) -> list[dict[str, Any]]:
    done = run_forked(
        ["doctor", "--json", *words],
        prefix=node.command(),
        environment=node.environment(),
        directory="/",
        timeout=PATIENCE,
    )
    assert done is not None
    listed: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return listed


def set_clock(hours: int) -> None:
    subprocess.run(["date", "--set", f"{hours:+} hours"], check=True, capture_output=True)


@pytest.fixture
def ahead() -> Iterator[None]:
    """The clock is set while the test runs, and back after it."""
    set_clock(HOURS)
    yield
    set_clock(-HOURS)


def test_a_clock_that_was_set(node: Node) -> None:
    node.start(patience=PATIENCE)
    node.add(node.container())
    assert found(node, "--only", "clock") == []
    set_clock(HOURS)
    try:
        (finding,) = found(node, "--only", "clock")
        assert (finding["code"], finding["subject"]) == ("clock-jumped", "clock")
        assert finding["next"]
    finally:
        set_clock(-HOURS)
    assert found(node, "--only", "clock") == []


@pytest.mark.usefixtures("ahead")
def test_a_clock_that_was_set_back_since_the_journals_last_entry(node: Node) -> None:
    node.start(patience=PATIENCE)
    container = node.container()
    node.add(container)
    node.delete(container)
    node.stop()
    assert found(node, "--only", "clock") == []
    set_clock(-HOURS)
    try:
        assert [it["code"] for it in found(node, "--only", "clock")] == ["clock-jumped"]
    finally:
        set_clock(HOURS)
    assert found(node, "--only", "clock") == []


def test_a_kernel_that_lacks_a_module(node: Node) -> None:
    assert found(node, "--only", "features") == []
    setting = Path("/proc/sys/kernel/modprobe")
    loader = setting.read_text()
    setting.write_text("/bin/false")
    try:
        # Links of other tests go when their namespaces do, a moment later.
        assert eventually(lambda: subprocess.run(["modprobe", "-r", "veth"]).returncode == 0)
        (finding,) = found(node, "--only", "features")
        assert (finding["code"], finding["subject"]) == ("feature-missing", "veth")
        assert finding["next"]
    finally:
        setting.write_text(loader)
    assert found(node, "--only", "features") == []


def test_a_source_that_reverse_path_filtering_drops_is_told_by_this_kernel(node: Node) -> None:
    """Kernels say it with different numbers."""
    for words in (
        "link add first type dummy",
        "link set first up",
        "route add default dev first",
        "link add second type dummy",
        "link set second up",
        "address add 192.0.2.1/24 dev second",
        "link add third type dummy",
        "link set third up",
        "route add 10.9.0.1 dev third",
    ):
        node.inside("ip", *words.split())
    node.inside("sysctl", "-w", "net.ipv4.ip_forward=1", "net.ipv4.conf.second.rp_filter=1")
    host, target, far = node.namespace, bytes((10, 9, 0, 1)), FAR_AWAY[socket.AF_INET]
    index = host.route.index("second")
    with pytest.raises(Refused) as refused:
        way(host, target, source=far, link=index)
    assert refused.value.errno in FILTERED
    node.inside("sysctl", "-w", "net.ipv4.conf.second.rp_filter=2")
    assert way(host, target, source=far, link=index) is not None
