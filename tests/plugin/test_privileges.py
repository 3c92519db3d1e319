"""What the plugin says when the machine does not let it: as another user, on a full disk."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.plugin import CONFIG, FarEnd, Plugin
from ..fixtures.stdin import ready

pytestmark = pytest.mark.kernel

NOBODY = 65534


def as_nobody(plugin: Plugin, command: str) -> dict[str, Any]:
    """The error that another user gets, who reaches the executable but not its directory."""
    executable = os.open(plugin.command[-1], os.O_RDONLY)
    try:
        with ready(CONFIG) as stdin:
            done = subprocess.run(
                [f"/proc/self/fd/{executable}"],
                stdin=stdin,
                env=plugin.environment(command),
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                pass_fds=[executable],
                capture_output=True,
                check=False,
            )
    finally:
        os.close(executable)
    assert done.returncode == 1
    return dict(json.loads(done.stdout))


@pytest.mark.usefixtures("far_end")
def test_a_user_who_may_not_connect_is_told_to_be_root(plugin: Plugin) -> None:
    plugin.socket.parent.chmod(0o700)
    error = as_nobody(plugin, "ADD")
    assert error["code"] == 11
    assert error["msg"] == f"the netloom agent cannot be reached at {plugin.socket}: Permission denied"
    assert "run this as root" in error["details"]


def test_a_del_of_a_user_who_may_not_queue_it_fails(plugin: Plugin, far_end: FarEnd) -> None:
    plugin.socket.parent.chmod(0o700)
    error = as_nobody(plugin, "DEL")
    assert error["code"] == 5
    assert error["msg"].endswith(f"the DEL cannot be queued in {plugin.intents}: Permission denied")
    assert far_end.requests == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "disk", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_del_that_finds_the_disk_full_fails_and_leaves_nothing(executable: Path, small_disk: Path) -> None:
    plugin = Plugin(executable, small_disk)
    error = plugin("DEL", CONFIG + b" " * 65536).error
    assert error["code"] == 5
    assert error["msg"].endswith(f"the DEL cannot be queued in {plugin.intents}: No space left on device")
    assert list(plugin.intents.iterdir()) == []


def test_a_del_on_a_read_only_disk_fails(executable: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert Plugin(executable, small_disk)("DEL").error["msg"].endswith("Read-only file system")


def test_a_directory_of_intents_that_belongs_to_somebody_else_is_not_used(plugin: Plugin) -> None:
    plugin.intents.mkdir(mode=0o700)
    os.chown(plugin.intents, NOBODY, NOBODY)
    assert plugin("DEL").error["msg"].endswith("Operation not permitted")
    assert list(plugin.intents.iterdir()) == []
