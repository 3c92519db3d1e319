"""The agent's answer, word for word; and what is said when there is none."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack
from functools import partial

import pytest

from ..fixtures.plugin import BODY_MAX, CONFIG, DEADLINE, SLACK, FarEnd, Plugin, receive, reply
from ..fixtures.stdin import ready
from .conftest import Listen
from .trouble import BROKEN, FOREIGN, GONE, SILENT, TROUBLES, fill

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65536, 1 << 20, BODY_MAX])
def test_an_answer_is_printed_as_it_came(plugin: Plugin, far_end: FarEnd, size: int) -> None:
    output = os.urandom(size)
    far_end.answer = reply(output)
    answer = plugin("ADD")
    assert (answer.status, answer.stderr) == (0, b"")
    assert answer.stdout == output


@pytest.mark.parametrize("status", [0, 1, 2, 127, 255])
@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_the_exit_status_is_the_agents(plugin: Plugin, far_end: FarEnd, command: str, status: int) -> None:
    far_end.answer = reply(b"out", status)
    answer = plugin(command)
    assert (answer.status, answer.stdout) == (status, b"out")
    assert plugin.queued == []


def test_an_answer_may_come_byte_by_byte(plugin: Plugin, listen: Listen) -> None:
    def answer(connection: socket.socket) -> None:
        receive(connection)
        for byte in reply(b"slowly", 3):
            connection.sendall(bytes((byte,)))

    listen(answer)
    done = plugin("ADD")
    assert (done.status, done.stdout) == (3, b"slowly")


def test_an_answer_that_comes_before_the_request_was_read_is_printed(plugin: Plugin, listen: Listen) -> None:
    listen(lambda connection: connection.sendall(reply(b"too busy", 1)))
    for size in (0, BODY_MAX):
        done = plugin("ADD", bytes(size))
        assert (done.status, done.stdout) == (1, b"too busy")


def test_descriptors_in_an_answer_do_not_disturb(plugin: Plugin, listen: Listen) -> None:
    def answer(connection: socket.socket) -> None:
        receive(connection)
        socket.send_fds(connection, [reply(b"ok")], [0, 1, 2])

    listen(answer)
    assert plugin("ADD").stdout == b"ok"


def test_a_reader_who_is_slow_but_reads_gets_a_large_answer(plugin: Plugin, far_end: FarEnd) -> None:
    output = os.urandom(1 << 20)
    far_end.answer = reply(output)
    running = plugin.start("ADD")
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(CONFIG)
    running.stdin.close()
    read = bytearray()
    while chunk := os.read(running.stdout.fileno(), 1000):
        read += chunk
    assert read == output
    assert running.wait(timeout=SLACK) == 0
    running.stdout.close()
    assert running.stderr is not None
    running.stderr.close()


def test_a_reader_who_stops_reading_ends_the_run_at_its_deadline(plugin: Plugin, far_end: FarEnd) -> None:
    far_end.answer = reply(bytes(1 << 20))
    with ready(CONFIG) as stdin:
        running = plugin.start("ADD", stdin, **DEADLINE)
    assert running.wait(timeout=0.2 + SLACK) == 1
    running.communicate()


@pytest.mark.parametrize("name", TROUBLES)
def test_without_an_answer_a_request_fails_with_a_sentence_and_a_next_step(plugin: Plugin, name: str) -> None:
    with TROUBLES[name](plugin):
        for command, code in (("ADD", 11), ("CHECK", 11), ("GC", 11), ("NOPE", 11), ("STATUS", 50)):
            if name in SILENT and command in ("CHECK", "GC"):
                continue  # each would wait
            answer = plugin(command, **(DEADLINE if name in SILENT else {}))
            assert answer.error["code"] == code
            assert str(plugin.socket) in answer.error["msg"]
            assert answer.error["cniVersion"] == "1.0.0"
            assert answer.seconds < 0.2 + SLACK
    assert not plugin.intents.exists()


@pytest.mark.parametrize("name", GONE)
def test_an_agent_that_is_not_there_is_told_at_once(plugin: Plugin, name: str) -> None:
    with GONE[name](plugin):
        answer = plugin("ADD")
    assert answer.error["msg"].startswith(f"the netloom agent cannot be reached at {plugin.socket}: ")
    assert "`netloom up`" in answer.error["details"]
    assert answer.seconds < SLACK


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("size", [100, BODY_MAX], ids=["small", "large"])
def test_an_agent_that_is_silent_is_told_with_the_time(plugin: Plugin, name: str, size: int) -> None:
    with SILENT[name](plugin):
        answer = plugin("ADD", bytes(size), **DEADLINE)
    assert answer.error["msg"] == f"the netloom agent at {plugin.socket} did not answer within 0.2 s"
    assert answer.seconds > 0.2


@pytest.mark.parametrize("name", BROKEN)
def test_an_agent_that_breaks_off_is_told_at_once(plugin: Plugin, name: str) -> None:
    with BROKEN[name](plugin):
        answer = plugin("ADD")
    said = f"the netloom agent at {plugin.socket} closed the connection before it had answered"
    assert answer.error["msg"] == said
    assert answer.seconds < SLACK


@pytest.mark.parametrize("name", FOREIGN)
def test_an_answer_that_is_not_of_the_protocol_is_told_at_once(plugin: Plugin, name: str) -> None:
    with FOREIGN[name](plugin):
        answer = plugin("ADD")
    said = f"the netloom agent at {plugin.socket} gave an answer that is not of this protocol"
    assert answer.error["msg"] == said
    assert answer.seconds < SLACK


def read_only(count: int, connection: socket.socket) -> None:
    connection.recv(count)


def test_an_agent_that_closes_after_any_byte_of_the_request_is_told(plugin: Plugin, listen: Listen) -> None:
    far_end = listen()
    for count in range(200):
        far_end.answer = partial(read_only, count)
        assert plugin("ADD").error["msg"].endswith("closed the connection before it had answered")


def test_an_agent_that_closes_after_any_byte_of_its_answer_is_told(plugin: Plugin, listen: Listen) -> None:
    whole = reply(b'{"cniVersion":"1.1.0"}')
    far_end = listen()
    for count in range(len(whole)):
        far_end.answer = whole[:count]
        assert plugin("ADD").error["msg"].endswith("closed the connection before it had answered")
        assert plugin("DEL").is_silent_success
    far_end.answer = whole
    assert plugin("ADD").status == 0


def test_a_full_queue_is_waited_for(plugin: Plugin) -> None:
    with ExitStack() as waiting, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(plugin.socket))
        listener.listen(0)
        listener.settimeout(20)
        count = fill(plugin.socket, waiting)
        with ready(CONFIG) as stdin:
            running = plugin.start("ADD", stdin)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=0.1)
        for _ in range(count):
            listener.accept()[0].close()
        with listener.accept()[0] as connection:
            receive(connection)
            connection.sendall(reply(b"at last"))
        assert running.communicate(timeout=SLACK)[0] == b"at last"
