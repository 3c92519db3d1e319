"""Rates as people write them."""

from __future__ import annotations

import argparse
import re

_SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmg]?)(?:bit(?:/s)?)?", re.IGNORECASE)
_LEAST, _MOST = 8_000, 400_000_000_000


def bits(text: str) -> int:
    """Bits a second.

    >>> bits("50M"), bits("1.5G"), bits("64kbit")
    (50000000, 1500000000, 64000)
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no rate: bits a second, such as 50M")
    rate = int(float(found[1]) * _SIZES[found[2].lower()])
    if not _LEAST <= rate <= _MOST:
        raise argparse.ArgumentTypeError("must be from 8k to 400G bits a second")
    return rate
