"""Each part of the agent's state has one owner: code elsewhere calls its methods, and assigns to nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import netloom.agent

pytestmark = pytest.mark.unit

AGENT = Path(netloom.agent.__file__).parent
# The names under which modules hold the node.
NODE = {"node", "_node"}


def assigned(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                found = targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                found = [target]
            case _:
                continue
        for it in found:
            yield from it.elts if isinstance(it, ast.Tuple | ast.List) else [it]


def names_in(target: ast.expr) -> set[str]:
    """Those that lead to what is assigned to: of `self._node.host.mtu`, `self`, `_node` and `host`."""
    names = set()
    inner: ast.expr = target
    while isinstance(inner, ast.Attribute | ast.Subscript):
        inner = inner.value
        if isinstance(inner, ast.Attribute):
            names.add(inner.attr)
    return names | ({inner.id} if isinstance(inner, ast.Name) and inner is not target else set())


def changes(source: str) -> list[str]:
    return [ast.unparse(it) for it in assigned(ast.parse(source)) if names_in(it) & NODE]


def test_no_module_assigns_to_an_attribute_of_the_node_or_of_its_parts() -> None:
    found = {str(it.relative_to(AGENT)): changes(it.read_text()) for it in sorted(AGENT.rglob("*.py"))}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "node.ticked = 1",
        "self._node.host.mtu = 1500",
        "node.counters['ADD'] += 1",
        "started, node.tally = 1, 2",
        "del node.conditions['web']",
    ],
)
def test_a_change_from_outside_is_recognised(source: str) -> None:
    assert len(changes(source)) == 1


@pytest.mark.parametrize(
    "source", ["node = Node()", "self._node = node", "host = node.host", "self._looks -= 1"]
)
def test_what_an_owner_does_is_no_such_change(source: str) -> None:
    assert changes(source) == []
