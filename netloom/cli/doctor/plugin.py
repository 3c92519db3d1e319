"""The plugin that runtimes run: whether it is there, can be executed, and is the one of this netloom."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from ...api.findings import Finding
from ...ops.node.install import (
    PLUGIN,
    NotBuilt,
    Receipt,
    read,
    receipt,
    receipt_damage,
    receipt_path,
    shipped_plugin,
)
from ..place import PLUGIN_DIR
from ..plugin_places import differing, missing, not_executable, obstructed
from ..up_plugins import is_stranger
from .ground import Ground


def look(ground: Ground) -> Iterator[Finding]:
    if not ground.networks:
        return  # and nobody needs it
    try:
        shipped = shipped_plugin()
    except NotBuilt as error:
        yield Finding(
            code="plugin-not-built",
            severity="warning",
            text=str(error),
            next="install netloom from a wheel, or build the plugin with `make setup` in a checkout",
        )
        return
    yield from (damaged := list(_of_receipt(ground.args.state_dir)))
    if damaged and ground.args.plugin_dir is None:
        return  # and nobody knows where to look
    known = receipt(ground.args.state_dir)
    for path in places(ground):
        yield from _at(path, shipped, known, {*known.plugins, *places(ground)})


def places(ground: Ground) -> list[str]:
    """Where `netloom up` has installed it, or where runtimes look by default; none if nobody knows."""
    given = ground.args.plugin_dir
    if given is not None:
        return [os.path.join(given, PLUGIN)]
    if any(_of_receipt(ground.args.state_dir)):
        return []
    return receipt(ground.args.state_dir).plugins or [os.path.join(PLUGIN_DIR, PLUGIN)]


def _of_receipt(state_dir: str) -> Iterator[Finding]:
    path = receipt_path(state_dir)
    try:
        damage = receipt_damage(state_dir)
        remedy = "`netloom up` writes a new one; run it with each --plugin-dir at which the plugin is"
    except OSError as cause:
        damage, remedy = cause.strerror, "look at what is in its place, and move it away; then `netloom up`"
    if damage is not None:
        yield Finding(
            code="receipt-unreadable",
            subject=path,
            text=f"{path} cannot be read ({damage}): which files are netloom's is not known",
            next=remedy,
        )


def _at(path: str, shipped: bytes, known: Receipt, everywhere: Collection[str]) -> Iterator[Finding]:
    directory = os.path.dirname(path)
    try:
        content = read(path)
    except OSError as cause:
        yield obstructed(path, str(cause.strerror))
        return
    if content is None:
        yield missing(path, everywhere)
    elif is_stranger(path, known):
        yield Finding(
            code="plugin-foreign",
            subject=path,
            text=f"{path} is no plugin of netloom, and `netloom up` did not put it there: every ADD and DEL "
            "of a network of netloom runs it",
            next=f"move it away, and `netloom up --plugin-dir {directory}`; or replace it with `netloom up "
            f"--force --plugin-dir {directory}`, which replaces a network's file of others, too",
        )
    elif not os.access(path, os.X_OK):
        yield not_executable(path)
    elif content != shipped:
        yield differing(path)
