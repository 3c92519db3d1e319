"""The largest packet: one that fills the sender's link arrives whole, and one byte more is refused at once.

On a link whose ends have different MTUs, or with a narrower link behind it, small packets pass and large ones
do not: connections are made, and hang.
"""

from __future__ import annotations

import errno
import time

from .echo import SMALL, Echo
from .ends import End, mtu_of
from .failed import Failed
from .report import Family

NARROW = "path-narrow"
# What every link has to take (RFC 791 has 68, and no link of today is that small; RFC 8200).
_LEAST = {"ipv4": 576, "ipv6": 1280}
_QUICK = 0.3


def measure(sender: End, family: Family, target: str, patience: float) -> tuple[float, str]:
    """Milliseconds until the largest packet was answered, and what to say of it."""
    mtu = mtu_of(sender.namespace, sender.ifname) or 0
    if mtu < _LEAST[family]:
        raise Failed(f"{sender.ifname} has an MTU of {mtu}, and {family} needs {_LEAST[family]}")
    with Echo(sender.namespace, family, target) as echo:
        try:
            milliseconds = echo.ask(patience, mtu)
        except Failed as failed:
            raise _narrowed(echo, sender, family, mtu, patience, failed) from None
        _require_refusal(echo, mtu + 1)
    return milliseconds, f"{mtu} bytes"


def _require_refusal(echo: Echo, size: int) -> None:
    try:
        echo.ask(_QUICK, size)
    except Failed as failed:
        if failed.errno == errno.EMSGSIZE:
            return
        raise Failed(f"a packet of {size} bytes was neither answered nor refused") from None
    raise Failed(f"a packet of {size} bytes passed, which is more than the link's MTU")


def _narrowed(echo: Echo, sender: End, family: Family, mtu: int, patience: float, failed: Failed) -> Failed:
    if failed.errno == errno.EMSGSIZE:
        narrow = echo.path_mtu
        return Failed(f"{sender.ifname} has an MTU of {mtu}, and the way takes {narrow} bytes", code=NARROW)
    if failed.errno:
        return failed
    passing = _largest(echo, _LEAST[family], mtu, time.monotonic() + 2 * patience)
    if passing is None:
        return failed
    return Failed(
        f"{sender.ifname} has an MTU of {mtu}, and what is larger than about {passing} bytes is lost without "
        "a word",
        code=NARROW,
    )


def _largest(echo: Echo, low: int, high: int, deadline: float) -> int | None:
    """Of the sizes that pass, the largest, as far as there is time; None if not even small ones do."""
    if not _passes(echo, SMALL):
        return None
    if not _passes(echo, low):
        return SMALL
    while high - low > 1 and time.monotonic() < deadline:
        middle = (low + high) // 2
        low, high = (middle, high) if _passes(echo, middle) else (low, middle)
    return low


def _passes(echo: Echo, size: int) -> bool:
    try:
        echo.ask(_QUICK, size)
    except Failed:
        return False
    return True
