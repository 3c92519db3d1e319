"""Seconds that a command is given: what is none is told with what is wrong with it."""

from __future__ import annotations

import pytest

from ..fixtures.cli import Cli

pytestmark = pytest.mark.unit

COMMANDS = (
    ("cni", "status", "mynet", "--timeout"),
    ("connectivity", "--timeout"),
    ("bundle", "--timeout"),
    ("up", "--timeout"),
    ("down", "--timeout"),
    ("agent", "--grace"),
    ("agent", "--tick"),
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a number of seconds"),
        ("soon", "not a number of seconds"),
        ("nan", "not a number of seconds"),
        ("0", "must be more than 0"),
        ("-1", "must be more than 0"),
        ("-inf", "must be more than 0"),
        ("inf", "must be at most 1000000"),
        ("1e400", "must be at most 1000000"),
        ("9" * 5000, "must be at most 1000000"),
        ("1000001", "must be at most 1000000"),
    ],
)
@pytest.mark.parametrize("words", COMMANDS[:2], ids=" ".join)
def test_what_is_wrong_with_a_time_is_told(cli: Cli, words: tuple[str, ...], text: str, why: str) -> None:
    outcome = cli.run(*words[:-1], f"{words[-1]}={text}", "--json")
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (2, "", "usage")
    assert f"{words[-1]}: " in outcome.error["error"]
    assert why in outcome.error["error"]
    assert len(outcome.error["error"]) < 200


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_takes_a_time_that_never_ends(cli: Cli, words: tuple[str, ...]) -> None:
    outcome = cli.run(*words[:-1], f"{words[-1]}=1e400", "--json")
    assert (outcome.status, "must be at most" in outcome.error["error"]) == (2, True)
