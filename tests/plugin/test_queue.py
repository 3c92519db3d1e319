"""A DEL that no agent answers is queued, durably and once, and succeeds."""

from __future__ import annotations

import stat
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..fixtures.plugin import BODY_MAX, CONFIG, DEADLINE, SLACK, Plugin, Request, reply
from ..fixtures.stdin import ready
from .conftest import Listen
from .trouble import SILENT, TROUBLES

pytestmark = [pytest.mark.unit, pytest.mark.slow]

MAX = 4096


def named(container: str, ifname: str, stdin: bytes) -> str:
    """The name of an intent: FNV-1a of 128 bits, as its authors describe it."""
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in container.encode() + b"\0" + ifname.encode() + b"\0" + stdin:
        value = (value ^ byte) * 0x0000000001000000000000000000013B % (1 << 128)
    return f"{value:032x}.del"


@pytest.mark.parametrize("name", TROUBLES)
def test_a_del_without_an_answer_is_queued_and_succeeds(plugin: Plugin, name: str) -> None:
    with TROUBLES[name](plugin):
        answer = plugin("DEL", **DEADLINE)
    assert answer.is_silent_success
    (intent,) = plugin.queued
    assert Request(intent.read_bytes(), []).body == CONFIG
    assert plugin.unfinished == []


@pytest.mark.parametrize("deadline", [None, "60"])
def test_a_del_asks_no_longer_than_one_and_a_half_seconds(plugin: Plugin, deadline: str | None) -> None:
    with SILENT["silent"](plugin):
        answer = plugin("DEL", NETLOOM_DEADLINE=deadline)
    assert answer.is_silent_success
    assert 1.5 < answer.seconds < 1.5 + SLACK


def test_an_intent_is_the_request_as_the_agent_would_have_got_it(plugin: Plugin, listen: Listen) -> None:
    netns = str(plugin.socket.parent / "gone")
    plugin("DEL", CNI_NETNS=netns, CNI_ARGS='"\\')
    far_end = listen()
    plugin("DEL", CNI_NETNS=netns, CNI_ARGS='"\\')
    (intent,) = plugin.queued
    kept = Request(intent.read_bytes(), [])
    assert kept.body == far_end.request.body
    assert kept.head.pop("sent") < far_end.request.head.pop("sent")
    assert kept.head == far_end.request.head


@pytest.mark.parametrize("stdin", [CONFIG, b"", bytes(100_000), bytes(BODY_MAX)], ids=len)
def test_an_intent_is_named_after_what_is_deleted(plugin: Plugin, stdin: bytes) -> None:
    assert plugin("DEL", stdin).is_silent_success
    (intent,) = plugin.queued
    if len(stdin) < BODY_MAX:  # Python takes seconds for more
        assert intent.name == named("web-1", "eth0", stdin)
    (size,) = struct.unpack_from("!I", intent.read_bytes())
    assert intent.stat().st_size == 4 + size + len(stdin)


def test_only_its_owner_can_read_an_intent(plugin: Plugin) -> None:
    plugin("DEL")
    assert stat.S_IMODE(plugin.queued[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(plugin.intents.stat().st_mode) == 0o700


def test_directories_that_are_missing_are_made(executable: Path, tmp_path: Path) -> None:
    plugin = Plugin(executable, tmp_path / "run")
    assert plugin("DEL").is_silent_success
    assert stat.S_IMODE(plugin.socket.parent.stat().st_mode) == 0o700
    assert len(plugin.queued) == 1


def test_a_directory_too_deep_to_be_ours_is_not_made(executable: Path, tmp_path: Path) -> None:
    plugin = Plugin(executable, tmp_path / "not" / "there")
    assert plugin("DEL").error["code"] == 5
    assert not (tmp_path / "not").exists()


def test_the_same_del_again_is_one_intent(plugin: Plugin) -> None:
    for _ in range(3):
        assert plugin("DEL").is_silent_success
    assert len(plugin.queued) == 1


def test_dels_that_differ_are_intents_of_their_own(plugin: Plugin) -> None:
    assert plugin("DEL").is_silent_success
    assert plugin("DEL", CNI_CONTAINERID="web-2").is_silent_success
    assert plugin("DEL", CNI_IFNAME="eth1").is_silent_success
    assert plugin("DEL", CNI_CONTAINERID="web-1e", CNI_IFNAME="th0").is_silent_success
    assert plugin("DEL", CONFIG + b" ").is_silent_success
    assert len(plugin.queued) == 5


def test_the_same_del_many_times_at_once_is_one_intent(plugin: Plugin) -> None:
    with ExitStack() as stack:
        running = [plugin.start("DEL", stack.enter_context(ready(CONFIG))) for _ in range(10)]
    assert [each.communicate(timeout=SLACK) for each in running] == [(b"", b"")] * 10
    assert [each.returncode for each in running] == [0] * 10
    assert len(plugin.queued) == 1
    assert plugin.unfinished == []


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"CNI_CONTAINERID": ""}, "CNI_CONTAINERID"),
        ({"CNI_IFNAME": None}, "CNI_IFNAME"),
        ({"CNI_CONTAINERID": None, "CNI_IFNAME": ""}, "CNI_CONTAINERID,CNI_IFNAME"),
    ],
)
def test_a_del_that_nobody_could_do_later_is_not_queued(
    plugin: Plugin, given: dict[str, str | None], missing: str
) -> None:
    error = plugin("DEL", **given).error
    assert (error["code"], error["msg"]) == (4, f"required env variables [{missing}] missing")
    assert not plugin.intents.exists()


def test_intents_are_bounded_but_one_that_waits_already_is_no_more(plugin: Plugin) -> None:
    assert plugin("DEL").is_silent_success
    for number in range(MAX - 2):
        (plugin.intents / f"{number:032x}.del").touch()
    (plugin.intents / ".unfinished.del").touch()
    (plugin.intents / "note").touch()
    assert plugin("DEL", CNI_CONTAINERID="web-2").is_silent_success
    error = plugin("DEL", CNI_CONTAINERID="web-3").error
    assert error["code"] == 11
    assert error["msg"].endswith(f"too many DELs wait in {plugin.intents}")
    assert plugin("DEL").is_silent_success
    assert len(plugin.queued) == MAX


def test_a_place_for_intents_that_is_no_directory_is_an_error(plugin: Plugin) -> None:
    plugin.intents.write_bytes(b"")
    error = plugin("DEL").error
    assert error["code"] == 5
    assert error["msg"].endswith(f"the DEL cannot be queued in {plugin.intents}: Not a directory")


def test_a_link_in_the_place_of_the_directory_is_not_followed(plugin: Plugin, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plugin.intents.symlink_to(elsewhere)
    assert plugin("DEL").error["code"] == 5
    assert list(elsewhere.iterdir()) == []


def test_a_directory_that_others_can_write_to_is_not_used(plugin: Plugin) -> None:
    plugin.intents.mkdir()
    plugin.intents.chmod(0o777)
    assert plugin("DEL").error["code"] == 5
    assert list(plugin.intents.iterdir()) == []


def test_a_link_in_the_place_of_an_intent_is_replaced_and_not_followed(
    plugin: Plugin, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    plugin("DEL")
    (intent,) = plugin.queued
    intent.unlink()
    intent.symlink_to(precious)
    assert plugin("DEL").is_silent_success
    assert precious.read_text() == "precious"
    assert not intent.is_symlink()


def test_a_del_that_the_agent_refuses_is_not_queued(plugin: Plugin, listen: Listen) -> None:
    listen(reply(b"no", 1))
    assert plugin("DEL").status == 1
    assert not plugin.intents.exists()
