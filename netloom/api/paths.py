"""Where netloom keeps its files on a node, and whether a directory's path is root's alone.

A user who can change a directory above another changes what is below. The plugin judges the socket's
directory in the same way (`plugin/trust.c`), and does not ask an agent that another user could have put
there.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Literal, NamedTuple

DEFAULT_STATE_DIR = "/var/lib/netloom"
DEFAULT_SOCKET = "/run/netloom/agent.sock"
DEFAULT_CONF_DIR = "/etc/cni/net.d"
DEFAULT_PLUGIN_DIR = "/opt/cni/bin"

# Files in the state directory.
JOURNAL = "journal.db"
LOG = "agent.log"
RECEIPT = "installed.json"
NETWORKS = "networks.json"
ORPHANS = "orphans.json"


class Place(NamedTuple):
    """Where an agent keeps its state, where it listens, and where runtimes look for networks.

    `plugin_dir` is where an operator looks for the plugin; None: wherever it was installed.
    """

    state_dir: str = DEFAULT_STATE_DIR
    socket: str = DEFAULT_SOCKET
    conf_dir: str = DEFAULT_CONF_DIR
    plugin_dir: str | None = None

    @property
    def journal(self) -> str:
        return journal_of(self.state_dir)

    @property
    def journal_lock(self) -> str:
        return f"{self.journal}.lock"

    @property
    def log(self) -> str:
        return os.path.join(self.state_dir, LOG)

    @property
    def earlier_log(self) -> str:
        """Where a log is moved that has grown large."""
        return f"{self.log}.1"

    @property
    def receipt(self) -> str:
        return receipt_of(self.state_dir)

    @property
    def intents(self) -> str:
        return intents_of(self.socket)

    @property
    def state_files(self) -> tuple[str, ...]:
        """Every file that an agent or `netloom up` writes in the state directory, but copies of the journal.

        In the order in which a purge removes them: what tells of the others is last.
        """
        return (
            f"{self.journal}-wal",
            f"{self.journal}-shm",
            self.journal,
            self.journal_lock,
            self.log,
            self.earlier_log,
            networks_of(self.state_dir),
            orphans_of(self.state_dir),
            self.receipt,
        )


def default_socket() -> str:
    return os.environ.get("NETLOOM_SOCKET") or DEFAULT_SOCKET


def default_state_dir() -> str:
    return os.environ.get("NETLOOM_STATE_DIR") or DEFAULT_STATE_DIR


def default_conf_dir() -> str:
    return os.environ.get("NETCONFPATH") or DEFAULT_CONF_DIR


def journal_of(state_dir: str) -> str:
    return os.path.join(state_dir, JOURNAL)


def receipt_of(state_dir: str) -> str:
    """What `netloom up` installed on this node."""
    return os.path.join(state_dir, RECEIPT)


def networks_of(state_dir: str) -> str:
    """Copies of the files of networks that this node needs."""
    return os.path.join(state_dir, NETWORKS)


def orphans_of(state_dir: str) -> str:
    """What links have that no attachment in the journal has."""
    return os.path.join(state_dir, ORPHANS)


def intents_of(socket: str) -> str:
    """The directory of DELs that wait for an agent."""
    return os.path.join(os.path.dirname(socket), "intents")


# As many symbolic links as the kernel follows.
_LINKS = 40
# The owner that the kernel shows for users whom this user namespace does not have; the host's root is one.
_OVERFLOW = 65534
_BY_OTHERS = 0o022


class Weakness(NamedTuple):
    """Where another user could change what a path leads to. `is_own`: in the directory itself, not above."""

    place: str
    kind: Literal["owner", "mode", "link"]
    owner: int
    mode: int
    is_own: bool = False

    def __str__(self) -> str:
        if self.kind == "mode":
            return f"{self.place} is writable by other users (mode {self.mode:04o})"
        what = "a symbolic link " if self.kind == "link" else ""
        return f"{self.place} is {what}owned by UID {self.owner}"

    @property
    def is_shared(self) -> bool:
        """Whether it is open to others on purpose, as /tmp is."""
        return bool(self.mode & stat.S_ISVTX)

    @property
    def remedy(self) -> str:
        if self.kind == "mode" and self.is_shared:
            return (
                f"use a path in a separate directory: {self.place} is shared by all users; if only netloom "
                f"uses it, `chmod 0700 {self.place}`"
            )
        if self.kind == "mode":
            return f"`chmod go-w {self.place}`"
        if self.kind == "link":
            return "use the path that the link leads to, or replace it with a link that root owns"
        return f"check its contents, then `chown root: {self.place}`; or use a directory that root owns"


class UntrustedPath(Exception):
    """A directory that the agent needs could be changed by another user."""

    def __init__(self, what: str, weakness: Weakness) -> None:
        super().__init__(f"another user could change {what}: {weakness}")
        self.weakness = weakness


def weakness_of(directory: str) -> Weakness | None:
    """The first place in its path that another user could change; None if only root, or we, can.

    A sticky directory is safe for what is root's in it, as /tmp is for a directory of root's; the directory
    itself has to be closed to others all the same. What is missing is not judged: who makes it owns it.
    """
    place, found = "/", os.lstat("/")
    names = _names(directory)
    links = 0
    while names:
        name = names.pop(0)
        entry = os.path.join(place, name)
        try:
            there = os.lstat(entry)
        except OSError:
            return _open_to_others(place, found, sticky=True)
        weak = _open_to_others(place, found, sticky=_is_trusted(there.st_uid))
        if weak is not None:
            return weak
        if name == "..":
            place, found = os.path.dirname(place), there
        elif stat.S_ISLNK(there.st_mode):
            links += 1
            if not _is_trusted(there.st_uid) or links > _LINKS:
                return Weakness(entry, "link", there.st_uid, stat.S_IMODE(there.st_mode))
            target = os.readlink(entry)
            names = [*_names(target), *names]
            if target.startswith("/"):
                place, found = "/", os.lstat("/")
        else:
            place, found = entry, there
            if not _is_trusted(there.st_uid, strict=not names):
                return Weakness(place, "owner", there.st_uid, stat.S_IMODE(there.st_mode), not names)
    weak = _open_to_others(place, found, sticky=False)
    return None if weak is None else weak._replace(is_own=True)


def _names(path: str) -> list[str]:
    return [it for it in path.split("/") if it not in ("", ".")]


def _open_to_others(place: str, found: os.stat_result, *, sticky: bool) -> Weakness | None:
    """`sticky`: that only owners may rename in it is enough."""
    if not found.st_mode & _BY_OTHERS or (sticky and found.st_mode & stat.S_ISVTX):
        return None
    return Weakness(place, "mode", found.st_uid, stat.S_IMODE(found.st_mode))


def is_trusted_user(user: int) -> bool:
    """Whether a process of this user may be the agent: root, or ourselves."""
    return user in (0, os.geteuid())


def _is_trusted(owner: int, *, strict: bool = False) -> bool:
    return is_trusted_user(owner) or (not strict and owner == _OVERFLOW and _is_in_user_namespace())


def _is_in_user_namespace() -> bool:
    """Whether it is not the first one, which has all users."""
    with suppress(OSError, ValueError), open("/proc/self/uid_map") as file:
        return [int(it) for it in file.read().split()] != [0, 0, 2**32 - 1]
    return False


def close_to_others(directory: str) -> bool:
    """Takes the right to write from others, where the directory is root's or ours. Whether it is closed now.

    Not in one that is sticky: others need that one.
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(fd)
        if not is_trusted_user(found.st_uid) or found.st_mode & stat.S_ISVTX:
            return False
        os.fchmod(fd, stat.S_IMODE(found.st_mode) & ~_BY_OTHERS)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def weakness_left(directory: str) -> Weakness | None:
    """The same as `weakness_of`, when what we may repair ourselves is repaired."""
    weak = weakness_of(directory)
    if weak is None or not weak.is_own or weak.kind != "mode" or not close_to_others(directory):
        return weak
    return weakness_of(directory)


def require_trusted(what: str, directory: str) -> None:
    """Raises `UntrustedPath`. `what` names the directory, as the middle of a sentence."""
    weak = weakness_left(directory)
    if weak is not None:
        raise UntrustedPath(what, weak)
