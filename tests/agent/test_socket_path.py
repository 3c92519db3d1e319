"""The path at which plugins look for the agent: it listens there again, whatever of it was taken away."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ..fixtures.node import Node, eventually
from ..fixtures.pages import ask, conf_dir, is_there

pytestmark = pytest.mark.kernel


@pytest.fixture
def watched(node: Node) -> Node:
    """Its socket is some directories deep."""
    node.socket = node.directory / "run" / "a" / "b" / "agent.sock"
    node.start("--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node))
    return node


def is_ready(node: Node) -> bool:
    return ask(node, "/readyz").status == 200


def listens(node: Node) -> bool:
    """The one agent of the node, and at the path."""
    return node.answers() and node.agent is not None and node.info()["process"] == node.agent.pid


@contextmanager
def mounted_over(directory: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(directory)], check=True)
    try:
        yield
    finally:
        # A socket that is bound there keeps it busy.
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.mark.parametrize("level", range(3))
def test_directories_that_are_removed_are_made_again(watched: Node, level: int) -> None:
    container = watched.container()
    watched.add(container)
    shutil.rmtree(watched.socket.parents[level])
    assert eventually(lambda: listens(watched))
    mode = watched.socket.parent.stat()
    assert (stat.S_IMODE(mode.st_mode), mode.st_uid) == (0o700, os.geteuid())
    assert stat.S_IMODE(watched.socket.stat().st_mode) == 0o600
    assert is_ready(watched)
    watched.delete(container)
    assert (watched.links(), watched.audit()) == ([], [])


def test_a_file_system_that_is_mounted_over_the_path_and_unmounted_again(watched: Node) -> None:
    with mounted_over(watched.directory / "run", "-o", "mode=755"):
        assert eventually(lambda: listens(watched))
        assert is_ready(watched)
    assert eventually(lambda: listens(watched))
    assert is_ready(watched)


def test_a_del_that_was_queued_while_the_path_was_gone_is_done(watched: Node) -> None:
    container = watched.container()
    watched.add(container)
    with watched.paused():
        shutil.rmtree(watched.socket.parent)
        watched.delete(container)
        assert len(watched.intents()) == 1
    assert eventually(lambda: watched.intents() == [])
    assert (watched.links(), watched.audit()) == ([], [])


def test_who_waits_at_a_socket_that_is_removed_is_served(watched: Node) -> None:
    with ExitStack() as opened:
        with watched.paused():
            waiting = opened.enter_context(watched.sent("STATUS", ""))
            shutil.rmtree(watched.socket.parent)
        waiting.settimeout(20)
        assert waiting.recv(1)


def test_a_path_that_cannot_be_made_is_not_ready_until_it_can(watched: Node) -> None:
    parent = watched.socket.parent
    shutil.rmtree(parent)
    # It may have been faster than us.
    while not _put_file(parent):
        shutil.rmtree(parent)
    answer = ask(watched, "/readyz")
    assert (answer.status, answer.codes) == (503, ["socket-unreachable"])
    assert str(parent) in answer.document["findings"][0]["text"]
    assert ask(watched, "/livez").status == 200
    parent.unlink()
    assert eventually(lambda: listens(watched))
    assert is_ready(watched)


def _put_file(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def test_a_path_that_is_read_only_is_not_ready_until_it_can_be_written(watched: Node) -> None:
    with mounted_over(watched.directory / "run", "-o", "ro"):
        assert ask(watched, "/readyz").codes == ["socket-unreachable"]
    assert eventually(lambda: listens(watched))
    assert is_ready(watched)


def test_an_agent_that_others_keep_busy_is_ready_and_leaves_room_for_them(node: Node) -> None:
    """It asks itself once, however often readiness is asked for: its queue is for plugins."""
    limits = ("prlimit", "--nofile=256:256")
    node.start("--conf-dir", str(conf_dir(node, node.config())), through=limits)
    assert eventually(lambda: is_there(node))
    with ExitStack() as opened:
        for _ in range(400):
            opened.enter_context(node.connect())
        for _ in range(50):
            assert is_ready(node)
        assert node.plugin("STATUS").status == 0


def test_a_socket_of_another_in_its_place_is_told(watched: Node) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        spare = watched.socket.with_name("spare")
        other.bind(str(spare))
        other.listen()
        spare.rename(watched.socket)
        assert ask(watched, "/readyz").codes == ["socket-unreachable"]
    assert eventually(lambda: listens(watched))


def test_a_directory_that_others_can_write_to_is_closed_to_them(watched: Node) -> None:
    watched.socket.parent.chmod(0o777)
    assert eventually(lambda: stat.S_IMODE(watched.socket.parent.stat().st_mode) == 0o755)
    assert is_ready(watched)


def test_a_directory_of_another_user_is_not_ready_and_is_left_alone(watched: Node) -> None:
    os.chown(watched.socket.parent, 65534, 65534)
    answer = ask(watched, "/readyz")
    assert (answer.status, answer.codes) == (503, ["path-untrusted"])
    assert watched.socket.parent.stat().st_uid == 65534
    os.chown(watched.socket.parent, 0, 0)
    assert is_ready(watched)
