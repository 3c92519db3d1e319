"""Sentences are for people: no code compares, searches or splits the text of an error or of a finding."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1] / "netloom"
# Other programs' plugins say in text alone what went wrong. One of CNI 0.1.0 says in these words that it does
# not know VERSION, and libcni compares them, too.
SPOKEN = {
    "cni/exec.py": "error.msg == 'unknown CNI_COMMAND: VERSION'",
    "cli/failure.py": "words.search(said)",
}
# Fields of errors, findings, operations and log records that people read.
PROSE = {"text", "msg", "message", "details", "discreet", "why", "remedy", "advice", "headline"}
# Methods of a string that look into it.
LOOKS = {
    "startswith", "endswith", "partition", "rpartition", "split", "rsplit", "find", "rfind", "index",
    "count", "removeprefix", "removesuffix",
}  # fmt: skip
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "split", "sub"}


def is_prose(node: ast.expr, caught: set[str]) -> bool:
    """Whether an expression is the text of an exception that was caught, or a field of `PROSE`."""
    match node:
        case ast.Name(id=name):
            return f"text of {name}" in caught
        case ast.Attribute(attr=attr):
            return attr in PROSE
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]):
            return name in caught
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "strip" | "casefold")):
            return is_prose(value, caught)
        case ast.JoinedStr(values=values):
            shown = [it.value for it in values if isinstance(it, ast.FormattedValue)]
            return any(is_prose(it, caught) or (isinstance(it, ast.Name) and it.id in caught) for it in shown)
    return False


def violations(tree: ast.AST) -> Iterator[ast.expr]:
    caught = {it.name for it in ast.walk(tree) if isinstance(it, ast.ExceptHandler) and it.name}
    caught |= {
        it.arg
        for it in ast.walk(tree)
        if isinstance(it, ast.arg)
        and it.annotation is not None
        and ast.unparse(it.annotation).rpartition(".")[2].endswith(("Error", "Exception", "Failed"))
    }
    caught |= {f"text of {name}" for name in names_of_prose(tree, caught)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                if is_prose(right, caught) or (is_prose(left, caught) and isinstance(right, ast.Constant)):
                    yield node
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                pair = ((left, right), (right, left))
                if any(is_prose(one, caught) and is_written(other) for one, other in pair):
                    yield node
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in LOOKS:
                if is_prose(value, caught):
                    yield node
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in PATTERNS:
                if any(is_prose(it, caught) for it in args):
                    yield node
            case ast.Match(subject=subject):
                if is_prose(subject, caught):
                    yield subject


def names_of_prose(tree: ast.AST, caught: set[str]) -> Iterator[str]:
    """Variables to which such an expression is assigned, alone or among others."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                if is_prose(value, caught):
                    yield name
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name) and is_prose(value, caught):
                        yield target.id


def is_written(node: ast.expr) -> bool:
    """Whether it is text of the source: a literal that says something, or a constant's name."""
    match node:
        case ast.Constant(value=str(value)):
            return value != ""
        case ast.Name(id=name):
            return name.lstrip("_").isupper()
    return False


def test_no_code_reads_what_people_read() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(ROOT.rglob("*.py"))
        for node in violations(ast.parse(path.read_text()))
        if SPOKEN.get(str(path.relative_to(ROOT))) != ast.unparse(node)
    ]
    assert found == []


CAUGHT = "try: pass\nexcept ValueError as error:\n    "


@pytest.mark.parametrize(
    "source",
    [
        f"{CAUGHT}x = 'sysctl' in str(error)",
        f"{CAUGHT}x = str(error) == 'no question'",
        f"{CAUGHT}x = str(error).partition(': ')",
        f"{CAUGHT}x = NO_QUESTION in str(error).lower()",
        f"{CAUGHT}x = re.search('sysctl', str(error))",
        "def f(error: KernelError) -> None: return str(error).startswith('sysctl')",
        "x = READY in finding.text",
        "x = 'handing over' in it.details",
        "x = finding.text != EXHAUSTED",
        "x = _PATTERN.fullmatch(it.details)",
        "match finding.text:\n    case 'x': pass",
        "def f(error: CNIError) -> None:\n    n, said = 1, str(error)\n    return words.search(said)",
        f"{CAUGHT}said = f'{{error}}, {{error.stderr}}'\n    x = words.search(said)",
        f"{CAUGHT}said = str(error)\n    x = 'sysctl' in said",
    ],
)
def test_reading_it_is_noticed(source: str) -> None:
    assert len(list(violations(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        f"{CAUGHT}x = str(error) != told",
        f"{CAUGHT}x = f'{{path}}: {{error}}'",
        "x = finding.code in EFFECTS",
        "x = finding.text or 'nothing'",
        "x = it.details == ''",
        "x = line.partition(': ')",
    ],
)
def test_showing_it_is_not(source: str) -> None:
    assert list(violations(ast.parse(source))) == []
