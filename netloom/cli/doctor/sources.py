"""Attachments that send from addresses that are not theirs: what the node's table drops is counted there."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.findings import Finding
from ..refused import refusals, refused_at
from .ground import Ground


def look(ground: Ground) -> Iterator[Finding]:
    found = refused_at(ground.host) or {}
    for row in ground.attachments:
        yield from refusals(row, found.get(row.host_link))
