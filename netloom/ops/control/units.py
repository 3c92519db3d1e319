"""systemd units of the agent: renders them for this installation, finds and recognises them."""

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

# The path that sd_booted(3) checks.
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
    """The service whose main process this is. If the process is stopped directly, systemd restarts it."""
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
    """Stops units, and the sockets that would start them again: systemctl needs their names, too."""
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
            else "fix what systemd reports, and try again",
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
# The administrator's units; those of a distribution are elsewhere.
DIRECTORY = "/etc/systemd/system"

_TEMPLATES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "_units")
# Settings with which systemd itself creates directories below these, with the right mode.
_MADE_BY_SYSTEMD = {"/run": "RuntimeDirectory", "/var/lib": "StateDirectory"}
_SPECIAL = set("\"'\\;")


def paths() -> tuple[str, str]:
    """The paths at which `netloom up --systemd` installs the units. The socket is first."""
    return os.path.join(DIRECTORY, SOCKET), os.path.join(DIRECTORY, SERVICE)


def rendered(place: Place, command: Sequence[str]) -> Mapping[str, bytes]:
    """The units' contents, by name. The socket is first, so that early calls wait there."""
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
    """A path as the value of a setting, which ends with the line. Doubles %."""
    if any(not it.isprintable() for it in text) or text != text.strip():
        raise UsageError(f"{text!r} cannot be used in a systemd unit", "give a path of printable characters")
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """Text as one word of a command, in which $ begins a variable."""
    return _quoted(text.replace("$", "$$"))


def _quoted(text: str) -> str:
    """Text as one of several words, in quotes if it needs them."""
    text = _path(text)
    if not text or any(it.isspace() or it in _SPECIAL for it in text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text


_COMMAND, _LISTENS = "ExecStart=", "ListenStream="


def is_ours(path: str, content: bytes, state_dir: str, known: Receipt) -> bool:
    """Whether `netloom up` wrote a unit. The receipt decides; without an entry there, the content does."""
    if path in known.everything:
        return known.is_ours(path, content)
    if os.path.islink(path):  # we never write links
        return False
    if os.path.basename(path) == SOCKET:
        return _is_socket(content)
    return _written_with(content, state_dir) is not None


def are_left(state_dir: str) -> bool:
    """Whether the receipt is damaged, and there are units that it must have listed."""
    try:
        is_lost = receipt_damage(state_dir) is not None
    except OSError:  # something else is in its place, which is reported elsewhere
        return False
    return is_lost and bool(left(state_dir))


def left(state_dir: str) -> Mapping[str, bytes]:
    """The contents of both units by path, if both exist and we would write them so; else empty."""
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
    """Adds the units to a receipt that lacks them, since it replaced a damaged one."""
    known = receipt(state_dir)
    lacking = {path: it for path, it in left(state_dir).items() if path not in known.everything}
    for path, content in lacking.items():
        known = known.adding(path, content)
    if lacking:
        write_receipt(state_dir, known)


def _written_with(service: bytes, state_dir: str) -> Mapping[str, bytes] | None:
    """Both units as we write them with this service; None if the service is not as we write it."""
    try:
        command = _command(service.decode())
        _, found, _, socket, _, conf_dir = command[-6:]
        place = Place(found, socket)
        units = rendered(place, command)
    except (ValueError, UsageError):  # not UTF-8, a line or a word too few, or what we never write
        return None
    # A prefix of the path, such as `-`, changes how systemd runs the command.
    is_own = os.path.isabs(command[0]) and [command[0], *own_command(place, conf_dir)[1:]] == command
    return units if is_own and found == state_dir and units[SERVICE] == service else None


def _is_socket(content: bytes) -> bool:
    try:
        place = Place("/", _value(content.decode(), _LISTENS).replace("%%", "%"))
        return rendered(place, ())[SOCKET] == content
    except (ValueError, UsageError):
        return False


def _command(text: str) -> list[str]:
    """The command line of a unit, without the escapes of `_word`."""
    words = shlex.split(_value(text, _COMMAND))
    return [it.replace("%%", "%").replace("$$", "$") for it in words]


def _value(text: str, key: str) -> str:
    (line,) = (it for it in text.splitlines() if it.startswith(key))
    return line.removeprefix(key)
