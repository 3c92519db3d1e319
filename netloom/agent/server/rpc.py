"""Questions that the command line asks an agent: a name, arguments as JSON, and an answer as JSON.

They come over the same socket as the plugin's requests, from root alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ..reconcile.collect_now import collect_now
from ..reconcile.repair_now import repair
from .info import info
from .settle import settle, unwritten

if TYPE_CHECKING:
    from ..node import Node

Question: TypeAlias = Callable[["Node", bytes], Awaitable[bytes]]

QUESTIONS: Mapping[str, Question] = {
    "collect": collect_now,
    "info": info,
    "repair": repair,
    "settle": settle,
    "unwritten": unwritten,
}
