"""The house stays easy to find one's way in: short files, small folders, and not too many of either."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

_ROOT = Path(__file__).parent.parent / "netloom"

LINES = 500
MODULES = 24
FILES = 350


def modules() -> list[Path]:
    return sorted(path for path in _ROOT.rglob("*.py") if "_plugin" not in path.parts)


def test_no_module_is_too_long_to_read_at_once() -> None:
    long = {
        path.relative_to(_ROOT).as_posix(): count
        for path in modules()
        if (count := len(path.read_text().splitlines())) > LINES
    }

    assert long == {}


def test_no_folder_has_too_many_modules_side_by_side() -> None:
    folders = Counter(path.parent.relative_to(_ROOT).as_posix() for path in modules())

    full = {name: count for name, count in folders.items() if count > MODULES}
    assert full == {}


def test_netloom_has_no_more_modules_than_a_reader_can_know() -> None:
    assert len(modules()) <= FILES
