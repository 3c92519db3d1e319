from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netloom.cni.netns import inside


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
