"""What reaches the agent: stdin byte for byte, and the environment as text."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from ..fixtures.plugin import BODY_MAX, CONFIG, ENVIRONMENT, FarEnd, Plugin, receive, reply

pytestmark = pytest.mark.unit


def test_a_request_says_which_protocol_environment_and_time_it_is_of(plugin: Plugin, far_end: FarEnd) -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    plugin("ADD")
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    head = far_end.request.head
    assert before < head.pop("sent") < after
    assert head == {"protocol": 1, "environment": {**ENVIRONMENT, "CNI_COMMAND": "ADD"}, "own_netns": False}
    assert far_end.request.body == CONFIG


def test_variables_of_cni_and_of_tracing_are_passed_on_and_no_others(plugin: Plugin, far_end: FarEnd) -> None:
    given = {
        "CNI_COMMAND": "CHECK",
        "CNI_CONTAINERID": "c",
        "CNI_NETNS": "",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=web",
        "CNI_PATH": "/a:/b",
        "CNI_NETNS_OVERRIDE": "1",
        "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "TRACESTATE": "",
    }
    plugin(given["CNI_COMMAND"], **given, CNI_OTHER="x", SECRET="hunter2")
    assert far_end.request.environment == given


def test_variables_that_are_not_set_are_not_sent(plugin: Plugin, far_end: FarEnd) -> None:
    plugin("GC", CNI_CONTAINERID=None, CNI_IFNAME=None, CNI_PATH=None)
    assert far_end.request.environment == {"CNI_COMMAND": "GC"}


@pytest.mark.parametrize("command", ["ADD", "CHECK", "DEL", "GC", "STATUS", "NOPE", "add", "ADD "])
def test_the_agent_judges_every_command(plugin: Plugin, far_end: FarEnd, command: str) -> None:
    assert plugin(command).status == 0
    assert far_end.request.environment["CNI_COMMAND"] == command


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65536, 65537, BODY_MAX - 1, BODY_MAX])
def test_stdin_arrives_byte_for_byte(plugin: Plugin, far_end: FarEnd, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert plugin.start("ADD").communicate(body, timeout=20) == (b"", b"")
    assert far_end.request.body == body


def test_stdin_may_come_in_several_writes(plugin: Plugin, far_end: FarEnd) -> None:
    pieces = [os.urandom(size) for size in (1, 100_000, 3, 400_000, 500_000)]
    running = plugin.start("ADD")
    assert running.stdin is not None
    for piece in pieces:
        running.stdin.write(piece)
        running.stdin.flush()
        time.sleep(0.01)
    assert running.communicate(timeout=10) == (b"", b"")
    assert far_end.request.body == b"".join(pieces)


@pytest.mark.parametrize(
    "value",
    [
        b'"quotes" and \\backslashes\\',
        bytes(range(1, 32)) + b"\x7f",
        "grüße, 网络, 🧵".encode(),
        b"\xff\xfe latin \xe4\xf6\xfc",
        b"cut off \xf0\x9f\xa7",
        b"overlong \xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf, surrogate \xed\xa0\x80, beyond \xf4\x90\x80\x80",
        b"x" * 102_400,
        b"\x01" * 102_400,
        b"\xff" * 102_400,
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_variable_arrives_as_the_text_that_it_is(plugin: Plugin, far_end: FarEnd, value: bytes) -> None:
    plugin("ADD", CNI_ARGS=value)
    assert far_end.request.environment["CNI_ARGS"] == value.decode("utf-8", "replace")


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_an_environment_that_is_too_large_is_refused(plugin: Plugin, far_end: FarEnd, command: str) -> None:
    error = plugin(command, CNI_ARGS=b"\x01" * 100_000, CNI_PATH=b"\x01" * 100_000).error
    assert (error["code"], error["msg"]) == (4, "the CNI_* variables are larger than 1 MiB")
    assert far_end.requests == []


def kinds_of_files(directory: Path) -> dict[str, tuple[Path, str]]:
    """Paths that are no network namespaces, with what is said of them: by glibc, or by musl."""
    (directory / "file").write_bytes(b"")
    os.mkfifo(directory / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
    (directory / "dangling").symlink_to(directory / "nowhere")
    (directory / "loop").symlink_to(directory / "loop")
    return {
        "file": (directory / "file", "is a regular file, not a network namespace"),
        "fifo": (directory / "fifo", "is a FIFO, not a network namespace"),
        "socket": (directory / "socket", "is a socket, not a network namespace"),
        "directory": (directory, "is a directory, not a network namespace"),
        "device": (Path("/dev/null"), "is a device, not a network namespace"),
        "proc": (Path("/proc/self/status"), "is a regular file, not a network namespace"),
        "dangling link": (directory / "dangling", "No such file or directory"),
        "loop of links": (directory / "loop", "Too many levels of symbolic links|Symbolic link loop"),
        "missing": (directory / "missing", "No such file or directory"),
        "below a file": (directory / "file" / "net", "Not a directory"),
        "other namespace": (
            Path("/proc/self/ns/mnt"),
            "is a namespace of another kind, not a network namespace",
        ),
    }


def test_what_is_no_network_namespace_is_told_and_not_passed_on(
    plugin: Plugin, far_end: FarEnd, tmp_path: Path
) -> None:
    for path, why in kinds_of_files(tmp_path).values():
        answer = plugin("ADD", CNI_NETNS=str(path))
        assert answer.status == 0
        request = far_end.requests.pop()
        assert request.head["netns_error"] in why.split("|")
        assert request.head["own_netns"] is False
        assert request.descriptors == []


def test_its_own_namespace_is_told_and_not_passed_on(plugin: Plugin, far_end: FarEnd) -> None:
    plugin("ADD", CNI_NETNS="/proc/self/ns/net")
    assert far_end.request.head["own_netns"] is True
    assert "netns_error" not in far_end.request.head
    assert far_end.request.descriptors == []


def test_runs_at_the_same_time_do_not_mix(plugin: Plugin, far_end: FarEnd) -> None:
    far_end.answer = lambda connection: _echo_container(far_end, connection)
    running = [plugin.start("ADD", CNI_CONTAINERID=f"c{number}") for number in range(10)]
    for number, each in enumerate(running):
        assert each.communicate(CONFIG, timeout=10) == (f"c{number}".encode(), b"")
    assert len(far_end.requests) == 10


def _echo_container(far_end: FarEnd, connection: socket.socket) -> None:
    request = receive(connection)
    far_end.requests.append(request)
    connection.sendall(reply(request.environment["CNI_CONTAINERID"].encode()))
