from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netloom.cni.plugin import inside

from .host import Host


@pytest.fixture
def host(new_netns: Callable[[], str]) -> Iterator[str]:
    """A host of the test's own: a namespace that the test runs in, and with it every plugin.

    The reference plugins leave bridges, firewall chains and masquerading behind; here they go
    with the namespace.
    """
    path = new_netns()
    with inside(path):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield path


@pytest.fixture
def shared_cache() -> Iterator[Path]:
    """The results in /var/lib/cni, the only cache that cnitool knows; empty before and after."""
    assert os.path.ismount("/var/lib"), "the run's own, see tests/isolation.py"
    directory = Path("/var/lib/cni")
    yield directory / "results"
    if directory.exists():
        shutil.rmtree(directory)


@pytest.fixture
def node(new_netns: Callable[[], str]) -> Iterator[Host]:
    """A host with netloom's plugin and no agent yet; the test runs there, and every client with it."""
    with (
        tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory,
        Host(Path(directory), new_netns()) as made,
        made.namespace.entered(),
    ):
        yield made


@pytest.fixture
def running(node: Host) -> Host:
    """The host with an agent that serves."""
    node.start()
    return node
