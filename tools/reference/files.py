"""All files of the reference, as the code defines them now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netloom.api.catalogue import ENTRIES
from netloom.cli.failure import OfCommand, OfPlugin
from netloom.cli.kernel_failure import OfKernel

from .command_page import command_page
from .commands import commands
from .error_page import error_page
from .grammar import grammar
from .indexes import commands_index, errors_index, exits_index, keys_index, metrics_index
from .key_page import key_page, keys
from .metric_page import metric_page, metrics
from .page import Page, read
from .schemas import schema_of, written

ROOT = Path(__file__).resolve().parent.parent.parent

# With --json, the output on standard error of a failed command; no command has this name.
ERROR = "error"


def schemas(root: Path) -> dict[Path, dict[str, Any]]:
    of_errors = schema_of(OfCommand | OfPlugin | OfKernel, "an error of netloom")
    return {root / "docs" / "schemas" / f"{ERROR}.json": of_errors} | {
        root / "docs" / "schemas" / f"{it.name}.json": schema_of(it.output, f"netloom {it.words}")
        for it in commands()
        if it.output is not None
    }


def current(root: Path) -> dict[Path, str]:
    """Returns the files by path. Hand-written parts of existing pages are kept."""
    reference = root / "docs" / "reference"
    listed = list(commands())
    command_pages = {
        it.name: command_page(
            it,
            [other for other in listed if len(other.path) > 1 and other.path[0] == it.path[0]],
            _before(reference / "commands" / f"{it.name}.md"),
        )
        for it in listed
    }
    key_pages = {it.name: key_page(it, _before(reference / "keys" / f"{it.name}.md")) for it in keys()}
    files = {path: written(schema) for path, schema in schemas(root).items()}
    files |= {reference / "commands" / f"{name}.md": text for name, text in command_pages.items()}
    files |= {reference / "keys" / f"{name}.md": text for name, text in key_pages.items()}
    for code, entry in ENTRIES.items():
        path = reference / "errors" / f"{code}.md"
        files[path] = error_page(entry, _before(path))
    for metric in metrics():
        path = reference / "metrics" / f"{metric.name}.md"
        files[path] = metric_page(metric, _before(path))
    return files | {
        root / "netloom" / "cli" / "grammar.json": grammar(listed),
        reference / "cli.md": commands_index(listed, _before(reference / "cli.md")),
        reference / "network.md": keys_index(keys(), key_pages, _before(reference / "network.md")),
        reference / "errors.md": errors_index(_before(reference / "errors.md")),
        reference / "metrics.md": metrics_index(_before(reference / "metrics.md")),
        reference / "exit-status.md": exits_index(
            listed, command_pages, _before(reference / "exit-status.md")
        ),
    }


def _before(path: Path) -> Page | None:
    return read(path.read_text()) if path.exists() else None
