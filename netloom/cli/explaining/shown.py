"""An explanation for the person at the terminal: how it is, what is wrong, what to do, and what happened."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap

from ...api.findings import Finding
from ..event import HEADER, Event, row_of, took
from ..finding_view import finding_lines
from ..moments import shown
from ..output import printable_line
from ..terminal import terminal_width
from ..views import table
from .explanation import Absence, AddressStory, Explanation, Page, Present

_WIDTH = 100
_BAR = 24
# Of a directory with very many files, and of a file with very many plugins, as many are shown.
_FILES = 20
_PLUGINS = 8
# The order in which an operation goes through its parts: the first that is not there is where it failed.
_PHASES = {
    "ADD": ("judge", "queue", "reserve", "kernel", "commit"),
    "DEL": ("queue", "mark", "kernel", "release"),
    "CHECK": ("judge", "queue", "journal", "kernel"),
}
# Parts of every operation, which say nothing of where it failed.
_ALWAYS = frozenset({"answer", "undo"})


def lines_of(it: Explanation) -> list[str]:
    if it.page is not None:
        return _page(it.page)
    lines = [
        printable_line(f"{it.kind} {it.name}" if it.kind != "unknown" else it.name),
        f"  {printable_line(it.summary)}",
    ]
    lines += [line for present in it.attachments for line in _present(present)]
    if it.address is not None:
        lines += _address(it.address)
    lines += findings_lines(it.findings)
    if it.absence is not None:
        lines += _absence(it.absence)
    lines += _operations(it)
    if it.behind:
        lines += ["", printable_line(it.behind)]
    return lines


def findings_lines(findings: Iterable[Finding]) -> list[str]:
    return [line for it in findings for line in ("", *finding_lines(it))]


def _wrapped(label: str, text: str) -> list[str]:
    indent = " " * len(label)
    width = min(terminal_width() or _WIDTH, _WIDTH) - len(label)
    rows = wrap(printable_line(text), width, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{label if number == 0 else indent}{row}" for number, row in enumerate(rows)]


def _page(it: Page) -> list[str]:
    return [
        f"{it.code}: {it.title}",
        "",
        *_wrapped("", it.meaning),
        "",
        *_wrapped("next: ", it.remedy),
    ]


def _present(it: Present) -> list[str]:
    if not it.differing or it.presence != "there":
        return []
    rows = [(one.object, one.state, "; ".join(one.differences)) for one in it.differing]
    return [
        "",
        f"  of {it.planned} objects, not as planned:",
        *table(rows, margin=2),
    ]


def _operations(it: Explanation) -> list[str]:
    if not it.operations:
        return []
    rows = [row_of(one) for one in it.operations]
    kept = [number for number in range(len(HEADER)) if any(row[number] != "-" for row in rows)]
    listed = table([[row[number] for number in kept] for row in rows], [HEADER[number] for number in kept])
    lines = ["", *listed]
    if it.omitted:
        lines.append(f"and {it.omitted} before these; --limit shows more")
    for one in _of_interest(it.operations):
        lines += ["", *_course(one)]
    return lines


def _of_interest(operations: Sequence[Event]) -> list[Event]:
    """The last ADD, and the last that failed."""
    adds = [it for it in operations if it.verb == "ADD"][-1:]
    failed = [it for it in operations if it.failed][-1:]
    return list({it.id: it for it in [*adds, *failed] if it.phases}.values())


def _course(it: Event) -> list[str]:
    """Where its time went, and in which part it failed."""
    lines = [
        printable_line(
            f"{it.verb} of {it.network}/{it.container_id}/{it.ifname} at {shown(it.started, precise=True)}"
            f"{f', asked by {it.caller}' if it.caller else ''}: {took(it.duration)}"
        )
    ]
    lines += table(_bars(it), margin=2)
    if it.failed:
        lines += _wrapped(f"  code {it.code}: ", it.error)
    return lines


def _bars(it: Event) -> list[tuple[str, str, str]]:
    mark = "▇" if (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf") else "#"
    whole = max(sum(it.phases.values()), 0.001)
    rows = [(phase, took(time), mark * round(_BAR * time / whole)) for phase, time in it.phases.items()]
    failed_in = _failed_in(it)
    if failed_in:
        # What it took is part of what came after it: its undoing, or the answer.
        at = next((number for number, row in enumerate(rows) if row[0] in _ALWAYS), len(rows))
        rows.insert(at, (failed_in, "", "failed here"))
    return rows


def _failed_in(it: Event) -> str:
    if not it.failed:
        return ""
    return next((phase for phase in _PHASES.get(it.verb, ()) if phase not in it.phases), "")


def _address(it: AddressStory) -> list[str]:
    lines: list[str] = []
    if it.pools:
        lines.append(f"  pool {', '.join(it.pools)} of {', '.join(it.networks)}")
    rows = [
        (
            "?" if one.began is None else shown(one.began),
            "now" if one.current else "?" if one.ended is None else shown(one.ended),
            "/".join(filter(None, (one.namespace, one.pod))) or "-",
            f"{one.network}/{one.container_id}/{one.ifname}",
            one.how or "-",
        )
        for one in it.tenures
    ]
    if rows:
        lines += ["", *table(rows, ["FROM", "UNTIL", "POD", "ATTACHMENT", "ENDED BY"])]
    return lines


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _PLUGINS} more" if len(names) > _PLUGINS else ""
    return f"{', '.join(names[:_PLUGINS])}{more}"


def _absence(it: Absence) -> list[str]:
    lines = [""]
    if it.configurations:
        lines.append("what runtimes find, in their order:")
        rows = [
            (
                one.path,
                one.network or "-",
                _few(one.plugins) or "-",
                one.error or ("netloom's" if one.ours else ""),
            )
            for one in it.configurations[:_FILES]
        ]
        lines += table(rows, margin=2)
        if it.configurations[_FILES:]:
            lines.append(f"  and {len(it.configurations) - _FILES} more")
    if it.runtimes:
        lines.append("where they look:")
        found = (
            (one.name, one.conf_dir or "uses no CNI", one.path or "(its default)", one.note)
            for one in it.runtimes
        )
        lines += table(found, margin=2)
    return lines if len(lines) > 1 else []
