"""Every error and finding that the code can give has a page, and every page is about one that it can give."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from netloom.api.catalogue import ALL, ENTRIES, Entry, entry
from netloom.cni import CNIError

from .lanes import ROOT

pytestmark = pytest.mark.unit

_SOURCES = sorted((ROOT / "netloom").rglob("*.py"))
# What takes the code of a page, and numbers that other plugins may give.
_TAKES = {"CommandFailed", "UsageError", "Finding"}
_GIVEN_BY_OTHERS = {"0", "51"}


def strings() -> set[str]:
    """Every string of the code outside of the catalogue."""
    trees = (ast.parse(path.read_text()) for path in _SOURCES if path.parent.name != "catalogue")
    return {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def codes() -> Iterator[str]:
    # Every run collects this: what gives no code is not taken apart.
    for source in filter(lambda it: "code=" in it, (path.read_text() for path in _SOURCES)):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TAKES:
                for keyword in node.keywords:
                    if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                        yield str(keyword.value.value)


@pytest.mark.parametrize("code", sorted(set(codes())))
def test_every_code_that_is_given_has_a_page(code: str) -> None:
    assert entry(code) is not None


@pytest.mark.parametrize("number", sorted(CNIError.by_code))
def test_every_number_of_the_specification_has_a_page(number: int) -> None:
    assert entry(number) is not None


def test_no_page_is_about_what_cannot_happen() -> None:
    named = strings()
    numbered = {str(number) for number in CNIError.by_code} | {str(number) for number in range(100, 106)}
    assert set(ENTRIES) - named - numbered - _GIVEN_BY_OTHERS == set()


@pytest.mark.parametrize("it", ENTRIES.values(), ids=list(ENTRIES))
def test_a_page_says_what_it_is_what_it_means_and_what_to_do(it: Entry) -> None:
    assert it.title
    assert not it.title.endswith(".")
    assert it.meaning.endswith(".")
    assert it.remedy.endswith(".")


def test_no_code_has_two_pages() -> None:
    assert [code for code, count in Counter(it.code for it in ALL).items() if count > 1] == []
