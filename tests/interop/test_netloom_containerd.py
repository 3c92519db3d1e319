"""Containerd's `ctr run --cni`, unchanged, runs containers on netloom's networks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from .commands import CommandFailed, eventually
from .connections import pings, visits
from .containerd import Containerd
from .greeting import GREETING, greeter
from .host import ADDRESSES, OUTSIDE, PLUGIN_DIRS, Host, loom

pytestmark = pytest.mark.interop

FOREVER = ("sleep", "1000")


@pytest.fixture
def containerd(
    running: Host,
    tmp_path: Path,
    shared_cache: Path,  # noqa: ARG001
) -> Iterator[Containerd]:
    # The libcni of Debian's containerd knows nothing newer.
    running.network(loom(), version="1.0.0")
    with Containerd(PLUGIN_DIRS, running.confs, tmp_path, running.plugin_environment) as containerd:
        yield containerd


@pytest.fixture
def impatient(running: Host) -> Host:
    """The host with an agent that hardly hesitates to collect what is gone."""
    running.stop()
    running.start("--grace", "0.5", "--tick", "0.1")
    return running


def addresses(containerd: Containerd, name: str) -> list[str]:
    shown = containerd.exec(name, ("ip", "-o", "addr", "show", "dev", "eth0", "scope", "global")).split()
    return [after.partition("/")[0] for word, after in pairwise(shown) if "inet" in word]


class Process(NamedTuple):
    """One that sleeps in a network namespace of its own."""

    running: subprocess.Popen[bytes]
    netns: str
    number: int


class Processes:
    def __init__(self) -> None:
        self._running: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in list(self._running):
            self.end(process)

    def start(self) -> Process:
        # It says that it is in its namespace by closing its end of the pipe.
        running = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "exec >&-; exec sleep 1000"], stdout=subprocess.PIPE
        )
        assert running.stdout is not None
        with running.stdout as pipe:
            pipe.read()
        netns = f"/proc/{running.pid}/ns/net"
        self._running.append(Process(running, netns, os.stat(netns).st_ino))
        return self._running[-1]

    def heir_of(self, ended: Process) -> Process | None:
        """One whose namespace has the number of one that is gone, unless somebody else got it."""
        # The lowest free number is the next: those that are not it are kept, so that its turn comes.
        for _ in range(200):
            process = self.start()
            if process.number == ended.number:
                return process
        for process in list(self._running):
            self.end(process)
        return None

    def end(self, process: Process) -> None:
        self._running.remove(process)
        process.running.kill()
        process.running.wait()


def test_two_containers_reach_each_other_the_host_and_beyond_in_both_families(containerd: Containerd) -> None:
    containerd.run("one", FOREVER)
    containerd.run("two", FOREVER)

    containerd.exec("one", pings(*addresses(containerd, "two"), *OUTSIDE))
    containerd.exec("two", pings(*addresses(containerd, "one")))
    with greeter() as port:
        for name in ("one", "two"):
            assert containerd.exec(name, visits(port, *ADDRESSES)).splitlines() == [GREETING] * 2


def test_a_container_that_ended_holds_nothing_when_its_del_is_done(
    containerd: Containerd, running: Host
) -> None:
    containerd.run("one", FOREVER)
    containerd.run("two", FOREVER)

    containerd.remove("one")

    running.await_dels()
    (left,) = running.ledger().attachments()
    assert left.container_id.endswith("-two")
    assert running.links() == [left.host_link]
    assert running.audit() == []
    containerd.exec("two", pings(*OUTSIDE))


def test_a_container_may_have_the_name_of_one_that_ended(containerd: Containerd, running: Host) -> None:
    for _ in range(3):
        containerd.run("one", FOREVER)
        containerd.exec("one", pings(*OUTSIDE))
        containerd.remove("one")
    running.await_dels()
    assert running.ledger().places() == []
    assert running.audit() == []


def test_a_container_that_vanished_without_a_del_is_collected(
    containerd: Containerd, impatient: Host
) -> None:
    containerd.run("stays", FOREVER)
    containerd.run_detached("vanishes", FOREVER)
    assert len(impatient.links()) == 2

    containerd.remove("vanishes")

    assert eventually(lambda: len(impatient.ledger().places()) == 1, within=30)
    assert impatient.audit() == []
    containerd.exec("stays", pings(*OUTSIDE))


def test_a_container_may_have_the_name_of_one_that_vanished(containerd: Containerd, running: Host) -> None:
    for _ in range(2):
        containerd.run_detached("one", FOREVER)
        containerd.exec("one", pings(*OUTSIDE))
        containerd.remove("one")
    containerd.run("one", FOREVER)
    assert running.audit() == []
    containerd.remove("one")
    running.await_dels()
    assert running.ledger().places() == []
    assert running.audit() == []


def test_a_container_is_not_taken_for_one_that_vanished_with_its_namespaces_number(running: Host) -> None:
    """As `ctr` does it, with namespaces that have no name, and numbers that the kernel gives again."""
    with Processes() as processes:
        for container in map(str, range(20)):
            vanished = processes.start()
            running.add(container, CNI_NETNS=vanished.netns)
            processes.end(vanished)
            # Its number is free when the kernel has taken it apart, and its links with it.
            assert eventually(lambda: running.links() == [], within=30)
            heir = processes.heir_of(vanished)
            if heir is not None:
                break
        assert heir is not None, "somebody else always got the number"

        running.add(container, CNI_NETNS=heir.netns)

        (attachment,) = running.ledger().of_container(container)
        assert attachment.netns == heir.netns
        assert not any(str(attachment.key) in finding.text for finding in running.audit())


def test_containers_live_on_and_can_end_while_the_agent_is_dead(
    containerd: Containerd, running: Host
) -> None:
    for name in ("stays", "ends"):
        containerd.run(name, FOREVER)

    running.kill()
    containerd.exec("stays", pings(*ADDRESSES, *OUTSIDE))
    containerd.remove("ends")
    with pytest.raises(CommandFailed, match=str(running.socket)):
        containerd.run("comes", FOREVER)
    running.start()

    assert len(running.ledger().places()) == 1
    assert running.audit() == []
    containerd.run("comes", FOREVER)
    containerd.exec("comes", pings(*addresses(containerd, "stays")))


def test_a_container_that_cannot_be_attached_leaves_nothing(containerd: Containerd, impatient: Host) -> None:
    broken = {"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.nonsense": "1"}}
    impatient.network(loom(), broken, name="0", version="1.0.0")
    with pytest.raises(CommandFailed, match="nonsense"):
        containerd.run("one", FOREVER)
    assert eventually(lambda: impatient.ledger().places() == [], within=30)
    assert impatient.links() == []
    assert impatient.audit() == []
