"""What the plugin answers without an agent, and what it is as a file."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from netloom.cni.versions import ALL

from ..fixtures.plugin import SLACK, Plugin, Request

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("command", [None, ""])
def test_s1_without_a_command_it_says_what_it_is(plugin: Plugin, command: str | None) -> None:
    answer = plugin(command)
    assert (answer.status, answer.stdout) == (0, b"")
    about, versions = answer.stderr.decode().splitlines()
    assert "netloom" in about
    assert versions == f"CNI protocol versions supported: {', '.join(ALL)}"


def test_s3_version_is_told_with_a_closed_stdin(plugin: Plugin) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" <&-', *plugin.command],
        env=plugin.environment("VERSION"),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"cniVersion": "1.1.0", "supportedVersions": list(ALL)}
    assert done.stderr == b""


def test_version_is_told_while_stdin_stays_open(plugin: Plugin) -> None:
    running = plugin.start("VERSION")
    assert running.wait(timeout=SLACK) == 0
    running.communicate()


def test_it_needs_no_library_of_the_machine(executable: Path) -> None:
    headers = subprocess.run(["readelf", "--program-headers", executable], capture_output=True, check=True)
    assert b"LOAD" in headers.stdout
    assert b"INTERP" not in headers.stdout
    assert b"DYNAMIC" not in headers.stdout


@pytest.mark.parametrize("deadline", ["", "2", "0.25", ".5", "5.", "86400"])
def test_a_deadline_is_a_number_of_seconds(plugin: Plugin, deadline: str) -> None:
    assert plugin("ADD", NETLOOM_DEADLINE=deadline).error["code"] == 11


@pytest.mark.parametrize("deadline", ["5s", "-1", "0", "0.0004", "1e3", " 1", ".", "9" * 30, "86401"])
def test_another_deadline_is_refused_but_does_not_keep_a_del_from_working(
    plugin: Plugin, deadline: str
) -> None:
    error = plugin("ADD", NETLOOM_DEADLINE=deadline).error
    assert (error["code"], error["msg"]) == (4, "NETLOOM_DEADLINE is not a number of seconds")
    assert plugin("DEL", NETLOOM_DEADLINE=deadline).is_silent_success


@pytest.mark.parametrize("path", ["agent.sock", "/" + "x" * 107, "/" + "x" * 100_000])
@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_path_that_no_socket_can_have_is_refused(plugin: Plugin, command: str, path: str) -> None:
    error = plugin(command, NETLOOM_SOCKET=path).error
    assert (error["code"], error["msg"]) == (4, "NETLOOM_SOCKET is not the path of a socket")
    assert "108 bytes" in error["details"]


def test_the_longest_path_that_a_socket_can_have_is_taken(plugin: Plugin) -> None:
    path = "/" + "x" * 106
    assert path in plugin("ADD", NETLOOM_SOCKET=path).error["msg"]


@pytest.mark.parametrize(
    ("config", "version"),
    [
        (b'{"cniVersion":"0.4.0","name":"n"}', "0.4.0"),
        (b' {\n"name" : "n" ,\t"cniVersion" : "1.0.0-rc1" } ', "1.0.0-rc1"),
        (b'{"a":{"cniVersion":"0.1.0"},"b":["cniVersion","0.2.0"],"cniVersion":"0.3.1"}', "0.3.1"),
        (b'{"a":"\\"cniVersion\\":\\"0.1.0\\",","b":"\\\\","cniVersion":"0.3.1"}', "0.3.1"),
        (b'{"a":"}","b":[1,-2.5e3,true,null,{}],"cniVersion":"0.3.1"}', "0.3.1"),
        (b'{"cniVersion":"0.3.0","cniVersion":"0.3.1"}', "0.3.1"),
        (b'{"plugins":[{"cniVersion":"0.3.1"}]}', "1.1.0"),
        (b'["cniVersion","0.3.1"]', "1.1.0"),
        (b'{"cniVersion":3,"name":"n"}', "1.1.0"),
        (b'{"cniVersion":"","name":"n"}', "1.1.0"),
        (b'{"cniVersion":"0.3.1', "1.1.0"),
        (b'{"cniVersion', "1.1.0"),
        (b'{"cniVersion":"a secret, no version"}', "1.1.0"),
        (b'{"cniVersion":"' + b"1" * 64 + b'"}', "1.1.0"),
        (b'{"cniVersion":"0.\\u0033.1"}', "1.1.0"),
        (b"", "1.1.0"),
        (b"{", "1.1.0"),
        (b"{" * 100_000, "1.1.0"),
        (b'{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b',"cniVersion":"0.3.1"}', "0.3.1"),
        (b"\0" * 10, "1.1.0"),
        (b'{"a":"\\', "1.1.0"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_an_error_is_in_the_version_of_the_config(plugin: Plugin, config: bytes, version: str) -> None:
    assert plugin("ADD", config).error["cniVersion"] == version


def test_nothing_else_of_the_config_is_ever_printed(plugin: Plugin) -> None:
    answer = plugin("ADD", b'{"cniVersion":"1.1.0","name":"n","token":"hunter2"}')
    assert answer.error["code"] == 11
    assert b"hunter2" not in answer.stdout + answer.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["", "VERSION", "ADD", "DEL", "STATUS"])
def test_it_ends_sanely_with_standard_descriptors_closed(plugin: Plugin, command: str, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" {closed}', *plugin.command],
        env=plugin.environment(command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    succeeds = command in ("", "DEL") or (command == "VERSION" and ">&-" not in closed.replace("2>&-", ""))
    assert done.returncode == (0 if succeeds else 1)
    if command in ("ADD", "STATUS") and closed in ("<&-", "2>&-"):
        assert json.loads(done.stdout)["code"] in ((5,) if closed == "<&-" else (11, 50))


def test_an_intent_is_whole_with_every_standard_descriptor_closed(plugin: Plugin) -> None:
    closed = ["sh", "-c", 'exec "$0" <&- >&- 2>&-', *plugin.command]
    subprocess.run(closed, env=plugin.environment("DEL"), check=True)
    (intent,) = plugin.queued
    assert Request(intent.read_bytes(), []).body == b""


def test_a_closed_stdout_is_a_failure(plugin: Plugin) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    for command in ("VERSION", "ADD"):
        with subprocess.Popen(
            plugin.command, stdin=subprocess.DEVNULL, stdout=writing, env=plugin.environment(command)
        ) as running:
            assert running.wait(timeout=SLACK) == 1
    os.close(writing)


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE], ids=["in time", "when it is up"])
def test_a_full_stdout_ends_the_run_at_its_deadline(plugin: Plugin, stdin: int) -> None:
    """A stdin that never ends has used the time up before anything is printed."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)
    environment = plugin.environment("ADD", NETLOOM_DEADLINE="0.2")
    with subprocess.Popen(plugin.command, stdin=stdin, stdout=writing, env=environment) as running:
        try:
            assert running.wait(timeout=0.2 + SLACK) == 1
        finally:
            running.kill()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("command", ["ADD", "DEL", "STATUS"])
def test_a_stdin_that_never_ends_is_an_error_at_the_deadline(plugin: Plugin, command: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"cniVersion":"1.1.0"')
    running = plugin.start(command, reading, NETLOOM_DEADLINE="0.2")
    document = json.loads(running.communicate(timeout=0.2 + SLACK)[0])
    os.close(reading)
    os.close(writing)
    assert running.returncode == 1
    assert (document["code"], document["msg"]) == (5, "stdin did not end within 0.2 s")


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_config_beyond_16_mib_is_refused(plugin: Plugin, command: str) -> None:
    error = plugin(command, b" " * (100 << 20)).error
    assert (error["code"], error["msg"]) == (6, "the network config on stdin is larger than 16 MiB")
    assert plugin.queued == []


def test_an_unreadable_stdin_fails_but_does_not_keep_a_del_from_working(plugin: Plugin) -> None:
    def run(command: str) -> subprocess.CompletedProcess[bytes]:
        directory = os.open("/", os.O_RDONLY)
        environment = plugin.environment(command)
        try:
            return subprocess.run(
                plugin.command, stdin=directory, env=environment, capture_output=True, check=False
            )
        finally:
            os.close(directory)

    document = json.loads(run("ADD").stdout)
    assert (document["code"], document["msg"]) == (5, "error reading from stdin: Is a directory")
    assert (run("DEL").returncode, run("DEL").stdout) == (0, b"")
