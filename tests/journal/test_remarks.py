"""What details say to people and to programs alike is read as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netloom.journal.remarks import attached_of, last_sign_of, with_attached, with_last_sign

pytestmark = pytest.mark.unit

MOMENTS = st.floats(0, 4e9)


@given(details=st.text(max_size=50), since=MOMENTS)
def test_what_was_said_of_an_attachment_is_understood(details: str, since: float) -> None:
    found, rest = attached_of(with_attached(details, since))
    assert found == pytest.approx(since, abs=2e-6)
    assert rest == details


@given(details=st.text(max_size=50))
def test_what_says_nothing_of_it_stays_as_it_is(details: str) -> None:
    assert attached_of(details) == (None, details)
    assert last_sign_of(details) is None


@given(alive=MOMENTS)
def test_the_last_sign_of_an_agent_is_understood(alive: float) -> None:
    said = with_last_sign("version 1, process 2; 3 attachments of another boot released", alive)
    assert last_sign_of(said) == pytest.approx(alive, abs=2e-6)


def test_a_line_that_an_earlier_version_wrote_is_understood() -> None:
    said = "v1; the one before it ended without a word, and was last alive at 1970-01-01T00:00:25.000000Z"
    assert last_sign_of(said) == 25.0
