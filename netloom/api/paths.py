"""Where netloom keeps its files on a node, and whether only root can change the path of a directory.

A user who can change a directory controls everything below it. The plugin checks the socket's directory by
the same rules (`plugin/trust.c`), and does not contact an agent that another user could have placed there.
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
    """The directories and the socket of an agent, and the directories of runtimes.

    `plugin_dir` is where to look for the plugin; None: every directory in which it was installed.
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
        """The path to which a large log is rotated."""
        return f"{self.log}.1"

    @property
    def receipt(self) -> str:
        return receipt_of(self.state_dir)

    @property
    def intents(self) -> str:
        return intents_of(self.socket)

    @property
    def state_files(self) -> tuple[str, ...]:
        """Every file that an agent or `netloom up` writes in the state directory, except journal copies.

        A purge removes them in this order: the receipt, which lists the others, is last.
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
    """The list of files that `netloom up` installed on this node."""
    return os.path.join(state_dir, RECEIPT)


def networks_of(state_dir: str) -> str:
    """Copies of the network files that this node needs."""
    return os.path.join(state_dir, NETWORKS)


def orphans_of(state_dir: str) -> str:
    """The services of orphaned links, which no attachment in the journal has."""
    return os.path.join(state_dir, ORPHANS)


def intents_of(socket: str) -> str:
    """The directory of queued DELs."""
    return os.path.join(os.path.dirname(socket), "intents")


# The number of symbolic links that the kernel follows.
_LINKS = 40
# The owner that the kernel shows for users outside this user namespace, such as the host's root.
_OVERFLOW = 65534
_BY_OTHERS = 0o022


class Weakness(NamedTuple):
    """A place where another user could change a path. `is_own`: the directory itself, not one above it."""

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
        """Whether it is writable by others on purpose, such as /tmp."""
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
    """Returns the first place in the path that another user could change; None if only root, or we, can.

    A sticky directory above, such as /tmp, is safe if root owns the entry in it; the directory itself must
    not be writable by others. Missing parts are not checked: the user who creates them owns them.
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
    """With `sticky`, a sticky directory is accepted: only owners may rename its entries."""
    if not found.st_mode & _BY_OTHERS or (sticky and found.st_mode & stat.S_ISVTX):
        return None
    return Weakness(place, "mode", found.st_uid, stat.S_IMODE(found.st_mode))


def is_trusted_user(user: int) -> bool:
    """Whether a process of this user may be the agent: root, or ourselves."""
    return user in (0, os.geteuid())


def _is_trusted(owner: int, *, strict: bool = False) -> bool:
    return is_trusted_user(owner) or (not strict and owner == _OVERFLOW and _is_in_user_namespace())


def _is_in_user_namespace() -> bool:
    """Whether this is not the initial user namespace, which has all users."""
    with suppress(OSError, ValueError), open("/proc/self/uid_map") as file:
        return [int(it) for it in file.read().split()] != [0, 0, 2**32 - 1]
    return False


def close_to_others(directory: str) -> bool:
    """Removes the write permission of others, if root or we own the directory. Returns whether it succeeded.

    It leaves sticky directories alone, since other users need them.
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
    """Returns `weakness_of` after repairing what we may repair ourselves."""
    weak = weakness_of(directory)
    if weak is None or not weak.is_own or weak.kind != "mode" or not close_to_others(directory):
        return weak
    return weakness_of(directory)


def require_trusted(what: str, directory: str) -> None:
    """Raises `UntrustedPath`. `what` names the directory in the middle of a sentence."""
    weak = weakness_left(directory)
    if weak is not None:
        raise UntrustedPath(what, weak)
