"""The index pages: commands, keys, errors, and exit statuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from netloom.api.catalogue import ENTRIES
from netloom.cli.tree import TREE, Group

from . import error_page, metric_page
from .commands import Described
from .key_page import Key
from .markdown import sentence, table
from .page import Page, Part, merged, read

# A page of exit statuses lists a command's own ones; those of all commands are listed above.
_SAID_ALREADY = ("0", "2")
_AREAS = {"cni": "Numbers", "command": "Commands", "finding": "Findings", "kernel": "Kernel objects"}


def commands_index(commands: Sequence[Described], before: Page | None) -> str:
    body = []
    groups = {word: node.summary for word, node in TREE.items() if isinstance(node, Group)}
    for group in ("", *groups):
        members = [it for it in commands if (it.path[0] if len(it.path) > 1 else "") == group]
        rows = [(f"[`netloom {it.words}`](commands/{it.name}.md)", it.summary) for it in members]
        heading = [f"### netloom {group}", f"{sentence(groups[group])}"] if group else []
        body += [*heading, table(["command", "what it does"], rows)]
    return _index(before, [Part("Commands", "\n\n".join(body))])


def keys_index(keys: Sequence[Key], pages: Mapping[str, str], before: Page | None) -> str:
    rows = [
        (f"[`{it.name}`](keys/{it.name}.md)", _below(it.default), read(pages[it.name]).lead) for it in keys
    ]
    return _index(before, [Part("Keys", table(["key", "default", "meaning"], rows))])


def _below(default: str) -> str:
    """Rewrites a page's description for the folder above."""
    return default.replace("(#", "(keys/defaultRoute.md#").replace("see [below]", "[see there]")


def errors_index(before: Page | None) -> str:
    body = []
    for area, heading in _AREAS.items():
        found = [it for it in ENTRIES.values() if it.area == area]
        body += [f"### {heading}", f"{sentence(error_page.AREAS[area])}", error_page.rows(found)]
    return _index(before, [Part("All codes", "\n\n".join(body))])


def metrics_index(before: Page | None) -> str:
    return _index(before, [Part("All metrics", metric_page.rows())])


def exits_index(commands: Sequence[Described], pages: Mapping[str, str], before: Page | None) -> str:
    rows = []
    for command in commands:
        said = next((it.body for it in read(pages[command.name]).sections if it.heading == "Exit status"), "")
        for status, when in exit_rows(said):
            if status not in _SAID_ALREADY:
                rows.append((f"[`{command.words}`](commands/{command.name}.md)", status, _from_above(when)))
    return _index(before, [Part("By command", table(["command", "status", "when"], rows))])


def _from_above(text: str) -> str:
    """Rewrites the links of a command's page for the folder above it."""
    return re.sub(r"\]\((\.\./)?([^):]*)\)", lambda it: f"]({'' if it[1] else 'commands/'}{it[2]})", text)


def exit_rows(body: str) -> list[tuple[str, str]]:
    """Returns the statuses of a table with their meanings."""
    found = re.findall(r"^\| ([0-9, ]+) \| (.*) \|$", body, re.MULTILINE)
    return [(status.strip(), when.strip()) for status, when in found]


def _index(before: Page | None, parts: Sequence[Part]) -> str:
    """The title and introduction of an index page are written by hand."""
    page = before or Page("", "", ())
    return merged(page, page.title, page.lead, parts)
