from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.cli import Cli, HangingPlugin
from ..fixtures.machine import Machine, plain_etc


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def hanging(cli: Cli) -> Iterator[HangingPlugin]:
    plugin = HangingPlugin(cli)
    yield plugin
    plugin.close()


@pytest.fixture
def bound_by_permissions() -> tuple[str, ...]:
    """What to put before a command, so that permissions of files hold for it also as root."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


@pytest.fixture
def own_etc() -> Iterator[Path]:
    """An /etc of the test's own, in which no service and no runtime of this machine is configured."""
    with plain_etc() as path:
        yield path


@pytest.fixture
def bare() -> Iterator[Machine]:
    """A machine on which nothing of netloom is yet."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as made:
        yield made


@pytest.fixture
def machine(bare: Machine) -> Machine:
    """A machine after `netloom up`."""
    # A host has an address to speak from.
    bare.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    bare.brought_up()
    return bare
