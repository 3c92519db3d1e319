from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .stage import HangingPlugin, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def hanging(stage: Stage) -> Iterator[HangingPlugin]:
    plugin = HangingPlugin(stage)
    yield plugin
    plugin.close()


@pytest.fixture
def bound_by_permissions() -> tuple[str, ...]:
    """What to put before a command, so that permissions of files hold for it also as root."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
