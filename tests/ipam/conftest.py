from __future__ import annotations

from collections.abc import Iterator

import pytest

from .book import Book


@pytest.fixture
def book() -> Iterator[Book]:
    made = Book()
    yield made
    made.connection.close()
