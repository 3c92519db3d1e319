"""The registry of modes. A network's `mode` determines how its packets move."""

from __future__ import annotations

from .base import Mode
from .routed import ROUTED

# The mode of a network whose configuration names none.
DEFAULT = ROUTED.name

_modes: dict[str, Mode] = {ROUTED.name: ROUTED}


class UnknownMode(Exception):
    """The mode is from a later version, or the journal was changed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this version of netloom does not know the mode {name!r}")
        self.name = name


def known_modes() -> tuple[Mode, ...]:
    return tuple(_modes.values())


def mode_names() -> tuple[str, ...]:
    return tuple(_modes)


def mode_named(name: str) -> Mode:
    """Raises `UnknownMode`."""
    try:
        return _modes[name]
    except KeyError:
        raise UnknownMode(name) from None


def next_hops() -> frozenset[str]:
    """Returns the next hops of all modes, which are the same on every node."""
    return frozenset(it for mode in _modes.values() for it in mode.next_hops)


def register(mode: Mode) -> None:
    if mode.name in _modes:
        raise ValueError(f"there is a mode {mode.name!r} already")
    _modes[mode.name] = mode


def unregister(name: str) -> None:
    del _modes[name]
