"""Units whose receipt is lost: whether they are ours, by what they say.

`netloom up` writes down what it has written, and so tells it from what others wrote or have changed. Where
that is lost, a unit that stands there to the letter as this version writes it is ours: for this state
directory, and for whatever interpreter, socket and directory of networks it was written for. Our name at its
head proves nothing, since that stays when somebody changes a line below it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from ..ops.node.install import Receipt, read, receipt, receipt_damage
from .agent_process import Place
from .agent_start import own_command
from .failure import UsageError
from .receipts import write_receipt
from .units import SERVICE, SOCKET, paths, rendered

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
