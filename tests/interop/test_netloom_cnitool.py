"""Every verb on netloom's plugin, by Go's cnitool and by our command that has its verbs."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netloom.cni.versions import ALL, at_least

from ..lanes import PEERS
from .callers import Caller, Cnitool, Command, Refused
from .commands import output
from .connections import ping
from .host import OUTSIDE, PLUGIN_DIRS, Host, loom

pytestmark = pytest.mark.interop

TWO_ADDRESSES = ({"cidr": "10.29.0.0/30"},)


@pytest.fixture(params=[Cnitool, Command], ids=["cnitool", "netloom cni"])
def caller(
    request: pytest.FixtureRequest,
    running: Host,
    shared_cache: Path,  # noqa: ARG001
) -> Caller:
    made: Caller = request.param(running)
    return made


def code_for_go(host: Host, network: str) -> int:
    """The code that STATUS ends with, as whoever uses libcni is told it; 0 if it succeeds."""
    question = {
        "ask": "status",
        "input": b64encode((host.confs / f"10-{network}.conflist").read_bytes()).decode(),
        "to": os.pathsep.join(map(str, PLUGIN_DIRS)),
    }
    answered = subprocess.run(
        [PEERS / "bin" / "oracle"],
        input=json.dumps(question).encode(),
        env={**os.environ, **host.plugin_environment},
        capture_output=True,
        check=True,
        timeout=30,
    )
    answer = json.loads(answered.stdout)
    assert "error" not in answer or "code" in answer, answer
    return int(answer.get("code", 0))


def containers(host: Host) -> set[str]:
    """The namespaces that are attached."""
    return {it.netns for it in host.ledger().attachments()}


@pytest.mark.parametrize("version", ALL)
def test_an_attachment_is_added_checked_and_deleted_in_every_version(
    caller: Caller, running: Host, netns: str, version: str
) -> None:
    running.network(loom(), version=version)

    result = caller.add("net", netns)

    assert result["cniVersion"] == version
    assert _addresses(result) == ["10.9.0.1", "fd09::1"]
    ping(netns, *OUTSIDE)
    if at_least(version, "0.4.0"):
        caller.check("net", netns)
    caller.delete("net", netns)
    running.await_dels()
    assert running.links() == []
    assert running.ledger().places() == []
    assert running.audit() == []


def _addresses(result: dict[str, Any]) -> list[str]:
    if "ip4" in result:
        return [result[family]["ip"].partition("/")[0] for family in ("ip4", "ip6")]
    return [ip["address"].partition("/")[0] for ip in result["ips"]]


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0"])
def test_check_fails_as_long_as_the_interface_is_not_as_add_left_it(
    caller: Caller, running: Host, netns: str, version: str
) -> None:
    running.network(loom(), version=version)
    caller.add("net", netns)
    (link,) = running.links()

    output(["ip", "link", "set", link, "mtu", "1400"])
    with pytest.raises(Refused, match=f"{link}.*1400, not 1500"):
        caller.check("net", netns)
    output(["ip", "link", "set", link, "mtu", "1500"])
    caller.check("net", netns)


def test_del_may_be_repeated_and_comes_after_the_namespaces_end(
    caller: Caller, running: Host, netns: str
) -> None:
    running.network(loom())
    caller.add("net", netns)
    output(["ip", "netns", "del", Path(netns).name])
    for _ in range(3):
        caller.delete("net", netns)
    running.await_dels()
    assert running.ledger().places() == []
    assert running.audit() == []


def test_gc_deletes_what_is_in_the_cache_and_leaves_other_networks_alone(
    caller: Caller, running: Host, new_netns: Callable[[], str]
) -> None:
    running.network(loom())
    running.network(loom(), name="other")
    stale, kept = [new_netns(), new_netns()], new_netns()
    for netns in stale:
        caller.add("net", netns)
    caller.add("other", kept)

    caller.gc("net")

    running.await_dels()
    assert containers(running) == {kept}
    assert len(running.links()) == 1
    assert running.audit() == []
    caller.check("other", kept)


def test_gc_deletes_what_the_cache_has_lost(
    running: Host, shared_cache: Path, new_netns: Callable[[], str]
) -> None:
    running.network(loom())
    caller = Command(running)
    lost, kept = new_netns(), new_netns()
    caller.add("net", lost)
    for entry in shared_cache.iterdir():
        entry.unlink()
    caller.add("net", kept)
    (valid,) = (it for it in running.ledger().attachments() if it.netns == kept)

    caller.gc("net", valid=f"{valid.container_id}:{valid.ifname}")

    running.await_dels()
    assert containers(running) == {kept}
    assert running.audit() == []
    caller.check("net", kept)


def test_status_is_well_while_an_add_would_work(caller: Caller, running: Host, netns: str) -> None:
    running.network(loom())
    caller.status("net")
    caller.add("net", netns)
    caller.status("net")
    assert code_for_go(running, "net") == 0


def test_status_is_50_while_the_agent_is_down(caller: Caller, running: Host) -> None:
    running.network(loom())
    running.stop()
    with pytest.raises(Refused, match=str(running.socket)) as caught:
        caller.status("net")
    assert caught.value.code in (50, None)
    assert code_for_go(running, "net") == 50
    running.start()
    caller.status("net")


def test_status_is_50_while_the_pool_is_exhausted(
    caller: Caller, running: Host, new_netns: Callable[[], str]
) -> None:
    running.network(loom(pools=TWO_ADDRESSES, cooldown=0))
    full = [new_netns(), new_netns()]
    for netns in full:
        caller.add("net", netns)

    with pytest.raises(Refused, match=r"10\.29\.0\.0/30") as caught:
        caller.status("net")
    assert caught.value.code in (50, None)
    assert code_for_go(running, "net") == 50
    with pytest.raises(Refused, match=r"10\.29\.0\.0/30"):
        caller.add("net", new_netns())
    caller.delete("net", full[0])
    running.await_dels()
    caller.status("net")
    caller.add("net", new_netns())
    assert running.audit(TWO_ADDRESSES) == []


def test_what_was_added_by_one_is_dealt_with_by_the_other(
    running: Host, shared_cache: Path, netns: str
) -> None:
    running.network(loom())
    for first, second in ((Cnitool(running), Command(running)), (Command(running), Cnitool(running))):
        first.add("net", netns)
        second.check("net", netns)
        second.delete("net", netns)
        running.await_dels()
        assert running.ledger().places() == []
        assert list(shared_cache.iterdir()) == []


def test_add_says_who_does_not_answer_while_the_agent_is_down(
    caller: Caller, running: Host, netns: str
) -> None:
    running.network(loom())
    running.stop()
    with pytest.raises(Refused, match=str(running.socket)) as caught:
        caller.add("net", netns)
    assert caught.value.code in (11, None)
    caller.delete("net", netns)
    running.start()
    caller.add("net", netns)
    ping(netns, *OUTSIDE)
