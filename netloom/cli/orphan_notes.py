"""Links that are not in the journal (orphaned), for commands that list what the journal has."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from ..journal import Ledger, empty
from ..kernel import KernelError, Namespace
from ..ops.node.orphans import orphans_at
from .journal import ledger

_MORE = "`netloom doctor` names each, with what to do about it"


def note_on_links(args: argparse.Namespace) -> str:
    """Empty if there are none, or if they cannot be looked at."""
    count = _count(args)
    return f"note: {_counted(count)}, and containers may use them: {_MORE}" if count else ""


def warnings_of_links(args: argparse.Namespace) -> list[str]:
    """For `netloom up`, after which an agent runs that keeps them as they are."""
    count = _count(args)
    if not count:
        return []
    them = "it" if count == 1 else "them"
    return [
        f"{_counted(count)}, as after a journal was lost: containers may use {them}; `netloom status` names "
        f"{them}, and what to do"
    ]


def _count(args: argparse.Namespace) -> int:
    try:
        with Namespace.own() as host:
            return len(_orphans(args, host))
    except KernelError:
        return 0


def _counted(count: int) -> str:
    return f"{'1 link is' if count == 1 else f'{count} links are'} not in the journal (orphaned)"


def notes_on_ports(args: argparse.Namespace, wanted: int | None) -> list[str]:
    """One for each port of the host that leads to such a link: no other container can have it."""
    from ..ops.node.orphan_table import look, ports_of

    try:
        with Namespace.own() as host:
            orphans = _orphans(args, host)
            held = ports_of(look(host, orphans, {}).kept) if orphans else []
    except KernelError:
        return []
    return [
        f"note: port {port} leads to {port.ip} port {port.port} by link {link}, which is not in the journal "
        f"(orphaned): {_MORE}"
        for port, link in held
        if wanted in (None, port.host_port)
    ]


def _orphans(args: argparse.Namespace, host: Namespace) -> Mapping[str, frozenset[bytes]]:
    """The journal is read after the links: one that is made meanwhile is in it."""

    def survey(ask: Callable[[Ledger], list[str]]) -> list[str]:
        with ledger(args) as journal:
            return ask(journal or empty())

    return orphans_at(host, survey)
