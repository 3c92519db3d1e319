"""The edition that commands know without the table is the table's."""

from __future__ import annotations

import pytest

from netloom.networks.names import EDITION
from netloom.networks.table import TABLE

pytestmark = pytest.mark.unit


def test_the_edition_is_what_the_table_says_of_itself() -> None:
    """Whoever changes the table writes down here what it says of itself then."""
    assert TABLE.comment == EDITION
