"""Whatever comes from outside: no bad access, no undefined operation, and always an answer.

The properties run the executable itself, built with sanitizers: it prints a report on stderr and ends
as soon as it errs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..fixtures.plugin import CONFIG, Answer, FarEnd, Plugin, reply
from ..search import examples

pytestmark = [pytest.mark.unit, pytest.mark.slow]

# Leaks are valgrind's part: looking for them takes four times as long as the run.
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0"}
COMMANDS = st.sampled_from(["ADD", "CHECK", "DEL", "GC", "STATUS", "NOPE"])
VALUES = st.binary(max_size=60).map(lambda value: value.replace(b"\0", b"\xff"))

searching = settings(
    max_examples=examples(400), deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def watched(sanitized: Path) -> Iterator[Plugin]:
    directory = Path(tempfile.mkdtemp(prefix="netloom-plugin-"))
    yield Plugin(sanitized, directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def agent(watched: Plugin) -> Iterator[FarEnd]:
    with FarEnd(watched.socket) as far_end:
        yield far_end


def run(plugin: Plugin, command: str, stdin: bytes = CONFIG, /, **changes: str | bytes | None) -> Answer:
    answer = plugin(command, stdin, **{**SANITIZERS, **changes})
    assert answer.stderr == b"", answer.stderr.decode()
    assert answer.status >= 0
    return answer


@searching
@given(command=COMMANDS, values=st.lists(VALUES, min_size=5, max_size=5))
def test_any_environment_arrives_as_its_text(
    watched: Plugin, agent: FarEnd, command: str, values: list[bytes]
) -> None:
    names = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "TRACESTATE")
    environment = dict(zip(names, values, strict=True))
    agent.answer = reply(b"done", 7)
    answer = run(watched, command, **environment)
    assert (answer.status, answer.stdout) == (7, b"done")
    arrived = agent.requests.pop().environment
    assert {name: arrived[name] for name in names} == {
        name: value.decode("utf-8", "replace") for name, value in environment.items()
    }


@pytest.mark.parametrize("size", [87_300, 87_400, 100_000])
def test_variables_about_as_large_as_all_may_be_stay_in_their_place(watched: Plugin, size: int) -> None:
    """Twice a size, each byte of it six in JSON: just below 1 MiB, just above, and well above."""
    value = b"\x01" * size
    away = f"{watched.socket.parent}/gone/agent.sock"
    answer = run(watched, "ADD", CNI_ARGS=value, CNI_PATH=value, NETLOOM_SOCKET=away)
    assert answer.error["code"] == (11 if size == 87_300 else 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=6) | st.just("cniVersion"), inner, max_size=4)
    ),
    max_leaves=15,
)
VERSIONS = st.from_regex(r"[0-9a-zA-Z.+-]{1,63}", fullmatch=True)


@searching
@given(
    before=st.dictionaries(st.text(max_size=6), JSON, max_size=3),
    version=VERSIONS | st.none(),
    after=st.dictionaries(st.text(max_size=6), JSON, max_size=3),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_the_version_of_any_config_is_found(
    watched: Plugin,
    before: dict[str, Any],
    version: str | None,
    after: dict[str, Any],
    indent: int | None,
    ascii_only: bool,
) -> None:
    declared = {} if version is None else {"cniVersion": version}
    document = json.dumps({**before, **declared, **after}, indent=indent, ensure_ascii=ascii_only)
    answer = run(watched, "ADD", document.encode("utf-8", "replace"), NETLOOM_SOCKET="/nowhere/agent.sock")
    assert answer.error["cniVersion"] == (version or "1.1.0")


@searching
@given(
    stdin=st.binary(max_size=40)
    | st.text(alphabet='{}[]",:\\ u0cniVersion1.', max_size=40).map(str.encode)
    | st.integers(0, len(CONFIG)).map(lambda size: CONFIG[:size]),
    command=COMMANDS,
)
def test_any_stdin_gets_an_answer(watched: Plugin, stdin: bytes, command: str) -> None:
    answer = run(watched, command, stdin, NETLOOM_SOCKET=f"{watched.socket.parent}/gone/agent.sock")
    if command == "DEL":
        assert answer.is_silent_success
    else:
        assert answer.error["code"] == (50 if command == "STATUS" else 11)


@searching
@given(
    data=st.binary(max_size=40)
    | st.builds(
        lambda size, rest: size.to_bytes(4, "big") + rest, st.integers(0, 12), st.binary(max_size=16)
    ),
    command=COMMANDS,
)
def test_any_answer_is_printed_or_told(watched: Plugin, agent: FarEnd, data: bytes, command: str) -> None:
    agent.answer = data
    answer = run(watched, command)
    agent.requests.clear()
    size = int.from_bytes(data[:4], "big")
    if len(data) >= 5 and 0 < size <= len(data) - 4:
        assert (answer.status, answer.stdout) == (data[4], data[5 : 4 + size])
    elif command == "DEL":
        assert answer.is_silent_success
    else:
        assert answer.error["code"] == (50 if command == "STATUS" else 11)


@pytest.fixture
def valgrind(instrumentable: Path, tmp_path: Path) -> Plugin:
    found = shutil.which("valgrind")
    if found is None:
        pytest.skip("needs valgrind, which `make setup` installs")
    # It does not know the ioctl that asks for a namespace's kind.
    options = ("--quiet", "--sim-hints=lax-ioctls", "--leak-check=full", "--error-exitcode=99")
    return Plugin(instrumentable, tmp_path, found, *options)


def test_valgrind_finds_nothing_in_runs_with_an_agent(valgrind: Plugin) -> None:
    with FarEnd(valgrind.socket, reply(bytes(100_000), 5)):
        for command, netns in (("ADD", "/proc/self/ns/net"), ("DEL", "/nowhere")):
            answer = valgrind(command, CNI_NETNS=netns, CNI_ARGS=b'"\xff\xe2\x82\\\n')
            assert (answer.status, len(answer.stdout), answer.stderr) == (5, 100_000, b"")


def test_valgrind_finds_nothing_in_runs_without_an_agent(valgrind: Plugin) -> None:
    assert valgrind("ADD").error["code"] == 11
    assert valgrind("ADD", b'{"cniVersion":"\\').error["code"] == 11
    assert valgrind("VERSION").status == 0
    for _ in range(2):
        assert valgrind("DEL").is_silent_success
    assert len(valgrind.queued) == 1
