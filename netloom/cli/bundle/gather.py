"""Asks every source, each in its own time: one that fails or hangs does not hide the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from .documents import documents
from .journal import journal
from .kernel import addresses, firewall, links, neighbours, routes, rules
from .logs import logs
from .machine import machine, settings
from .member import Asked, Found, Trouble, encodable
from .metrics import metrics
from .networks import networks
from .versions import versions

Source: TypeAlias = Callable[[Asked], Iterator[Found]]

# Longer than any of them gives those that it asks itself.
_PATIENCE = 20.0
_ABOUT = "could not be had"


class Gathered(NamedTuple):
    found: Found
    milliseconds: float


def sources() -> list[tuple[str, Source]]:
    """By the name of what they give; what matters most comes first, and is cut last."""
    return [
        ("versions.json", versions),
        *documents(),
        ("networks/", networks),
        ("journal/", journal),
        ("log/", logs),
        ("kernel/machine.json", machine),
        ("kernel/sysctl.json", settings),
        ("kernel/nft-netloom.txt", firewall),
        ("kernel/links.jsonl", links),
        ("kernel/addresses.jsonl", addresses),
        ("kernel/rules.jsonl", rules),
        ("kernel/routes.jsonl", routes),
        ("kernel/neighbours.jsonl", neighbours),
        ("metrics.txt", metrics),
    ]


def gather(
    asked: Asked, wanted: Sequence[tuple[str, Source]], deadline: float, tell: Callable[[str], object]
) -> tuple[list[Gathered], bool]:
    """All that was found, and whether no source was given up."""
    gathered: list[Gathered] = []
    in_time = True
    for name, source in wanted:
        tell(f"asking for {name}")
        left = deadline - time.monotonic()
        if left <= 0:
            gathered.append(Gathered(Trouble(name, _ABOUT, "no time was left for it"), 0.0))
            in_time = False
            continue
        found, ended, lasted = _asked(asked, name, source, min(left, _PATIENCE))
        in_time &= ended
        gathered += [Gathered(encodable(it), lasted / max(len(found), 1)) for it in found]
    return gathered, in_time


def _asked(asked: Asked, name: str, source: Source, patience: float) -> tuple[list[Found], bool, float]:
    """By a thread, which is left to itself if it does not end."""
    found: list[Found] = []
    failed: list[str] = []

    def run() -> None:
        try:
            found.extend(source(asked))  # as far as it comes
        except Exception as error:  # whatever it is, the others have their turn
            failed.append(f"{type(error).__name__}: {error}")

    begun = time.monotonic()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience)
    lasted = (time.monotonic() - begun) * 1000
    result = list(found)
    if thread.is_alive():
        result.append(Trouble(name, _ABOUT, f"gave no answer within {patience:.0f} s"))
        return result, False, lasted
    result += [Trouble(name, _ABOUT, text) for text in failed]
    return result, True, lasted
