"""The log's lines, and its calm: nothing is said over and over, and nothing is lost without a count."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest

from netloom.agent.log import HumanLines, JsonLines, RateLimitedHandler
from netloom.agent.server.caller import about, begin
from netloom.agent.verbs.errors import explained
from netloom.cni import AttachmentKey, InvalidConfig

from ..fixtures.node import eventually

pytestmark = pytest.mark.unit

KEY = AttachmentKey("net", "c1", "eth0")
SECRET = "hunter2"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    """A logger of its own, and what it has written."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.clock = Clock()
        self._stream = io.StringIO()
        self.handler = RateLimitedHandler(self._stream, window=60, alike=5, clock=self.clock)
        self.handler.setFormatter(formatter)
        self.logger = logging.Logger("test")
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


def logging_with(formatter: logging.Formatter) -> Iterator[Log]:
    log = Log(formatter)
    yield log
    log.handler.close()


@pytest.fixture
def plain() -> Iterator[Log]:
    yield from logging_with(logging.Formatter("%(message)s"))


@pytest.fixture
def human() -> Iterator[Log]:
    yield from logging_with(HumanLines("%(levelname)s %(message)s"))


@pytest.fixture
def structured() -> Iterator[Log]:
    yield from logging_with(JsonLines())


def test_the_same_is_said_once_and_then_how_often_it_was_not(plain: Log) -> None:
    for _ in range(1000):
        plain.logger.error("the disk %s failed", "a")
        plain.clock.now += 0.01
    assert plain.lines == ["the disk a failed"]
    plain.clock.now = 61
    plain.logger.error("the disk %s failed", "a")
    assert plain.lines[1:] == ["999 more lines like this within 61 s: the disk a failed", "the disk a failed"]


def test_what_is_alike_is_said_some_times(plain: Log) -> None:
    for number in range(20):
        plain.logger.error("ADD of %d failed", number)
    assert plain.lines == [f"ADD of {number} failed" for number in range(5)]
    plain.handler.close()
    assert plain.lines[5:] == ["15 more lines like this within 0 s: ADD of 19 failed"]


def test_what_is_not_alike_is_said_whatever_else_is(plain: Log) -> None:
    for number in range(100):
        plain.logger.error("ADD of %d failed", number)
    plain.logger.error("something else")
    assert plain.lines[-1] == "something else"


def test_the_count_is_said_though_nothing_else_ever_is() -> None:
    stream = io.StringIO()
    handler = RateLimitedHandler(stream, window=0.5)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error("again")
    logger.error("again")
    assert eventually(lambda: len(stream.getvalue().splitlines()) == 2)
    assert stream.getvalue().splitlines()[1].startswith("1 more lines like this")


def test_the_same_words_of_another_error_are_not_the_same(plain: Log) -> None:
    for number in (1, 2):
        try:
            raise OSError(number, "no")
        except OSError:
            plain.logger.exception("a part of the work failed")
    assert sum(line == "a part of the work failed" for line in plain.lines) == 2


def test_a_line_has_the_attachment_in_fields(structured: Log) -> None:
    structured.logger.warning("it lost %s", "a route", extra=about(KEY, TRACE))
    (line,) = structured.documents
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning", "message": "it lost a route", "network": "net", "container_id": "c1",
        "ifname": "eth0", "trace": TRACE,
    }  # fmt: skip


def test_a_line_without_an_attachment_has_no_such_fields(structured: Log) -> None:
    structured.logger.info("ready")
    (line,) = structured.documents
    assert set(line) == {"time", "level", "message"}


def in_a_request(work: Callable[[], None], key: AttachmentKey = KEY) -> None:
    def run() -> None:
        begin("ADD", key, TRACE)
        work()

    copy_context().run(run)


def test_whatever_is_said_on_the_way_of_a_request_is_about_it(structured: Log, human: Log) -> None:
    in_a_request(lambda: structured.logger.info("the table was laid down"))
    (line,) = structured.documents
    assert (line["verb"], line["container_id"], line["trace"]) == ("ADD", "c1", TRACE)
    in_a_request(lambda: human.logger.info("the table was laid down"))
    in_a_request(lambda: human.logger.info("%s is attached", KEY))
    assert human.lines == [
        f"INFO the table was laid down [net/c1/eth0] trace={TRACE}",
        f"INFO net/c1/eth0 is attached trace={TRACE}",
    ]


def test_nothing_in_a_line_ends_it_or_steers_a_terminal(human: Log, structured: Log) -> None:
    bad = AttachmentKey("", "c\n\x1b[2J" + "x" * 5000, "\udcff")
    for log in (human, structured):
        in_a_request(lambda log=log: log.logger.error("bad: %s", "a\nb\x1b[31m\udcff"), bad)  # type: ignore[misc]
        assert len(log.lines) == 1
        assert "\x1b" not in log.lines[0]
        assert len(log.lines[0]) < 1000


def fail(log: Log, error: Exception) -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as cause:
            raise error from cause
    except Exception as failure:
        told = explained(failure, KEY)
        log.logger.error("%s", told.discreet, exc_info=failure)


@pytest.mark.parametrize("kind", [HumanLines, JsonLines])
def test_of_an_error_on_the_way_of_a_request_it_is_said_where_and_not_with_which_value(
    kind: type[logging.Formatter],
) -> None:
    log = Log(kind())
    in_a_request(lambda: fail(log, ValueError(f"{SECRET} is no number")))
    in_a_request(lambda: fail(log, InvalidConfig(f"mtu is {SECRET}", discreet="mtu is a string")))
    text = "\n".join(log.lines)
    assert SECRET not in text
    assert "builtins.ValueError" in text
    assert "mtu is a string" in text
    assert "in fail" in text


def test_of_an_error_of_the_agents_own_work_it_is_said_with_which_value(structured: Log) -> None:
    fail(structured, ValueError("42 is no number"))
    (line,) = structured.documents
    assert "ValueError: 42 is no number" in line["traceback"]


class FullDisk(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_disk_that_takes_no_more_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger = logging.Logger("test")
    logger.addHandler(RateLimitedHandler(FullDisk()))
    logger.error("one")
