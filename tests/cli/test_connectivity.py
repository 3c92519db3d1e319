"""`netloom connectivity`: what works passes, what is broken for real is named, and nothing is left."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from netloom.kernel import Namespace
from netloom.ops.connectivity import namespaces
from netloom.ops.connectivity.suite import PROBES

from ..fixtures.cli import NETLOOM, Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

# Longer than all of it takes on a machine that has much else to do.
_PATIENCE = 100

_FOREIGN = """
table inet strangers {
    chain keepers {
        type filter hook forward priority 5; policy accept;
        drop
    }
}
"""


PYTHON = str(Path(NETLOOM).with_name("python"))
_BREAKER = """
config=$(cat)
container=${{CNI_CONTAINERID##*-}}
link=$(printf '%s' "$config" | grep -o 'loom[0-9a-f]\\{{11\\}}' | head -n 1)
case $CNI_COMMAND in
    VERSION) echo '{{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}}' ;;
    DEL) {undo} ;;
    ADD)
        {script}
        printf '%s' "$config" |
            {python} -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["prevResult"]))'
        ;;
esac
"""


def run(machine: Machine, *words: str, **env: str) -> Outcome:
    command = [
        *machine.node.command(),
        NETLOOM,
        "connectivity",
        "--cache-dir",
        str(machine.cli.cache),
        "--json",
        *words,
    ]
    done = subprocess.run(
        command, env={**machine.cli.env, **env}, capture_output=True, text=True, timeout=_PATIENCE
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


def started(machine: Machine, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *machine.node.command(),
            NETLOOM,
            "connectivity",
            "--json",
            "--cache-dir",
            str(machine.cli.cache),
            *words,
        ],
        env=machine.cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def only(*what: str) -> Sequence[str]:
    return [word for it in PROBES if it not in what for word in ("--skip", it)]


def rows(document: dict[str, Any], *, what: str = "", result: str = "") -> list[dict[str, Any]]:
    return [it for it in document["checks"] if what in ("", it["what"]) and result in ("", it["result"])]


def assert_nothing_is_left(machine: Machine) -> None:
    assert ours() == []
    machine.await_dels()
    assert machine.listed() == []
    assert machine.node.links() == []
    results = machine.cli.cache / "results"
    assert not results.exists() or list(results.iterdir()) == []


def ours() -> list[str]:
    """Namespaces that the command has made."""
    try:
        return [name for name in os.listdir("/run/netns") if name.startswith("netloom-")]
    except FileNotFoundError:
        return []


class Network:
    """A network of netloom's, with a plugin behind ours that does something to each container's link."""

    def __init__(self, machine: Machine, name: str = "broken") -> None:
        self.machine = machine
        self.name = name

    def with_plugin(self, script: str, *, undo: str = "", **keys: Any) -> str:
        """The script has $container, `a` or `b`, and $link, the host's end of its link. `undo` is for DEL."""
        self.machine.cli.plugin("breaker", _BREAKER.format(script=script, undo=undo or ":", python=PYTHON))
        return self.of({"type": "breaker"}, **keys)

    def with_a_halted_agent(self, script: str, **keys: Any) -> str:
        """It would put right what is broken: so it is stopped from the second ADD to the first DEL."""
        agent = self.machine.agent
        assert agent is not None
        return self.with_plugin(
            f'[ "$container" = b ] && kill -STOP {agent} && {{ {script}; }}',
            undo=f"kill -CONT {agent}",
            **keys,
        )

    def of(self, *more: dict[str, Any], **keys: Any) -> str:
        capabilities = {"portMappings": True, "bandwidth": True}
        pools = [{"cidr": "10.80.0.0/16"}, {"cidr": "fd80::/64"}]
        plugin = {"type": "netloom", "pools": pools, "capabilities": capabilities, **keys}
        return self.machine.cli.network(self.name, plugin, *more, version="1.0.0")


@pytest.fixture
def dual(machine: Machine) -> Machine:
    """A machine whose host has an address of either family."""
    machine.node.inside("ip", "address", "add", "2001:db8::1/128", "dev", "lo")
    return machine


@pytest.fixture
def network(dual: Machine) -> Network:
    return Network(dual)


# What works.


def test_all_passes_on_a_healthy_node(dual: Machine) -> None:
    outcome = run(dual)

    document = outcome.document
    assert rows(document, result="failed") == []
    assert (outcome.status, outcome.stderr) == (0, "")
    passed = {
        (it["what"], it["family"], it["from"], it["to"].split(":")[0])
        for it in rows(document, result="passed")
    }
    for family in ("ipv4", "ipv6"):
        for sender, receiver in (("a", "b"), ("b", "a")):
            assert {(what, family, sender, receiver) for what in ("ping", "tcp", "mtu")} <= passed
        assert {("host", family, "a", "host"), ("host", family, "host", "a")} <= passed
        assert ("hairpin", family, "a", "a") in passed
        assert ("spoofing", family, "a", "b") in passed
    assert {("port", "ipv4", "host", "127.0.0.1"), ("port", "ipv4", "host", "192.0.2.1")} <= passed
    assert {("port", "ipv4", "b", "192.0.2.1"), ("hairpin", "ipv4", "a", "192.0.2.1")} <= passed
    assert sum(it["what"] == "port" and it["family"] == "ipv6" for it in rows(document, result="passed")) == 3
    assert document["network"] == "netloom"
    assert document["passed"] == len(rows(document, result="passed"))
    assert_nothing_is_left(dual)


def test_what_cannot_be_tried_is_skipped_with_its_reason(dual: Machine) -> None:
    document = run(dual).document

    skipped = rows(document, result="skipped")
    assert [(it["what"], it["to"]) for it in skipped] == [("out", "gateway")] * 2
    assert all("no default route" in it["detail"] for it in skipped)


def test_the_gateway_answers_containers(dual: Machine) -> None:
    with Namespace.new() as outside:
        _wire(dual, outside)
        document = run(dual).document

    found = {(it["what"], it["family"], it["result"]) for it in document["checks"] if it["to"] == "gateway"}
    assert found == {(what, family, "passed") for what in ("out", "mtu") for family in ("ipv4", "ipv6")}


def test_a_gateway_that_answers_nobody_says_nothing_of_containers(dual: Machine) -> None:
    with Namespace.new() as outside:
        _wire(dual, outside)
        _inside(
            outside, "sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1", "net.ipv6.icmp.echo_ignore_all=1"
        )
        outcome = run(dual, *only("out"))

    assert outcome.status == 0
    found = rows(outcome.document, what="out")
    assert [it["result"] for it in found] == ["skipped"] * 2
    assert all("does not answer the host itself" in it["detail"] for it in found)


def _wire(machine: Machine, outside: Namespace) -> None:
    """A link to another machine, which is the gateway."""
    path = f"/proc/{os.getpid()}/fd/{outside.fileno()}"
    machine.node.inside("ip", "link", "add", "wan0", "type", "veth", "peer", "name", "eth0", "netns", path)
    for own, gateway, bits in (
        ("203.0.113.1", "203.0.113.2", "24"),
        ("2001:db8:9::1", "2001:db8:9::2", "64"),
    ):
        machine.node.inside("ip", "address", "add", f"{own}/{bits}", "dev", "wan0", *_nodad(own))
        _inside(outside, "ip", "address", "add", f"{gateway}/{bits}", "dev", "eth0", *_nodad(own))
    machine.node.inside("ip", "link", "set", "wan0", "up")
    _inside(outside, "ip", "link", "set", "eth0", "up")
    machine.node.inside("ip", "route", "add", "default", "via", "203.0.113.2")
    machine.node.inside("ip", "-6", "route", "add", "default", "via", "2001:db8:9::2")
    assert eventually(lambda: machine.reaches("203.0.113.2") and machine.reaches("2001:db8:9::2"))


def _nodad(address: str) -> tuple[str, ...]:
    return ("nodad",) if ":" in address else ()


def _inside(namespace: Namespace, *words: str) -> None:
    subprocess.run(
        ["nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace.fileno()}", *words],
        check=True,
        capture_output=True,
        pass_fds=[namespace.fileno()],
    )


def test_a_limit_that_was_asked_for_is_measured(dual: Machine) -> None:
    outcome = run(dual, "--bandwidth", "40M")

    assert outcome.status == 0, outcome.stdout
    measured = rows(outcome.document, what="bandwidth", result="passed")
    assert {(it["from"], it["to"]) for it in measured} == {("a", "b"), ("b", "a")}


def test_a_limit_of_the_network_is_measured(network: Network) -> None:
    limited = network.of(bandwidth={"ingressRate": 40_000_000, "egressRate": 20_000_000})

    outcome = run(network.machine, limited)

    assert outcome.status == 0, outcome.stdout
    measured = rows(outcome.document, what="bandwidth", result="passed")
    # Both ends are limited, and the tighter limit counts.
    assert [it["detail"].rpartition(" of ")[2] for it in measured] == ["20 Mbit/s"] * 2


def test_containers_that_are_kept_apart_are_refused_and_that_is_right(network: Network) -> None:
    outcome = run(network.machine, network.of(isolation="containers"))

    assert outcome.status == 0, outcome.stdout
    document = outcome.document
    found = {(it["family"], it["from"], it["to"], it["result"]) for it in rows(document, what="isolation")}
    assert found == {
        (family, sender, receiver, "passed")
        for family in ("ipv4", "ipv6")
        for sender, receiver in (("a", "b"), ("b", "a"))
    }
    assert rows(document, what="ping") == []
    assert {it["result"] for it in rows(document, what="port")} == {"passed"}
    assert {it["result"] for it in rows(document, what="spoofing")} == {"passed"}


def test_a_network_of_one_family_without_ports(network: Network) -> None:
    plain = network.of(pools=[{"cidr": "10.81.0.0/24"}], capabilities={})

    outcome = run(network.machine, plain)

    assert outcome.status == 0, outcome.stdout
    assert {it["family"] for it in rows(outcome.document, result="passed")} == {"ipv4"}
    assert all("portMappings" in it["detail"] for it in rows(outcome.document, what="port"))


def test_a_person_gets_a_table(dual: Machine) -> None:
    outcome = dual.on_a_terminal("connectivity", "--cache-dir", str(dual.cli.cache))

    assert outcome.status == 0
    assert outcome.stdout.startswith("WHAT ")
    assert "0 failed" in outcome.stdout.splitlines()[-1]


# What is broken.

_GATE = "type filter hook input priority 0; policy drop; ct state established,related accept;"
_WAY = "type filter hook output priority 0; policy accept; tcp dport 25 drop; ip daddr 198.51.100.0/24 drop;"


def doctors(machine: Machine) -> dict[str, dict[str, Any]]:
    """What `doctor` says of firewalls, by chain."""
    listed = machine.run("doctor", "--json", "--only", "firewall").document["findings"]
    return {it["subject"]: it for it in listed}


def test_a_foreign_table_that_drops_is_named(dual: Machine) -> None:
    subprocess.run(dual.node.command("nft", "-f", "-"), input=_FOREIGN.encode(), check=True)

    outcome = run(dual, *only("ping", "tcp", "mtu", "host"))

    assert outcome.status == 1
    failed = rows(outcome.document, result="failed")
    assert {it["what"] for it in failed} >= {"ping", "tcp"}
    assert {it["code"] for it in failed} == {"foreign-drop"}
    assert {it["subject"] for it in failed} == {"inet strangers keepers"}
    assert {it["next"] for it in failed} == {doctors(dual)["inet strangers keepers"]["next"]}
    # What does not pass that hook still works.
    assert {it["result"] for it in rows(outcome.document, what="host")} == {"passed"}
    assert_nothing_is_left(dual)


def test_a_foreign_table_that_has_nothing_to_do_with_it_is_not_blamed(dual: Machine) -> None:
    """Two drop what they should; the one that is meant for others is not named."""
    both = _FOREIGN.replace("drop", "ip saddr 198.51.100.0/24 drop") + _FOREIGN.replace(
        "strangers", "culprits"
    )
    subprocess.run(dual.node.command("nft", "-f", "-"), input=both.encode(), check=True)

    failed = rows(run(dual, *only("ping")).document, result="failed")

    assert {it["subject"] for it in failed} == {"inet culprits keepers"}


def test_a_foreign_rule_of_one_protocol_is_named_as_a_suspect(dual: Machine) -> None:
    rule = _FOREIGN.replace("drop", "meta l4proto { icmp, ipv6-icmp } drop")
    subprocess.run(dual.node.command("nft", "-f", "-"), input=rule.encode(), check=True)

    document = run(dual, *only("ping", "tcp")).document

    assert {(it["what"], it["code"]) for it in rows(document, result="failed")} == {("ping", "foreign-drop")}
    assert {it["result"] for it in rows(document, what="tcp")} == {"passed"}


def test_a_firewall_of_the_host_that_lets_nobody_in_is_named(dual: Machine) -> None:
    chain = (
        "type filter hook input priority 0; policy drop; ct state established,related accept; "
        "meta l4proto { icmp, ipv6-icmp } accept;"
    )
    dual.node.inside("nft", f"table inet walls {{ chain gate {{ {chain} }}; }}")

    failed = rows(run(dual, *only("host")).document, result="failed")

    assert {(it["from"], it["to"], it["code"]) for it in failed} == {("a", "host", "foreign-drop")}
    assert all("answers pings" in it["detail"] for it in failed)
    found = doctors(dual)["inet walls gate"]
    assert (found["code"], found["severity"]) == ("foreign-drop", "warning")
    assert {(it["subject"], it["next"]) for it in failed} == {(found["subject"], found["next"])}


def test_a_chain_that_accepts_what_fails_is_not_suspected(dual: Machine) -> None:
    """The host's input drops it. Its output has rules that drop, and accepts this."""
    dual.node.inside("nft", f"table inet walls {{ chain gate {{ {_GATE} }}; chain way {{ {_WAY} }}; }}")

    failed = rows(run(dual, *only("host")).document, result="failed")

    assert {(it["from"], it["subject"]) for it in failed} == {("a", "inet walls gate")}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        # The host's end refuses what is too large, and says so.
        ('[ "$container" = b ] && ip link set "$link" mtu 1400', "1400"),
        # A packet that is too large for the far end is lost without a word.
        ('[ "$container" = b ] && nsenter --net="$CNI_NETNS" ip link set eth0 mtu 1400', "1400"),
    ],
)
def test_an_mtu_that_somebody_made_smaller_is_named(network: Network, change: str, told: str) -> None:
    outcome = run(network.machine, network.with_plugin(change), *only("ping", "mtu"))

    assert outcome.status == 1
    failed = rows(outcome.document, result="failed")
    assert {it["what"] for it in failed} == {"mtu"}
    assert {it["code"] for it in failed} == {"path-narrow"}, failed
    assert all(told in it["cause"] for it in failed)
    assert ("a", "b") in {(it["from"], it["to"]) for it in failed}


def test_a_route_that_is_gone_from_a_container_is_named(network: Network) -> None:
    flush = 'nsenter --net="${CNI_NETNS%b}a" ip route flush default'
    broken = network.with_a_halted_agent(flush)

    outcome = run(network.machine, broken, *only("ping", "tcp", "mtu"))

    assert outcome.status == 1
    failed = rows(outcome.document, result="failed")
    assert {it["family"] for it in failed} == {"ipv4"}
    assert {it["code"] for it in failed} == {"route-missing"}
    assert all(it["cause"].startswith("a has no route") for it in failed)
    assert_nothing_is_left(network.machine)


def test_a_route_that_is_gone_from_the_host_is_named(network: Network) -> None:
    broken = network.with_a_halted_agent('ip -6 route del $(ip -6 route | grep -o "^fd80[^ ]* dev $link")')

    outcome = run(network.machine, broken, *only("ping", "tcp", "mtu"))

    assert outcome.status == 1
    failed = rows(outcome.document, result="failed")
    assert {it["family"] for it in failed} == {"ipv6"}
    assert {it["code"] for it in failed} == {"route-missing"}
    assert all("the host has no route to b" in it["cause"] for it in failed)
    assert_nothing_is_left(network.machine)


def test_a_host_that_does_not_forward_is_named(network: Network) -> None:
    broken = network.with_a_halted_agent("sysctl -qw net.ipv4.ip_forward=0")

    outcome = run(network.machine, broken, *only("ping", "tcp", "mtu"))

    failed = rows(outcome.document, result="failed")
    assert {it["code"] for it in failed} == {"sysctl-forwarding"}
    assert {it["family"] for it in failed} == {"ipv4"}


def test_host_ports_without_our_table_are_named(network: Network) -> None:
    broken = network.with_a_halted_agent("nft delete table inet netloom")

    outcome = run(network.machine, broken, *only("port"))

    failed = rows(outcome.document, result="failed")
    assert {(it["what"], it["code"]) for it in failed} == {("port", "table-broken")}


def test_a_limit_that_is_not_kept_is_named(network: Network) -> None:
    """The agent puts back a queue that is missing, and leaves one alone that somebody has changed."""
    limited = network.with_plugin(
        'tc qdisc replace dev "$link" root tbf rate 200mbit burst 1mb latency 50ms',
        bandwidth={"ingressRate": 10_000_000},
    )

    outcome = run(network.machine, limited, *only("tcp", "bandwidth"))

    failed = rows(outcome.document, result="failed")
    assert outcome.status == 1
    assert {(it["what"], it["code"]) for it in failed} == {("bandwidth", "limit-missed")}


def test_an_address_that_is_not_guarded_is_named(network: Network) -> None:
    broken = network.with_a_halted_agent("nft flush chain inet netloom guard")

    outcome = run(network.machine, broken, *only("spoofing"))

    assert outcome.status == 1
    failed = rows(outcome.document, result="failed")
    assert {(it["what"], it["code"]) for it in failed} == {("spoofing", "spoofing-passes")}


def test_containers_that_are_to_be_kept_apart_and_are_not_are_named(network: Network) -> None:
    broken = network.with_a_halted_agent("nft flush chain inet netloom pairs", isolation="containers")

    outcome = run(network.machine, broken, *only("host", "isolation"))

    assert outcome.status == 1
    failed = rows(outcome.document, result="failed")
    assert {(it["what"], it["code"]) for it in failed} == {("isolation", "isolation-leaks")}


def test_an_agent_that_does_not_run_is_an_error_before_anything_is_made(machine: Machine) -> None:
    assert machine.run("down").status == 0

    outcome = run(machine, "--json")

    assert outcome.status == 1
    assert outcome.error["code"] == "agent-not-running"
    assert "netloom up" in outcome.error["next"]
    assert ours() == []
    assert machine.node.intents() == []


def test_an_add_that_fails_half_way_is_undone(network: Network) -> None:
    name = network.with_plugin(
        '[ "$container" = b ] && { echo "{\\"code\\": 120, \\"msg\\": \\"no\\"}"; exit 1; }'
    )

    outcome = run(network.machine, name, "--json")

    assert outcome.status == 1
    assert outcome.error["code"] == 120
    assert_nothing_is_left(network.machine)


def test_a_plugin_that_hangs_ends_in_time(network: Network) -> None:
    name = network.with_plugin('[ "$container" = b ] && sleep 1000')

    begun = time.monotonic()
    outcome = run(network.machine, name, "--timeout", "3", "--json")

    assert outcome.status == 124
    assert time.monotonic() - begun < 40
    assert_nothing_is_left(network.machine)


def test_what_there_was_no_time_for_is_told(dual: Machine) -> None:
    subprocess.run(dual.node.command("nft", "-f", "-"), input=_FOREIGN.encode(), check=True)

    outcome = run(dual, "--timeout", "8")

    assert outcome.status == 124
    assert not outcome.document["in_time"]
    assert any(it["detail"] == "no time left" for it in rows(outcome.document, result="skipped"))
    assert_nothing_is_left(dual)


# Who ends it.


@pytest.fixture
def slow(dual: Machine) -> Machine:
    """A machine on which it takes long enough to be met in the middle."""
    subprocess.run(dual.node.command("nft", "-f", "-"), input=_FOREIGN.encode(), check=True)
    return dual


def in_the_middle(machine: Machine) -> bool:
    """Whether both containers are attached, which their results in the cache tell: `ls` also lists halves."""
    results = machine.cli.cache / "results"
    return eventually(lambda: results.exists() and len(os.listdir(results)) == 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_whoever_ends_it_finds_nothing_left(slow: Machine, number: signal.Signals) -> None:
    process = started(slow)
    assert in_the_middle(slow)
    process.send_signal(number)
    process.send_signal(number)
    _, errors = process.communicate(timeout=_PATIENCE)

    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert_nothing_is_left(slow)


def test_whoever_ends_it_in_the_midst_of_an_add_finds_nothing_left(network: Network) -> None:
    machine = network.machine
    name = network.with_plugin('[ "$container" = b ] && { touch "$0.hangs"; sleep 1000; }')
    process = started(machine, name)
    assert eventually((machine.cli.plugins / "breaker.hangs").exists)
    process.terminate()
    _, errors = process.communicate(timeout=_PATIENCE)

    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in errors
    assert_nothing_is_left(machine)


def test_what_a_killed_run_has_left_goes_with_the_next(slow: Machine) -> None:
    process = started(slow)
    assert in_the_middle(slow)
    process.kill()
    process.communicate(timeout=_PATIENCE)
    assert len(ours()) == 2
    slow.node.inside("nft", "delete", "table", "inet", "strangers")

    outcome = run(slow)

    assert (outcome.status, outcome.document["warnings"]) == (0, [])
    assert_nothing_is_left(slow)


def test_a_run_that_was_killed_in_the_midst_of_an_add_goes_with_the_next(network: Network) -> None:
    machine = network.machine
    name = network.with_plugin(
        '[ -e "$0.hang" ] && [ "$container" = b ] && { touch "$0.hangs"; sleep 1000; }'
    )
    (machine.cli.plugins / "breaker.hang").touch()
    process = started(machine, name)
    assert eventually((machine.cli.plugins / "breaker.hangs").exists)
    process.kill()
    process.communicate(timeout=_PATIENCE)
    _end_sleepers(machine)
    (machine.cli.plugins / "breaker.hang").unlink()

    outcome = run(machine, name)

    assert outcome.status == 0, outcome.stdout
    assert_nothing_is_left(machine)


def _end_sleepers(machine: Machine) -> None:
    """What the plugin has started that nobody waits for any more."""
    mark = str(machine.cli.plugins).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes() and b"sleep" in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def test_a_run_leaves_alone_what_another_one_uses(slow: Machine) -> None:
    first = started(slow)
    assert in_the_middle(slow)
    mine = set(ours())
    # However long the other one takes, this one does not end by itself meanwhile.
    first.send_signal(signal.SIGSTOP)
    second = run(slow, *only("host"))

    assert second.status == 0
    assert mine <= set(ours())
    first.send_signal(signal.SIGCONT)
    first.terminate()
    first.communicate(timeout=_PATIENCE)
    assert_nothing_is_left(slow)


def test_several_at_a_time_do_not_disturb_each_other(dual: Machine) -> None:
    processes = [started(dual) for _ in range(3)]
    outcomes = [(process.communicate(timeout=_PATIENCE), process.returncode) for process in processes]

    for (output, errors), status in outcomes:
        assert status == 0, output + errors
    assert_nothing_is_left(dual)


def test_an_agent_that_dies_in_the_middle_finds_its_work_later(slow: Machine) -> None:
    process = started(slow, "--timeout", "8")
    assert in_the_middle(slow)
    slow.end_agent()
    output, errors = process.communicate(timeout=_PATIENCE)

    assert process.returncode in (1, 124), errors
    document = json.loads(output)
    assert document["left"] == []
    assert any("DEL" in it for it in document["warnings"])
    assert ours() == []
    slow.brought_up()
    assert eventually(lambda: slow.listed() == [])


def test_what_is_kept_is_there_until_it_is_removed_as_told(dual: Machine) -> None:
    outcome = run(dual, "--keep", *only("ping"))

    assert outcome.status == 0
    kept = [it["containerID"] for it in outcome.document["containers"]]
    assert sorted(ours()) == sorted(kept)
    assert run(dual, *only("ping")).status == 0
    assert sorted(ours()) == sorted(kept), "a later run has removed what was to be kept"
    for line in outcome.document["removal"]:
        words = shlex.split(line)
        if words[0] == "netloom":
            done = dual.run(*words[1:], "--cache-dir", str(dual.cli.cache))
            assert done.status == 0, done.stderr
        else:
            subprocess.run(words, check=True)
    assert_nothing_is_left(dual)


# How it is called.


def test_without_a_name_there_must_be_one_networkonly(dual: Machine) -> None:
    Network(dual, "another").of()

    outcome = run(dual, "--json")

    assert outcome.status == 2
    assert outcome.error["code"] == "network-unnamed"
    assert "another" in outcome.error["next"]
    assert run(dual, "another", *only("ping")).status == 0


@pytest.mark.parametrize(
    "words", [("--skip", "everything"), ("--bandwidth", "fast"), ("--bandwidth", "1"), ("nosuch",)]
)
def test_what_cannot_be_is_refused_before_anything_is_made(machine: Machine, words: tuple[str, ...]) -> None:
    outcome = run(machine, *words)

    assert outcome.status in (2, 3)
    assert outcome.stdout == ""
    assert ours() == []


# Its parts.


def test_a_namespace_without_a_lock_is_abandoned_and_one_in_use_is_not() -> None:
    name = f"{namespaces.PREFIX}{os.getpid()}-x"
    made = namespaces.make(name)
    try:
        assert name not in set(namespaces.leaked())
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        assert name in listed.split()
        made.close()
        assert name in set(namespaces.leaked())
    finally:
        namespaces.remove(name)
    namespaces.remove(name)  # once more is fine
    assert not os.path.exists(namespaces.path_of(name))


def test_a_file_that_was_to_become_a_namespace_is_abandoned() -> None:
    name = f"{namespaces.PREFIX}{os.getpid()}-y"
    made = namespaces.make(f"{namespaces.PREFIX}{os.getpid()}-z")  # so that the directory is there
    try:
        Path(namespaces.path_of(name)).touch()
        assert name in set(namespaces.leaked())
    finally:
        namespaces.remove(name)
        namespaces.remove(f"{namespaces.PREFIX}{os.getpid()}-z")
        made.close()


def test_a_container_that_answers_in_the_gateways_place_is_not_taken_for_it(machine: Machine) -> None:
    holder = machine.attach(machine.node.container())
    gateway = holder["ips"][0]["address"].partition("/")[0]
    machine.node.inside("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
    for line in ("link set up0 up", "link set up1 up", f"route add default via {gateway} dev up0 onlink"):
        machine.node.inside("ip", *line.split())
    done = run(machine, *only("out"))
    (out,) = [it for it in rows(done.document, what="out") if it["family"] == "ipv4"]
    assert (done.status, out["result"], out["code"]) == (1, "failed", "address-clash")

    def findings() -> list[str]:
        return [it["code"] for it in machine.run("status", "--json").document["findings"]]

    assert eventually(lambda: "address-clash" in findings())


def test_on_a_host_that_has_ipv6_alone_both_families_work(bare: Machine) -> None:
    """Without any IPv4 address but that of its loopback."""
    for line in ("link add up0 type bridge", "link set up0 up", "address add 2001:db8::1/64 dev up0 nodad"):
        bare.node.inside("ip", *line.split())
    bare.brought_up()
    done = run(bare, *only("ping", "tcp", "host"))
    assert (done.status, rows(done.document, result="failed")) == (0, [])
    passed = {(it["what"], it["family"]) for it in rows(done.document, result="passed")}
    assert passed == {(what, family) for what in ("ping", "tcp", "host") for family in ("ipv4", "ipv6")}
    assert bare.run("status", "--json").document["findings"] == []
