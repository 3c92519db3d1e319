"""What the documentation shows of commands' output, and the shape of a line: its words without its values.

Two lines have one shape if they differ only in times, names, addresses, paths, numbers and the like. So a
sample from another machine has the shape of what a command prints here, unless somebody changed its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a shell keeps for itself.
_REST = re.compile(r"\s*(\||;|&&|[0-9]?>).*")
_LEFT_OUT = "…"

_HEX = "[0-9a-f]"
_IPV6 = rf"(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}"
_VALUES: tuple[tuple[str, str], ...] = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"[▇▏▎▍▌▋▊▉█]+", ""),
    (
        r"\bLinux \S+ has all features that every node needs(?:; it lacks .*)?",
        "Linux RELEASE has all features that every node needs",
    ),
    (rf"\b(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}\b", "MAC"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+\d\d:\d\d)", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"[\w./-]+\[\d+\]", "PROCESS"),
    (rf"(?<![\w:])(?:\d+\.\d+\.\d+\.\d+|\[?{_IPV6}\]?)(?:/\d+)?(?::\d+)?", "ADDRESS"),
    (r"\b(?:ADDRESS(?:, ?| and | --pool ))*ADDRESS\b", "ADDRESS"),
    (r"\bloom[0-9a-f]{11}\b", "LINK"),
    (r"\bleave-[0-9a-f]{16}\b", "CHAIN"),
    (r"\b(?:netloom|mynet)/[\w.-]+/(?:eth|net)\d\b", "ATTACHMENT"),
    (r"(?<![\w`])(?:/[\w.*+@%-]+)+/?", "PATH"),
    (r"\b(?:cnitool-[0-9a-f]+|[0-9a-f]{12,64}|job-\d+|default-web|c\d+-[0-9a-f]+-\d+)\b", "CONTAINER"),
    (r"\b(?:shop|billing)/[\w-]+\b", "POD"),
    (r"netloom-kept-[0-9a-f]+", "KEPT"),
    (r"\b\d+\.\d+\.\d+\b", "VERSION"),
    (r"2\^\d+|<\d+%|\d+%", "N"),
    (r"\b\d+(?:\.\d+)? ?(?:ms|s|m|h|d|min)\b(?: \d+h)?", "LENGTH"),
    (r"\b\d+(?:\.\d+)?\b", "N"),
    (r"\bN (attachment|finding|address|operation|DEL|link|byte)(?:s|es)?\b", r"N \1s"),
    (r"\s+", " "),
    # Which counters there are depends on what has happened.
    (r"^counters(?:,? (?:[A-Z]+ (?:done|failed)|[a-z]+) N)+$", "counters COUNTS"),
    # Of tables, cells that may be empty, and of events, parts that may be missing.
    (r"(?<=ADDRESS )(?:POD|-|api|fixed)(?= LINK)", "POD"),
    (r"^(TIME [A-Z]+ ATTACHMENT)(?: POD)?( LENGTH)?(?: by PROCESS)?", r"\1\2"),
)
_PATTERNS = tuple((re.compile(pattern), instead) for pattern, instead in _VALUES)


class Sample(NamedTuple):
    """A command as it is shown, and the lines below it. `name` is the command's, as in `journal verify`.

    `is_whole`: nothing of the output is left out.
    """

    page: Path
    line: str
    name: str
    output: tuple[str, ...]
    is_whole: bool

    def __str__(self) -> str:
        return f"{self.page.name}: {self.line}"


def shape(line: str) -> str:
    """The words of a line.

    >>> shape("agent    started    process 29398 at /run/netloom/agent.sock")
    'agent started process N at PATH'
    >>> shape("2026-11-16 13:51:33.010  DEL      netloom/48435d2f0186/eth0  3.6 ms  by netloom[20684]")
    'TIME DEL ATTACHMENT LENGTH by PROCESS'
    """
    for pattern, instead in _PATTERNS:
        line = pattern.sub(instead, line)
    return line.strip()


def shapes(lines: Iterable[str]) -> tuple[str, ...]:
    """Of a whole output: rows of one shape count once, however many there are."""
    return tuple(it for it, _ in groupby(filter(None, map(shape, lines))))


def samples(page: Path) -> Iterator[Sample]:
    """Of every command of netloom that a page shows with its output."""
    for block in _BLOCK.findall(page.read_text()):
        line, output = "", list[str]()
        for text in [*block.splitlines(), "$ "]:
            if not text.startswith("$ "):
                output.append(text)
                continue
            found = _sample(page, line, output)
            if found is not None:
                yield found
            line, output = text.removeprefix("$ "), []


def _sample(page: Path, line: str, output: list[str]) -> Sample | None:
    shown = tuple(it for it in output if it.strip() and not it.strip().startswith(_LEFT_OUT))
    is_whole = not any(it.strip().startswith(_LEFT_OUT) for it in output)
    # Of several commands in one line, the last one is what prints.
    words = line.rpartition(";")[2].split()
    if not shown or not words:
        return None
    if words[0] == "tail":
        return Sample(page, line, "tail", shown, False)
    if words[0] != "netloom" or _REST.sub("", line) != line:
        return None
    return Sample(page, line, name_of(words[1:]), shown, is_whole)


def name_of(words: list[str]) -> str:
    """A group's commands have two words."""
    return " ".join(words[: 2 if words[0] in ("cni", "journal", "plan") else 1])
