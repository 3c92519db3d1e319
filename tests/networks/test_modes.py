"""The registry of modes; and that nothing else in netloom knows a particular one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import netloom
from netloom.networks.modes import DEFAULT, UnknownMode, mode_named, mode_names, register
from netloom.networks.modes.base import Mode

pytestmark = pytest.mark.unit

NETLOOM = Path(netloom.__file__).parent
ROOMS = ("agent", "journal", "ops", "cli")
# The registry and the interface.
NEUTRAL = {"", "base"}
# A step between schemas says which mode older attachments have.
MIGRATION = ("journal/schema.py", "_MODES")


def sources() -> list[str]:
    return [str(it.relative_to(NETLOOM)) for room in ROOMS for it in sorted((NETLOOM / room).rglob("*.py"))]


def modules_of_modes(tree: ast.AST) -> Iterator[str]:
    """Those that are imported, without the package: empty for the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and re.search(r"(^|\.)modes(\.|$)", node.module or ""):
            yield (node.module or "").partition("modes")[2].removeprefix(".")
            is_package = (node.module or "").endswith("modes")
            modules = {it.stem for it in (NETLOOM / "networks" / "modes").glob("*.py")}
            yield from (it.name for it in node.names if is_package and it.name in modules)
        elif isinstance(node, ast.Import):
            yield from (it.name.partition("modes.")[2] for it in node.names if "networks.modes" in it.name)


def names_of_modes(tree: ast.AST) -> Iterator[str]:
    """Those that stand in strings, without docstrings, and without the role of a neighbour of that name."""
    allowed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) or (isinstance(node, ast.Compare) and _is_about_roles(node)):
            allowed.update(id(it) for it in ast.walk(node) if not isinstance(it, ast.Call))
    named = re.compile("|".join(rf"\A{it}\Z|'{it}'|\"{it}\"" for it in map(re.escape, mode_names())))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in allowed:
            yield from named.findall(node.value)


def _is_about_roles(node: ast.Compare) -> bool:
    return isinstance(node.left, ast.Attribute) and node.left.attr == "role"


def without_migration(path: str, tree: ast.Module) -> ast.Module:
    if path == MIGRATION[0]:
        tree.body = [
            it
            for it in tree.body
            if not (isinstance(it, ast.Assign) and getattr(it.targets[0], "id", "") == MIGRATION[1])
        ]
    return tree


@pytest.mark.parametrize("path", sources())
def test_no_module_outside_of_networks_knows_a_particular_mode(path: str) -> None:
    tree = without_migration(path, ast.parse((NETLOOM / path).read_text()))

    assert set(modules_of_modes(tree)) <= NEUTRAL
    assert list(names_of_modes(tree)) == []


@pytest.mark.parametrize(
    "source",
    [
        "from ...networks.modes import routed",
        "from ...networks.modes.routed import ROUTED",
        "import netloom.networks.modes.routed",
        "if network.mode == 'routed': pass",
        "query = \"SELECT 1 FROM attachment WHERE mode = 'routed'\"",
    ],
)
def test_what_knows_a_particular_mode_is_recognised(source: str) -> None:
    tree = ast.parse(source)
    assert not set(modules_of_modes(tree)) <= NEUTRAL or list(names_of_modes(tree))


def test_a_mode_is_found_by_its_name() -> None:
    assert mode_named(DEFAULT).name == DEFAULT
    with pytest.raises(UnknownMode, match="'none-such'"):
        mode_named("none-such")


def test_a_name_is_of_one_mode() -> None:
    mode: Mode = mode_named(DEFAULT)
    with pytest.raises(ValueError, match="already"):
        register(mode)
