"""Whom the plugin asks: an agent of root's, where no other user could have put another. It tells the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netloom.api.paths import weakness_of

from ..fixtures.plugin import DEADLINE, FarEnd, Plugin

pytestmark = pytest.mark.kernel

NOBODY = 65534
# What another user could change: the directory of the socket, or its path.
OWN = ("owner", "writable", "group", "sticky")
ABOVE = ("above", "owner above", "link")
VERBS = {"ADD": 11, "CHECK": 11, "GC": 11, "STATUS": 50}

# Listens, becomes another user, listens again, as an agent does it, and answers nothing.
_IMPOSTOR = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.setresuid(65534, 65534, 65534)
listening.listen()
print("listening", flush=True)
while True:
    connection, _ = listening.accept()
    print(len(connection.recv(1)), flush=True)
"""


@contextmanager
def impostor(plugin: Plugin) -> Iterator[subprocess.Popen[str]]:
    """A process of another user that listens at the agent's socket."""
    process = subprocess.Popen(
        [sys.executable, "-c", _IMPOSTOR, str(plugin.socket)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "listening\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def refused(plugin: Plugin, verb: str) -> dict[str, Any]:
    error = plugin(verb).error
    assert error["code"] == VERBS[verb]
    return error


@pytest.mark.parametrize("verb", VERBS)
def test_a_process_of_another_user_is_not_asked(plugin: Plugin, verb: str) -> None:
    with impostor(plugin) as process:
        error = refused(plugin, verb)
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n", "it was sent something"
    assert str(NOBODY) in error["msg"]


def test_a_del_that_a_process_of_another_user_would_get_is_queued(plugin: Plugin) -> None:
    with impostor(plugin):
        began = time.monotonic()
        assert plugin("DEL").is_silent_success
    assert time.monotonic() - began < 10
    assert len(plugin.queued) == 1


def make_weak(plugin: Plugin, weak: str) -> Path:
    """Lets another user change the path to the socket. Where."""
    directory = plugin.socket.parent
    match weak:
        case "owner":
            os.chown(directory, NOBODY, NOBODY)
        case "writable":
            directory.chmod(0o757)
        case "group":
            directory.chmod(0o770)
        case "sticky":
            directory.chmod(0o1777)
        case "above":
            directory.parent.chmod(0o777)
            return directory.parent
        case "owner above":
            os.chown(directory.parent, NOBODY, NOBODY)
            return directory.parent
        case "link":
            directory.rename(directory.with_name("elsewhere"))
            directory.symlink_to("elsewhere")
            os.chown(directory, NOBODY, NOBODY, follow_symlinks=False)
    return directory


@pytest.fixture
def deep(executable: Path, tmp_path: Path) -> Plugin:
    (tmp_path / "above" / "run").mkdir(parents=True, mode=0o700)
    return Plugin(executable, tmp_path / "above" / "run")


@pytest.mark.parametrize("weak", [*OWN, *ABOVE])
def test_a_path_that_another_user_could_change_is_named_and_nothing_is_asked(deep: Plugin, weak: str) -> None:
    """The agent judges it in the same way."""
    with FarEnd(deep.socket) as far_end:
        place = make_weak(deep, weak)
        found = weakness_of(str(deep.socket.parent))
        assert found is not None
        assert (found.place, found.is_own) == (str(place), weak in OWN)
        for verb in VERBS:
            error = refused(deep, verb)
            assert str(place) in error["msg"]
            assert str(place) in error["details"]
        assert far_end.requests == []


@pytest.mark.parametrize("weak", OWN)
def test_a_del_is_queued_where_only_the_directory_is_open_to_others(deep: Plugin, weak: str) -> None:
    """Intents are in a directory below it, which is root's and closed, or is not used."""
    make_weak(deep, weak)
    assert deep("DEL").is_silent_success
    assert len(deep.queued) == 1


@pytest.mark.parametrize("weak", ABOVE)
def test_a_del_is_not_written_where_another_user_could_lead_it(deep: Plugin, weak: str) -> None:
    place = make_weak(deep, weak)
    error = deep("DEL").error
    assert (error["code"], str(place) in error["msg"]) == (5, True)
    assert not deep.intents.exists()


@pytest.mark.parametrize("way", ["sticky above", "link of root", "relative link", "dots"])
def test_a_path_that_only_root_can_change_is_trusted(deep: Plugin, way: str) -> None:
    directory = deep.socket.parent
    plugin = deep
    match way:
        case "sticky above":
            directory.parent.chmod(0o1777)
        case "link of root":
            directory.rename(directory.with_name("elsewhere"))
            directory.symlink_to(directory.with_name("elsewhere"))
        case "relative link":
            (directory.parent / "link").symlink_to("run/../run")
            plugin = Plugin(Path(deep.command[-1]), directory.parent / "link")
        case "dots":
            plugin = Plugin(Path(deep.command[-1]), directory / ".." / "run")
    assert weakness_of(str(plugin.socket.parent)) is None
    with FarEnd(deep.socket):
        assert plugin("ADD").is_silent_success


@pytest.mark.parametrize("size", [100, 2000, 4000])
def test_long_links_stay_in_their_place(sanitized: Path, tmp_path: Path, size: int) -> None:
    directory = tmp_path / "run"
    directory.symlink_to("./" * (size // 2) + "elsewhere")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    plugin = Plugin(sanitized, directory / "run")
    assert plugin("ADD").error["code"] == 11
    assert plugin("DEL").is_silent_success


def test_links_without_end_are_no_path(deep: Plugin) -> None:
    directory = deep.socket.parent
    directory.rmdir()
    directory.symlink_to(directory.name)
    assert refused(deep, "ADD")["msg"]


@pytest.mark.parametrize("words", [(), ("unshare", "--user", "--map-root-user")], ids=["user", "namespace"])
def test_a_user_asks_an_agent_of_their_own(executable: Path, words: tuple[str, ...]) -> None:
    """As rootless runtimes do it: what is theirs is as good as root's, also where they are root."""
    as_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words)
    with tempfile.TemporaryDirectory(prefix="own-", dir="/run") as place:
        theirs = Path(place) / "netloom"
        theirs.write_bytes(executable.read_bytes())
        theirs.chmod(0o755)
        os.chown(place, NOBODY, NOBODY)
        plugin = Plugin(theirs, Path(place), *as_nobody)
        with impostor(plugin):
            os.chown(plugin.socket, NOBODY, NOBODY)
            assert plugin("ADD", **DEADLINE).error["msg"].endswith("did not answer within 0.2 s")
