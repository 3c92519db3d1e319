"""The agent under a service manager: what it says, which sockets it serves, and what outlives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netloom.failpoints import VARIABLE

from ..agent.conftest import node as node
from ..fixtures.hanging import HangingSystem
from ..fixtures.node import Node, eventually
from ..fixtures.pages import ask
from ..fixtures.successor import inode, process_at
from .manager import ServiceManager, names_in

pytestmark = pytest.mark.kernel

_HANGING_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As long as the file $HANGING is there, a journal that is made durable waits. */
int fdatasync(int fd)
{
    static int (*real)(int);
    char link[64], path[PATH_MAX];
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "fdatasync");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    while (strstr(path, "journal.db") != NULL && access(getenv("HANGING"), F_OK) == 0)
        usleep(10000);
    return real(fd);
}
"""


@pytest.fixture
def manager(node: Node) -> Iterator[ServiceManager]:
    with ServiceManager(node) as made:
        yield made


# What it says.


def test_it_says_that_it_is_ready_when_it_serves_and_not_before(manager: ServiceManager) -> None:
    agent = manager.start(environment={VARIABLE: "recovery.done:stop"})
    assert eventually(lambda: b"T (stopped)" in Path(f"/proc/{agent.pid}/status").read_bytes())
    manager.hear()
    assert manager.told == []
    agent.send_signal(signal.SIGCONT)
    told = manager.ready()
    assert any(line.startswith("STATUS=") for line in told.lines)
    assert manager.node.plugin("STATUS").status == 0


def test_it_says_that_it_stops(manager: ServiceManager) -> None:
    manager.start()
    manager.ready()
    assert manager.node.stop() == 0
    assert manager.heard("STOPPING=1") is not None


def test_one_that_cannot_start_says_nothing(manager: ServiceManager) -> None:
    manager.node.state_dir.mkdir()
    (manager.node.state_dir / "journal.db").write_bytes(b"no database" * 1000)
    assert manager.start().wait(20) == 1
    manager.hear()
    assert manager.told == []


def test_a_manager_that_is_gone_is_no_matter(node: Node) -> None:
    with tempfile.TemporaryDirectory() as directory:
        address = f"{directory}/gone"
    node.start(environment={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"})
    time.sleep(0.3)
    assert node.plugin("STATUS").status == 0
    assert node.stop() == 0


def test_a_name_that_is_in_no_file_system_is_heard_at(node: Node) -> None:
    """It belongs to a network, and the agent lives in the node's."""
    name = f"netloom-test-{os.getpid()}"
    with node.namespace.entered():
        ears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ears:
        ears.bind(f"\0{name}")
        ears.settimeout(20)
        node.start(environment={"NOTIFY_SOCKET": f"@{name}"})
        assert b"READY=1" in ears.recv(4096)


# Sockets that are handed in.


def test_a_call_that_came_before_the_agent_is_answered_by_it(manager: ServiceManager) -> None:
    manager.listen()
    container = manager.node.container()
    with ThreadPoolExecutor() as executor:
        added = executor.submit(manager.node.plugin, "ADD", container)
        time.sleep(0.2)
        assert not added.done()
        manager.start()
        assert added.result().code == 0
    assert process_at(manager.node) == manager.node.info()["process"]


def test_a_socket_that_is_the_managers_stays_when_the_agent_ends(manager: ServiceManager) -> None:
    """And so does who waits at it: the next agent has them."""
    manager.listen()
    manager.start()
    manager.ready()
    before = inode(manager.node.socket)
    assert manager.node.stop() == 0
    assert inode(manager.node.socket) == before
    with ThreadPoolExecutor() as executor:
        status = executor.submit(manager.node.plugin, "STATUS")
        time.sleep(0.1)
        manager.start()
        assert status.result().status == 0


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_no_call_fails_while_it_is_started_anew(manager: ServiceManager, sign: signal.Signals) -> None:
    manager.listen()
    manager.start()
    manager.ready()
    containers = [manager.node.container() for _ in range(4)]
    assert manager.node.agent is not None
    manager.node.agent.send_signal(sign)
    with ThreadPoolExecutor(4) as executor:
        manager.node.agent.wait(10)
        added = [executor.submit(manager.node.plugin, "ADD", container) for container in containers]
        manager.start()
        assert [it.result().code for it in added] == [0] * 4
    assert manager.node.audit() == []


def test_what_was_handed_to_another_process_is_not_taken(manager: ServiceManager) -> None:
    node = manager.node
    node.start(environment={"LISTEN_PID": "1", "LISTEN_FDS": "1"})
    assert node.plugin("STATUS").status == 0


def test_what_is_no_listening_socket_is_not_taken(manager: ServiceManager) -> None:
    with open("/dev/null", "rb") as other, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle:
        manager.keep("other", other.fileno())
        manager.keep("idle", idle.fileno())
        manager.start()
        manager.ready()
    assert manager.node.plugin("STATUS").status == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LISTEN_FDS", "5"),
        ("LISTEN_FDS", "99999999999"),
        ("LISTEN_FDS", "9" * 400),
        ("WATCHDOG_USEC", "soon"),
        ("WATCHDOG_USEC", "9" * 400),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(
    manager: ServiceManager, name: str, value: str
) -> None:
    agent = manager.start("--json", environment={name: value})
    assert agent.wait(20) == 2
    error = json.loads(manager.node.log())
    assert (error["code"], name in error["error"], name in error["next"]) == ("usage", True, True)
    manager.hear()
    assert (manager.told, manager.node.state_dir.exists(), manager.node.socket.exists()) == ([], False, False)


# Life.


def is_silent(manager: ServiceManager, seconds: float) -> bool:
    """Whether no sign of life comes for so long."""
    manager.hear()
    manager.told.clear()
    return manager.heard("WATCHDOG=1", seconds) is None


def test_it_gives_signs_of_life_more_often_than_it_has_to(manager: ServiceManager) -> None:
    manager.start(environment={"WATCHDOG_USEC": "600000"})
    manager.ready()

    def signs_in_three_seconds() -> int:
        manager.hear()
        manager.told.clear()
        time.sleep(3)
        manager.hear()
        return sum("WATCHDOG=1" in told.lines for told in manager.told)

    # On a machine that has much else to do, some come late.
    assert eventually(lambda: signs_in_three_seconds() >= 5)


def test_where_nobody_waits_for_signs_of_life_there_are_none(manager: ServiceManager) -> None:
    manager.start(environment={"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"})
    manager.ready()
    assert manager.heard("WATCHDOG=1", 0.5) is None


def test_one_whose_journal_hangs_gives_no_sign_of_life(manager: ServiceManager, tmp_path: Path) -> None:
    """Its event loop turns all the time."""
    source, library, hanging = tmp_path / "hang.c", tmp_path / "hang.so", tmp_path / "hanging"
    source.write_text(_HANGING_DISK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    through = ("env", f"LD_PRELOAD={library}", f"HANGING={hanging}")
    manager.start(environment={"WATCHDOG_USEC": "900000"}, through=through)
    manager.ready()
    assert manager.heard("WATCHDOG=1") is not None
    hanging.touch()
    added = manager.node.begin("ADD", manager.node.container())
    # As soon as the call has come to where it hangs.
    assert eventually(lambda: is_silent(manager, 1.5))
    with manager.node.connect():
        pass
    hanging.unlink()
    assert manager.heard("WATCHDOG=1") is not None
    added.communicate()
    assert added.returncode == 0


def test_one_whose_dataplane_hangs_gives_no_sign_of_life(manager: ServiceManager, tmp_path: Path) -> None:
    """Also when calls wait in its queue until their time is over, which another thread sees to."""
    system = HangingSystem(tmp_path)
    manager.start(environment={"WATCHDOG_USEC": "900000", **system.environment})
    manager.ready()
    assert manager.heard("WATCHDOG=1") is not None
    node = manager.node
    with system.hangs("kernel"):
        adding: list[subprocess.Popen[bytes]] = []

        def is_silent_while_calls_wait() -> bool:
            deadlines = (f"{1 + number}" for number in range(5))
            adding.extend(node.begin("ADD", node.container(), NETLOOM_DEADLINE=it) for it in deadlines)
            time.sleep(1.5)
            return is_silent(manager, 4)

        # The first call may take long to come to where it hangs; those of later tries find it hanging.
        assert any(is_silent_while_calls_wait() for _ in range(3))
        assert [it["subject"] for it in ask(node, "/livez").document["findings"]] == ["dataplane"]
    assert manager.heard("WATCHDOG=1") is not None
    for process in adding:
        process.communicate(timeout=60)


# Descriptors that outlive it.


def test_a_socket_that_it_made_itself_is_kept_and_who_waits_at_it_is_served(manager: ServiceManager) -> None:
    """Somebody removed the manager's file; a new one was made; and then the agent died."""
    manager.listen()
    manager.start()
    manager.ready()
    manager.node.socket.unlink()
    stored = manager.heard("FDSTORE=1")
    assert stored is not None
    (descriptor,) = stored.descriptors
    (name,) = [line.removeprefix("FDNAME=") for line in stored.lines if line.startswith("FDNAME=")]
    made = inode(manager.node.socket)
    manager.keep(name, descriptor)
    os.close(descriptor)
    manager.node.kill()
    container = manager.node.container()
    with ThreadPoolExecutor() as executor:
        added = executor.submit(manager.node.plugin, "ADD", container)
        time.sleep(0.2)
        assert not added.done()
        manager.start()
        assert added.result().code == 0
    assert inode(manager.node.socket) == made
    assert manager.node.stop() == 0
    assert inode(manager.node.socket) == made
    assert names_in(manager.node.socket.parent) == ["agent.sock"]


def test_a_lent_socket_whose_directory_is_gone_is_served_beside_a_new_one(manager: ServiceManager) -> None:
    manager.listen()
    manager.start()
    manager.ready()
    node = manager.node
    with ThreadPoolExecutor() as executor:
        with node.paused():
            status = executor.submit(node.plugin, "STATUS")
            assert eventually(lambda: waits_at(node))
            shutil.rmtree(node.socket.parent)
        assert status.result().status == 0
    assert eventually(lambda: node.answers() and node.plugin("STATUS").status == 0)
    assert manager.heard(f"FDNAME=netloom-{inode(node.socket)}") is not None


def waits_at(node: Node) -> bool:
    """Whether a client stands in the queue of the node's socket."""
    done = subprocess.run(["ss", "-xlH", "src", str(node.socket)], check=True, capture_output=True, text=True)
    return any(int(line.split()[2]) > 0 for line in done.stdout.splitlines())


def test_a_directory_that_only_the_manager_can_make_is_left_to_it(manager: ServiceManager) -> None:
    """It ends: systemd makes the directory, and starts an agent that has it."""
    manager.listen()
    directory = manager.node.socket.parent
    agent = manager.start(environment={"RUNTIME_DIRECTORY": str(directory)})
    manager.ready()
    at = str(manager.node.directory)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", at], check=True)
    try:
        assert agent.wait(20) == 0
    finally:
        subprocess.run(["umount", at], check=True)


def test_without_a_manager_nothing_is_left_at_the_end(node: Node) -> None:
    node.start()
    node.socket.unlink()
    assert eventually(node.answers)
    assert node.stop() == 0
    assert not node.socket.exists()
