"""What import-linter cannot see: parsed arguments and exit statuses are known in cli/ alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

_ROOT = Path(__file__).parent.parent / "netloom"

# A plugin is a process of its own, whose exit status the CNI specification asks for.
_ENDS_ITS_PROCESS = {"__main__.py", "cni/plugin.py"}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Of every room but cli/, by their paths below netloom/."""
    named = ((it.relative_to(_ROOT).as_posix(), it) for it in sorted(_ROOT.rglob("*.py")))
    return [
        (name, ast.parse(path.read_text()))
        for name, path in named
        if not name.startswith("cli/") and "_plugin" not in path.parts
    ]


def is_name(node: ast.AST, *names: str) -> bool:
    """Whether it is one of these, which have a dot. Looks at the last part first: that is cheap."""
    return (
        isinstance(node, ast.Attribute)
        and any(it.endswith(f".{node.attr}") for it in names)
        and ast.unparse(node) in names
    )


def arguments_of_commands(tree: ast.Module) -> Iterator[ast.AST]:
    """Parsed arguments, by their type or by the name that every command gives them."""
    for node in ast.walk(tree):
        if is_name(node, "argparse.Namespace"):
            yield node
        if isinstance(node, ast.arg) and node.arg == "args" and node.annotation is None:
            yield node


def ends_of_the_process(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if is_name(node, "sys.exit", "os._exit"):
            yield node
        if isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc):
            yield node


def test_no_function_outside_the_command_line_takes_parsed_arguments() -> None:
    assert [name for name, tree in modules() if any(arguments_of_commands(tree))] == []


def test_exit_statuses_are_known_to_the_command_line_alone() -> None:
    found = {
        name
        for name, tree in modules()
        if any(ends_of_the_process(tree))
        or any("exit_status" in ast.unparse(it) for it in ast.walk(tree) if isinstance(it, ast.ImportFrom))
    }

    assert found == _ENDS_ITS_PROCESS
