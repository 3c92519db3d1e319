"""The log names attachment and trace in each line, and has nothing that a request brought in confidence."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.faults import BreakableDisk
from ..fixtures.node import NETLOOM, POOLS, Node, eventually
from ..fixtures.pages import ask, conf_dir, is_there, lines

pytestmark = pytest.mark.kernel

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "hunter2-and-more"

# Where a secret may be in a configuration: in keys that nobody reads, and where something else belongs.
KEYS: tuple[dict[str, Any], ...] = (
    {"password": SECRET},
    {"credentials": {"user": "me", "tokens": [SECRET]}},
    {"args": SECRET},
    {"args": {"labels": [{"key": "token", "value": SECRET}]}},
    {"args": {"cni": SECRET}},
    {"args": {"cni": {"token": SECRET}}},
    {"args": {"cni": {"ips": [SECRET]}}},
    {"args": {"cni": {"ips": SECRET}}},
    {"args": {"cni": {"mac": SECRET}}},
    {"args": {"cni": {"mtu": SECRET}}},
    {"args": {"cni": {"sysctl": {SECRET: "1"}}}},
    {"runtimeConfig": SECRET},
    {"runtimeConfig": [SECRET]},
    {"runtimeConfig": {"token": SECRET}},
    {"runtimeConfig": {"ips": [SECRET]}},
    {"runtimeConfig": {"mac": SECRET}},
    {"runtimeConfig": {"dns": SECRET}},
    {"runtimeConfig": {"portMappings": SECRET}},
    {"runtimeConfig": {"portMappings": [SECRET]}},
    {"runtimeConfig": {"portMappings": [{"hostPort": SECRET, "containerPort": 80}]}},
    {"runtimeConfig": {"portMappings": [{"hostPort": 80, "containerPort": 80, "protocol": SECRET}]}},
    {"runtimeConfig": {"portMappings": [{"hostPort": 80, "containerPort": 80, "hostIP": SECRET}]}},
    {"runtimeConfig": {"bandwidth": {"ingressRate": SECRET}}},
    {"ipam": {"type": "host-local", "password": SECRET}},
    {"ipam": SECRET},
    {"pools": SECRET},
    {"pools": [SECRET]},
    {"pools": [{"cidr": SECRET}]},
    {"pools": [{"cidr": f"{SECRET}/24"}]},
    {"pools": [{"cidr": "10.9.0.0/16", "gateway": SECRET}]},
    {"pools": [{"cidr": "10.9.0.0/16", "exclude": [SECRET]}]},
    {"pools": [{"cidr": "10.9.0.0/16", "exclude": [f"10.9.0.1-{SECRET}"]}]},
    {"pools": [{"cidr": "10.9.0.0/16", "strategy": SECRET}]},
    {"mode": SECRET},
    {"isolation": SECRET},
    {"mtu": SECRET},
    {"mtu": {"a": SECRET}},
    {"cooldown": SECRET},
    {"defaultRoute": SECRET},
    {"txQLen": SECRET},
    {"interface": SECRET},
    {"interface": f"%{SECRET[:7]}"},
    {"mac": SECRET},
    {"routes": [{"dst": SECRET}]},
    {"routes": SECRET},
    {"dns": SECRET},
    {"dns": {"nameservers": SECRET}},
    {"ipMasq": SECRET},
    {"ipMasq": {"except": [SECRET]}},
    {"sysctl": SECRET},
    {"sysctl": {SECRET: "1"}},
    {"sysctl": {"net.core.somaxconn": [SECRET]}},
    {"sysctl": {"net.core.somaxconn": f"\0{SECRET}"}},
    {"bandwidth": {"egressRate": SECRET}},
    {"portMappings": [SECRET]},
    {"capabilities": {"ips": SECRET}},
    {"cniVersion": SECRET},
    {"cniVersion": f"1.{SECRET}"},
    {"cniVersion": f"1.2.3.{SECRET}"},
    {"name": f"{SECRET} and spaces"},
    {"type": SECRET},
    {"prevResult": SECRET},
    {"prevResult": {"cniVersion": SECRET}},
    {"prevResult": {"cniVersion": "1.1.0", "token": SECRET}},
    {"prevResult": {"cniVersion": "1.1.0", "ips": SECRET}},
    {"prevResult": {"cniVersion": "1.1.0", "ips": [{"address": SECRET}]}},
    {"prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.1/24", "gateway": SECRET}]}},
    {"prevResult": {"cniVersion": "1.1.0", "routes": [{"dst": SECRET}]}},
    {"prevResult": {"cniVersion": "0.2.0", "ip4": {"ip": SECRET}}},
    {"cni.dev/valid-attachments": SECRET},
    {"cni.dev/valid-attachments": [SECRET]},
    {"cni.dev/valid-attachments": [{"containerID": "other", "ifname": "eth0", "token": SECRET}]},
)
NO_CONFIGS = (
    f'{{"password": "{SECRET}"'.encode(),
    f'{{"password": "{SECRET}"}} {SECRET}'.encode(),
    SECRET.encode(),
    f'"{SECRET}"'.encode(),
    f'["{SECRET}"]'.encode(),
    f'{{"name": "net", "password": "{SECRET}\xff"}}'.encode("latin-1"),
    b"[" * 5000 + SECRET.encode(),
)
ARGUMENTS = (
    SECRET,
    f"TOKEN={SECRET}",
    f"A=B={SECRET}",
    f"={SECRET}",
    f"IgnoreUnknown={SECRET}",
    f"IgnoreUnknown=1;TOKEN={SECRET}",
    f"IP={SECRET}",
    f"MAC={SECRET}",
)
# How these end, among others, by verb.
CODES = {"ADD": {0, 1, 2, 4, 6, 7}, "CHECK": {1, 3, 6, 7}, "GC": {0, 6, 7}, "STATUS": {0, 6, 50}, "DEL": {0}}


def config(keys: dict[str, Any]) -> bytes:
    return json.dumps(
        {"cniVersion": "1.1.0", "name": "net", "type": "netloom", "pools": POOLS} | keys
    ).encode()


def places_of(secret: str, node: Node) -> list[str]:
    """Where it can be found of all that is kept, or shown to others."""
    kept = [path for path in node.state_dir.iterdir() if path.is_file()]
    found = [path.name for path in kept if secret.encode() in path.read_bytes()]
    if secret in node.log():
        found.append("the log")
    if node.agent is not None and node.agent.poll() is None:
        found += [page for page in ("/metrics", "/readyz") if secret.encode() in ask(node, page).body]
    return found


@pytest.fixture
def watched(node: Node) -> Node:
    node.start("--tick", "0.1", "--log-level", "debug", "--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node))
    return node


def leaks(node: Node) -> Iterator[str]:
    assert eventually(lambda: bool(node.ledger().operations()))
    yield from places_of(SECRET[:7], node)
    node.stop()
    yield from places_of(SECRET[:7], node)


@pytest.mark.parametrize("verb", CODES)
def test_no_secret_of_a_configuration_is_kept_or_shown(watched: Node, verb: str) -> None:
    outcomes = {watched.ask(verb, watched.container(), config(keys)).code for keys in KEYS}
    outcomes |= {watched.ask(verb, watched.container(), content).code for content in NO_CONFIGS}
    for arguments in ARGUMENTS:
        outcomes.add(watched.ask(verb, watched.container(), CNI_ARGS=arguments).code)
    assert outcomes >= CODES[verb]
    assert list(leaks(watched)) == []


def test_no_secret_is_in_what_else_can_fail(watched: Node) -> None:
    secret = {"password": SECRET, "args": {"cni": {"token": SECRET}}}
    port = {"runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80}]}}
    container = watched.container()
    one_address = {"pools": [{"cidr": "10.88.0.0/32"}]}
    codes = [
        watched.ask("ADD", container, config(secret | port)).code,
        watched.ask("ADD", container, config(secret)).code,
        watched.ask("ADD", watched.container(), config(secret | port)).code,
        watched.ask("ADD", watched.container(), config(secret | one_address)).code,
        watched.ask("ADD", watched.container(), config(secret | one_address)).code,
        watched.ask(
            "ADD", watched.container(), config(secret | {"args": {"cni": {"ips": ["10.9.0.1"]}}})
        ).code,
        watched.ask("ADD", container, config(secret), ifname="lo").code,
        watched.ask("ADD", "nobody", config(secret), netns=False).code,
        watched.ask("CHECK", watched.container(), config(secret)).code,
        watched.ask("DEL", container, config(secret)).code,
    ]
    assert codes == [0, 104, 105, 0, 11, 101, 4, 8, 7, 0]
    assert list(leaks(watched)) == []


def test_no_secret_is_in_what_is_said_of_a_defect(node: Node) -> None:
    node.start(environment={"NETLOOM_FAILPOINT": "add.reserved:error,del.judged:error"})
    for verb in ("ADD", "DEL"):
        assert node.ask(verb, node.container(), config({"password": SECRET})).code == 999
    assert any("traceback" in line for line in lines(node))
    assert list(leaks(node)) == []


def test_no_secret_is_in_what_is_said_of_a_broken_disk(node: Node, tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    node.start("--tick", "0.1", environment=disk.environment)
    container = node.container()
    node.add(container)
    disk.break_down()
    assert node.ask("ADD", node.container(), config({"password": SECRET})).code == 5
    assert node.ask("DEL", container, config({"password": SECRET})).code == 0
    disk.mend()
    assert eventually(lambda: node.intents() == [])
    assert list(leaks(node)) == []


def test_no_secret_of_a_file_is_shown_to_whoever_asks_whether_the_node_is_ready(watched: Node) -> None:
    for keys in KEYS:
        (watched.directory / "net.d" / "00-net.conf").write_bytes(config(keys))
        assert SECRET[:7].encode() not in ask(watched, "/readyz").body
        assert SECRET[:7].encode() not in ask(watched, "/metrics").body
    (watched.directory / "net.d" / "00-net.conf").unlink()
    for keys in (
        {"cniVersions": [SECRET]},
        {"disableCheck": SECRET},
        {"name": SECRET + " "},
        {"plugins": SECRET},
    ):
        document = {"cniVersion": "1.1.0", "name": "net", "plugins": [json.loads(config({}))]} | keys
        (watched.directory / "net.d" / "10-netloom.conflist").write_text(json.dumps(document))
        answer = ask(watched, "/readyz")
        assert (answer.codes, SECRET[:7].encode() in answer.body) == (["network-broken"], False)


def test_the_runtime_is_told_the_value_that_it_sent(watched: Node) -> None:
    answer = watched.ask("ADD", watched.container(), config({"mtu": SECRET}))
    assert SECRET in answer.message


def test_a_line_about_a_request_has_its_key_and_its_trace(watched: Node) -> None:
    watched.plugin("ADD", "nobody", TRACEPARENT=TRACE)
    (line,) = [it for it in lines(watched) if it["level"] == "warning"]
    assert (line["verb"], line["network"], line["container_id"], line["ifname"], line["trace"]) == (
        "ADD", "net", "nobody", "eth0", TRACE,
    )  # fmt: skip
    assert eventually(lambda: any(it.trace == TRACE for it in watched.ledger().operations()))


@pytest.mark.parametrize(
    "given",
    [
        "yes", TRACE[:-1], f"{TRACE}0", TRACE.upper(), f"ff{TRACE[2:]}", f"{TRACE}\n",
        f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
    ],
)  # fmt: skip
def test_what_is_no_trace_is_dropped(watched: Node, given: str) -> None:
    watched.plugin("ADD", "nobody", TRACEPARENT=given)
    (line,) = [it for it in lines(watched) if it["level"] == "warning"]
    assert "trace" not in line
    assert eventually(lambda: any(it.verb == "ADD" for it in watched.ledger().operations()))
    assert {it.trace for it in watched.ledger().operations()} == {""}


def test_a_line_about_what_the_agent_did_by_itself_has_its_key(watched: Node) -> None:
    container = watched.container()
    address = watched.add(container).addresses[0]
    watched.inside("ip", "route", "del", address)

    def repaired() -> list[str]:
        return [it.get("container_id", "") for it in lines(watched) if it["level"] == "warning"]

    assert eventually(lambda: container in repaired())


def test_a_del_that_was_queued_keeps_its_trace(watched: Node) -> None:
    container = watched.container()
    watched.add(container)
    watched.kill()
    watched.delete(container, TRACEPARENT=TRACE)
    watched.start("--tick", "0.1")
    assert any(it.get("trace") == TRACE and it.get("container_id") == container for it in lines(watched))

    def traces_of_replays() -> list[str]:
        return [it.trace for it in watched.ledger().operations() if it.verb == "REPLAY"]

    assert eventually(lambda: traces_of_replays() == [TRACE])


def test_levels_say_what_is_logged(node: Node) -> None:
    node.start("--log-level", "debug")
    node.add(node.container())
    node.stop()
    assert "debug" in {line["level"] for line in lines(node)}
    (node.directory / "agent.log").write_text("")
    node.start("--quiet")
    node.plugin("ADD", "nobody")
    node.stop()
    assert {line["level"] for line in lines(node)} == {"warning"}


def test_lines_are_for_people_if_that_is_asked_for(node: Node) -> None:
    node.start("--log-format", "human")
    node.plugin("ADD", "nobody", TRACEPARENT=TRACE)
    node.plugin("ADD", "c", CNI_COMMAND="A\nD\x1b[2J")
    node.stop()
    logged = node.log().splitlines()
    assert all(line[:4].isdecimal() for line in logged)
    (failed,) = [line for line in logged if "net/nobody/eth0" in line]
    assert failed.endswith(f"trace={TRACE}")
    assert "\x1b" not in node.log()


def test_on_a_terminal_lines_are_for_people(node: Node) -> None:
    terminal, theirs = os.openpty()
    os.set_blocking(terminal, False)
    with open(terminal, "rb", buffering=0) as shown, open(theirs, "wb", buffering=0):
        node.agent = subprocess.Popen(
            node.command(str(NETLOOM), "agent"),
            env=node.environment(),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        logged = bytearray()

        def is_ready() -> bool:
            logged.extend(shown.read() or b"")
            return b" INFO ready at " in logged

        assert eventually(is_ready), logged.decode()
        node.kill()


def test_a_failure_that_is_repeated_without_end_does_not_fill_the_log(watched: Node) -> None:
    for _ in range(500):
        watched.ask("ADD", "nobody", netns=False)
    for number in range(500):
        watched.ask("ADD", f"nobody{number}", netns=False)
    watched.stop()
    logged = [line for line in lines(watched) if line["level"] == "warning"]
    assert len(logged) < 100
    counted = [line["message"] for line in logged if "more lines like this" in line["message"]]
    assert sum(int(text.split()[0]) for text in counted) + len(logged) - len(counted) == 1000
