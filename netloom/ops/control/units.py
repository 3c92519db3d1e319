"""systemd units of the agent: rendered for this installation, found, recognised, and asked about."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from ...api.paths import Place
from ..errors import OperationFailed, UsageError
from ..install.plugins import write_receipt
from ..node.install import Receipt, read, receipt, receipt_damage
from .start import own_command

# What sd_booted(3) looks at.
_BOOTED = "/run/systemd/system"
_PATIENCE = 120.0
_LINES = 10


def is_booted() -> bool:
    return os.path.isdir(_BOOTED)


def require_booted() -> None:
    if not is_booted():
        raise OperationFailed(
            "systemd does not run on this machine; nothing was done",
            "leave --systemd out, and `netloom up` starts the agent itself; or write the units for another "
            "machine with --units-only DIR",
            code="systemd-not-running",
        )


def unit_of(process: int) -> str | None:
    """The service whose main process this is: who ends it, fights with its manager."""
    if not is_booted():
        return None
    try:
        with open(f"/proc/{process}/cgroup", errors="surrogateescape") as file:
            names = [line.rstrip("\n").rpartition("/")[2] for line in file]
    except OSError:
        return None
    for name in sorted({it for it in names if it.endswith(".service")}):
        if _property(name, "MainPID") == str(process):
            return name
    return None


def is_known(unit: str) -> bool:
    return is_booted() and _property(unit, "LoadState") == "loaded"


def stop(units: Sequence[str]) -> None:
    """With the sockets that would start them again, which have to be named, too."""
    triggers = [it for unit in units for it in (_property(unit, "TriggeredBy") or "").split()]
    systemctl("stop", *dict.fromkeys((*triggers, *units)))


def systemctl(*words: str, said_by: str = "") -> None:
    """Raises `OperationFailed`, with the last lines of the log of the unit that `said_by` names."""
    done = _run("systemctl", *words)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise OperationFailed(
            f"`systemctl {' '.join(words)}` failed with status {done.returncode}",
            f"look at `systemctl status {said_by}` and `journalctl -u {said_by}`"
            if said_by
            else "do as systemd says, and try again",
            code="systemd-refused",
            said=[*lines, *(_log_of(said_by) if said_by else [])][-_LINES:],
        )


def _property(unit: str, name: str) -> str | None:
    done = _run("systemctl", "show", "--property", name, "--value", unit)
    return done.stdout.strip() if done.returncode == 0 else None


def _log_of(unit: str) -> list[str]:
    done = _run("journalctl", "--unit", unit, "--lines", str(_LINES), "--output", "cat", "--no-pager")
    return done.stdout.splitlines() if done.returncode == 0 else []


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]} is not installed")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"it did not end within {_PATIENCE:g} s")


SERVICE, SOCKET = "netloom.service", "netloom.socket"
# Where an administrator's units are; what a distribution ships is elsewhere.
DIRECTORY = "/etc/systemd/system"

_TEMPLATES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "_units")
# What systemd makes itself, with the right mode, below these.
_MADE_BY_SYSTEMD = {"/run": "RuntimeDirectory", "/var/lib": "StateDirectory"}
_SPECIAL = set("\"'\\;")


def paths() -> tuple[str, str]:
    """Of the units, as `netloom up --systemd` installs them. The socket's is first."""
    return os.path.join(DIRECTORY, SOCKET), os.path.join(DIRECTORY, SERVICE)


def rendered(place: Place, command: Sequence[str]) -> Mapping[str, bytes]:
    """Their contents, by name. The socket is first: whoever calls early waits there."""
    values = {
        "@COMMAND@": " ".join(_word(it) for it in command),
        "@SOCKET@": _path(place.socket),
        "@DIRECTORIES@": "\n".join(_directories(place)),
    }
    found = {}
    for name in (SOCKET, SERVICE):
        with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
            text = file.read()
        for key, value in values.items():
            text = text.replace(key, value)
        found[name] = text.encode()
    return found


def _directories(place: Place) -> list[str]:
    lines = []
    for directory in (os.path.dirname(place.socket), place.state_dir):
        parent, name = os.path.split(directory)
        setting = _MADE_BY_SYSTEMD.get(parent)
        if setting is None:
            lines.append(f"ReadWritePaths={_quoted(directory)}")
        else:
            lines += [f"{setting}={_quoted(name)}", f"{setting}Mode=0700"]
        if setting == "RuntimeDirectory":
            lines.append("RuntimeDirectoryPreserve=yes")
    return lines


def _path(text: str) -> str:
    """As a setting of one path takes it: to the end of the line, with % doubled."""
    if any(not it.isprintable() for it in text) or text != text.strip():
        raise UsageError(f"{text!r} cannot stand in a unit of systemd", "give a path of plain characters")
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """As one word of a command, in which $ begins a variable."""
    return _quoted(text.replace("$", "$$"))


def _quoted(text: str) -> str:
    """As one word of several."""
    text = _path(text)
    if not text or any(it.isspace() or it in _SPECIAL for it in text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text


_COMMAND, _LISTENS = "ExecStart=", "ListenStream="


def is_ours(path: str, content: bytes, state_dir: str, known: Receipt) -> bool:
    """What was written down counts; what a unit says, only where nothing was."""
    if path in known.everything:
        return known.is_ours(path, content)
    if os.path.islink(path):  # we write files
        return False
    if os.path.basename(path) == SOCKET:
        return _is_socket(content)
    return _written_with(content, state_dir) is not None


def are_left(state_dir: str) -> bool:
    """Whether the receipt is damaged, and there are units of ours of which it has told."""
    try:
        is_lost = receipt_damage(state_dir) is not None
    except OSError:  # something else is in its place, of which others tell
        return False
    return is_lost and bool(left(state_dir))


def left(state_dir: str) -> Mapping[str, bytes]:
    """Both units, if they are there and ours by what they say: contents by path. One goes with the other."""
    try:
        socket, service = map(read, paths())
    except OSError:
        return {}
    if socket is None or service is None or any(map(os.path.islink, paths())):
        return {}
    units = _written_with(service, state_dir)
    if units is None or units[SOCKET] != socket:
        return {}
    return dict(zip(paths(), (socket, service), strict=True))


def write_down(state_dir: str) -> None:
    """Into a receipt that lacks them, since the one before it was damaged."""
    known = receipt(state_dir)
    lacking = {path: it for path, it in left(state_dir).items() if path not in known.everything}
    for path, content in lacking.items():
        known = known.adding(path, content)
    if lacking:
        write_receipt(state_dir, known)


def _written_with(service: bytes, state_dir: str) -> Mapping[str, bytes] | None:
    """Both units as they are written together with this one; None if it is not as we write it."""
    try:
        command = _command(service.decode())
        _, found, _, socket, _, conf_dir = command[-6:]
        place = Place(found, socket)
        units = rendered(place, command)
    except (ValueError, UsageError):  # no text, no such line, not so many words, or none that we would write
        return None
    # Before a path there may stand what changes how systemd runs it.
    is_own = os.path.isabs(command[0]) and [command[0], *own_command(place, conf_dir)[1:]] == command
    return units if is_own and found == state_dir and units[SERVICE] == service else None


def _is_socket(content: bytes) -> bool:
    try:
        place = Place("/", _value(content.decode(), _LISTENS).replace("%%", "%"))
        return rendered(place, ())[SOCKET] == content
    except (ValueError, UsageError):
        return False


def _command(text: str) -> list[str]:
    """As it was before it was written: see `units`."""
    words = shlex.split(_value(text, _COMMAND))
    return [it.replace("%%", "%").replace("$$", "$") for it in words]


def _value(text: str, key: str) -> str:
    (line,) = (it for it in text.splitlines() if it.startswith(key))
    return line.removeprefix(key)
