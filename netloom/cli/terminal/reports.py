"""Terminal output of `netloom explain`, `inspect`, `check` and `doctor`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from ...api.findings import Finding
from ...api.text import age, printable_line, short_id
from ...api.times import shown
from ...ops.explain.events import Event, outcome_of, pod_of, took
from ...ops.explain.explanation import Absence, AddressStory, Explanation, Page, Present
from ...ops.inspect.plan_facts import Bandwidth, HostPort, Masquerade
from .output import say
from .tables import finding_lines, table, terminal_width

if TYPE_CHECKING:
    from ...ops.doctor.diagnosis import Diagnosis
    from ...ops.inspect.documents import Direction, Held, Inspected, Netns


_HEADER = ("WHEN", "VERB", "NETWORK", "CONTAINER", "INTERFACE", "POD", "TOOK", "BY", "OUTCOME")
_WIDTH = 100
_BAR = 24
# The most files of a directory, and plugins of a file, that are shown.
_FILES = 20
_PLUGINS = 8
# Phases of an operation, in order: a failed one failed in the first phase that is missing.
_PHASES = {
    "ADD": ("judge", "queue", "reserve", "kernel", "commit"),
    "DEL": ("queue", "mark", "kernel", "release"),
    "CHECK": ("judge", "queue", "journal", "kernel"),
}
# Phases of every operation, which do not show where it failed.
_ALWAYS = frozenset({"answer", "undo"})


def lines_of_explanation(it: Explanation) -> list[str]:
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
        f"  of {it.planned} objects, these differ from the plan:",
        *table(rows, margin=2),
    ]


def _operations(it: Explanation) -> list[str]:
    if not it.operations:
        return []
    rows = [_row(one) for one in it.operations]
    kept = [number for number in range(len(_HEADER)) if any(row[number] != "-" for row in rows)]
    listed = table([[row[number] for number in kept] for row in rows], [_HEADER[number] for number in kept])
    lines = ["", *listed]
    if it.omitted:
        lines.append(f"and {it.omitted} earlier operations; --limit shows more")
    for one in _of_interest(it.operations):
        lines += ["", *_timeline(one)]
    return lines


def _row(it: Event) -> list[str]:
    return [
        shown(it.started, precise=True),
        it.verb,
        it.network or "-",
        short_id(it.container_id) or "-",
        it.ifname or "-",
        pod_of(it) or "-",
        took(it.duration) if it.duration else "-",
        it.caller or "-",
        outcome_of(it),
    ]


def _of_interest(operations: Sequence[Event]) -> list[Event]:
    """Returns the last ADD and the last failed operation."""
    adds = [it for it in operations if it.verb == "ADD"][-1:]
    failed = [it for it in operations if it.failed][-1:]
    return list({it.id: it for it in [*adds, *failed] if it.phases}.values())


def _timeline(it: Event) -> list[str]:
    """Shows the duration of each phase, and the phase that failed."""
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
        # Its time is included in the next phase: the rollback or the answer.
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
        lines.append("configurations that runtimes find, in order:")
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
        lines.append("directories of runtimes:")
        found = (
            (one.name, one.conf_dir or "does not use CNI", one.path or "(its default)", one.note)
            for one in it.runtimes
        )
        lines += table(found, margin=2)
    return lines if len(lines) > 1 else []


def lines_of_inspection(it: Inspected) -> list[str]:
    facts = [
        ("pod", "/".join(filter(None, (it.workload.namespace, it.workload.pod)))),
        ("state", "DEL queued" if it.queued else it.state),
        ("attached", f"{shown(it.created)} ({age(time.time() - it.created)})"),
        ("addresses", ", ".join(it.addresses)),
        *(("route", f"{one.dst} via {one.gw}" if one.gw else one.dst) for one in it.routes),
        ("mac", it.mac or "unknown"),
        ("mtu", str(it.mtu or "unknown")),
        ("host link", it.host_link),
        *(("host port", _port(one)) for one in it.host_ports),
        ("limits", _limits(it.bandwidth)),
        ("masquerade", _masquerade(it.masquerade)),
        ("isolation", "" if it.isolation == "none" else f"isolated from other {it.isolation}"),
        ("namespace", _netns(it.netns)),
        *(("held by", _holder(one)) for one in it.netns.holders),
        ("config", it.config_hash[:16]),
        ("sent", "" if it.counters is None else _counted(it.counters.sent, it.counters.refused)),
        ("received", "" if it.counters is None else _counted(it.counters.received)),
    ]
    lines = [printable_line(f"{it.network}/{it.container_id}/{it.ifname}")]
    lines += table([fact for fact in facts if fact[1]], margin=2)
    if it.objects is None:
        lines += ["", "  the plan cannot be read"]
    else:
        rows = [(one.object, one.state, "; ".join(one.differences)) for one in it.objects]
        lines += ["", *table(rows, ["OBJECT", "STATE", ""], margin=2)]
    return [*lines, *findings_lines(it.findings)]


def _port(it: HostPort) -> str:
    host = f"{it.host_ip or '*'}:{it.host_port}/{it.protocol}"
    return f"{host} leads to {it.container_ip} port {it.container_port}"


def _limits(it: Bandwidth | None) -> str:
    if it is None:
        return ""
    parts = [
        f"{name} {_rate(rate)}"
        for name, rate in (("receives", it.ingress_rate), ("sends", it.egress_rate))
        if isinstance(rate, int)
    ]
    return ", ".join(parts)


def _rate(bits: int) -> str:
    for size, unit in ((1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1000, "kbit/s")):
        if bits >= size:
            return f"{bits / size:g} {unit}"
    return f"{bits} bit/s"


def _masquerade(it: Masquerade | None) -> str:
    if it is None:
        return ""
    families = [name for name, on in (("IPv4", it.ipv4), ("IPv6", it.ipv6)) if on]
    return f"{' and '.join(families)}, except to {', '.join(it.inside)}"


def _netns(it: Netns) -> str:
    how = {"there": "", "gone": " (deleted)", "replaced": " (now another namespace)"}
    return f"{it.path}{how[it.presence]}"


def _holder(it: Held) -> str:
    who = f"{it.name}[{it.process}]"
    if it.mounted:
        return f"a mount at {it.mounted}, as {who} sees it"
    return f"{who}, which {it.how}"


def _counted(it: Direction, refused: int | None = None) -> str:
    limit = "" if it.limited is None else f", {it.limited} dropped by the limit"
    errors = f", {it.errors} errors" if it.errors else ""
    strange = f", {refused} refused (spoofed source address)" if refused else ""
    packets = "1 packet" if it.packets == 1 else f"{it.packets} packets"
    return f"{packets}, {_size(it.bytes)}, {it.dropped} dropped{limit}{errors}{strange}"


def _size(count: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


# The most findings with the same next step that are shown.
_SHOWN = 8
_DIAGNOSIS_WIDTH = 78
# Seconds before the first line.
_QUIET = 0.7


def show(found: Diagnosis) -> None:
    for it in found.fixed:
        what = "fixed" if it.done else "not fixed" if it.error else "would be fixed"
        why = f" ({it.error})" if it.error else ""
        say(printable_line(f"{what}: {it.subject}: {it.text}{why}"))
    if found.fixed:
        say("")
    for group in _groups(found.findings):
        _show_group(group)
    if not found.findings:
        say(f"no problems found: {', '.join(it.check for it in found.checks)}", "")
    if found.features:
        _show_features(found)


def _groups(found: Sequence[Finding]) -> list[list[Finding]]:
    """Groups findings with the same next step, which is printed once."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for it in found:
        groups.setdefault((it.code, it.severity, it.next), []).append(it)
    return list(groups.values())


def _show_group(group: Sequence[Finding]) -> None:
    first = group[0]
    say(*(printable_line(f"{it.severity}: {it.text}") for it in group[:_SHOWN]))
    if len(group) > _SHOWN:
        say(f"… and {len(group) - _SHOWN} more like these (--json lists all)")
    say(printable_line(f"  next: {first.next}"))
    if first.fix:
        say(printable_line(f"  fix:  `netloom doctor --fix` would {first.fix}"))
    say(f"  more: {first.see}", "")


def _show_features(found: Diagnosis) -> None:
    lacking = [it for it in found.features if it.essential and not it.present]
    others = [it.feature for it in found.features if not it.essential and not it.present]
    enough = "lacks features that every node needs" if lacking else "has all features that every node needs"
    optional = (
        f"; it lacks {', '.join(others)}, which some networks need (--json has details)" if others else ""
    )
    say(f"Linux {found.kernel} {enough}{optional}")


class DiagnosisProgress:
    """A progress line on the terminal, if there is one."""

    def __init__(self, terminal: TextIO | None) -> None:
        self._terminal = terminal if terminal is not None and terminal.isatty() else None
        self._began = time.monotonic()

    def update(self, text: str) -> None:
        if self._terminal is not None and time.monotonic() - self._began > _QUIET:
            self._terminal.write(f"\r\x1b[K{text[:_DIAGNOSIS_WIDTH]}")
            self._terminal.flush()

    def clear(self) -> None:
        if self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()


@contextmanager
def progress() -> Iterator[DiagnosisProgress]:
    shown = DiagnosisProgress(sys.stderr)
    try:
        yield shown
    finally:
        shown.clear()
