"""Whether the node's agent answers; if not, whether it runs at all, and what to do.

`netloom up` starts an agent where none runs. It does not help if an agent runs and does not answer.
"""

from __future__ import annotations

import os
import stat
from typing import Literal, NamedTuple

from ...api.client import AgentError, Connection, Silent, Untrusted
from ...api.paths import Place
from ...cni.files import read_document
from .process import Running, holder, is_stopped, log_of, running

_KEPT = "until then, containers keep their networks"
# Of a socket, in the kernel's list: SO_ACCEPTCON.
_LISTENING = b"00010000"


class Presence(NamedTuple):
    """The agent; or else why it does not answer, what to do, the process that should answer, if there is
    one, and the error code. `is_kept`: containers keep their networks meanwhile."""

    agent: Running | None
    why: str = ""
    remedy: str = ""
    process: int | None = None
    code: str = ""
    is_kept: bool = False

    @property
    def advice(self) -> str:
        return f"{self.remedy}; {_KEPT}" if self.is_kept else self.remedy


def presence(place: Place) -> Presence:
    halted = _halted_holder(place)
    if halted is not None:
        return _halted(halted)  # there is no need to wait for an answer
    try:
        found = running(place)
    except Silent as error:
        return silent(error, place)
    except AgentError as error:
        return Presence(
            None,
            str(error),
            "give the --socket that the agent was started with, or stop the process that listens there",
            holder(place),
            "agent-strange",
        )
    if found is not None:
        return Presence(found)
    process = holder(place)
    stranger = _stranger_at(place.socket)
    if stranger is not None:
        takes = (
            "`netloom up` starts an agent, which takes its place" if process is None else "restart the agent"
        )
        return Presence(
            None,
            str(stranger),
            f"{takes}; stop that process, and find out how that user could write to "
            f"{os.path.dirname(place.socket)}",
            process,
            "socket-foreign",
        )
    if process is None:
        was_a_node = os.path.exists(place.journal) or os.path.exists(place.receipt)
        return Presence(
            None,
            f"no agent answers at {place.socket}",
            "`netloom up` starts an agent" if was_a_node else "`netloom up` makes this machine a node",
            code="agent-not-running",
            is_kept=was_a_node,
        )
    return _elsewhere(process, place)


def _stranger_at(path: str) -> Untrusted | None:
    """A process of another user that listens in the agent's place."""
    try:
        with Connection(path, 1):
            return None
    except Untrusted as error:
        return error
    except AgentError:
        return None


def _elsewhere(process: int, place: Place) -> Presence:
    """A process has the journal, and no agent answers at the socket."""
    obstacle = obstacle_at(place.socket)
    if obstacle is not None and listens_at(place.socket):
        return Presence(
            None,
            f"process {process} cannot listen at {place.socket}, so no plugin reaches it: {obstacle}",
            f"{obstacle.remedy}; the agent listens there again within a second",
            process,
            "socket-unreachable",
            is_kept=True,
        )
    if not os.path.lexists(place.socket) and listens_at(place.socket):
        return Presence(
            None,
            f"process {process} listens at {place.socket}, but the socket's file was removed",
            "the agent creates it again within a second: try again; if it is still missing, restart the "
            "agent with `netloom down` and `netloom up`",
            process,
            "socket-removed",
            is_kept=True,
        )
    return Presence(
        None,
        f"process {process} has the journal in {place.state_dir}, but does not listen at {place.socket}",
        "wait a moment if it was just started; else give the --socket that it was started with, or stop it "
        "with `netloom down`",
        process,
        "agent-elsewhere",
    )


def silent(error: Silent, place: Place) -> Presence:
    """The agent listens and does not answer: it is stopped, stuck, or very busy."""
    process = error.process or holder(place)
    if process == 1 and holder(place) != 1:
        return Presence(
            None,
            f"systemd listens at {place.socket}, but the agent that it starts does not answer",
            "`systemctl status netloom` and `journalctl -u netloom` show why",
            code="agent-silent",
            is_kept=True,
        )
    if process is None:
        return Presence(
            None,
            str(error),
            "stop it where it was started, and start it again",
            code="agent-silent",
            is_kept=True,
        )
    if is_stopped(process):
        return _halted(process)
    log = log_of(process, place) or "where its service manager keeps it"
    return Presence(
        None,
        f"process {process} listens at {place.socket}, but does not answer",
        f"if this lasts, look at its log, {log}; `kill -9 {process}` ends it, and `netloom up` starts "
        "another agent, which finishes or undoes its operations",
        process,
        "agent-silent",
        is_kept=True,
    )


def _halted_holder(place: Place) -> int | None:
    """The agent's process, if it is stopped. Reads the lock's holder last: that takes the kernel 10 ms."""
    try:
        process = int(read_document(place.journal_lock))
    except (OSError, ValueError):
        return None
    return process if is_stopped(process) and holder(place) == process else None


def _halted(process: int) -> Presence:
    return Presence(
        None,
        f"the agent (process {process}) is stopped, for example by SIGSTOP or a debugger",
        f"`kill -CONT {process}` resumes it",
        process,
        "agent-halted",
        is_kept=True,
    )


class Obstacle(NamedTuple):
    """What keeps an agent from creating its socket: a file in its place, or a read-only file system."""

    place: str
    kind: Literal["not a socket", "not a directory", "read-only"]

    def __str__(self) -> str:
        return f"{self.place} is {self.kind}"

    @property
    def remedy(self) -> str:
        if self.kind == "read-only":
            return f"mount it read-write: `mount -o remount,rw {mount_point(self.place)}`"
        return f"move {self.place} away"


def obstacle_at(path: str) -> Obstacle | None:
    """What keeps root from creating a socket at a path; None if nothing does."""
    if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
        return Obstacle(path, "not a socket")
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    if not os.path.isdir(directory):
        return Obstacle(directory, "not a directory")
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        return Obstacle(directory, "read-only")
    return None


def mount_point(path: str) -> str:
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def listens_at(path: str) -> bool:
    """Whether a process in this network namespace listens at a socket of that name, removed or not.

    An agent binds its socket under that name with its process number added, and then renames it.
    """
    try:
        with open("/proc/net/unix", "rb") as sockets:
            # 0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/netloom/agent.sock.4711
            rows = [line.split(maxsplit=7) for line in sockets]
    except OSError:
        return False
    listening = {row[7].strip() for row in rows if len(row) == 8 and row[3] == _LISTENING}
    beside = os.fsencode(f"{path}.")
    return os.fsencode(path) in listening or any(
        name.startswith(beside) and name.removeprefix(beside).isdigit() for name in listening
    )
