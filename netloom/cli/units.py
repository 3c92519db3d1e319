"""The units that let systemd run the agent: rendered for this installation and for its directories."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from .agent_process import Place
from .failure import UsageError

SERVICE, SOCKET = "netloom.service", "netloom.socket"
# Where an administrator's units are; what a distribution ships is elsewhere.
DIRECTORY = "/etc/systemd/system"

_TEMPLATES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_units")
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
