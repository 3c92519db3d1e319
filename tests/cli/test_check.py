"""`netloom check`: what differs is told; with --repair it is set right, and nothing of others' goes."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from netloom.api.catalogue import ENTRIES
from netloom.kernel.objects.link import GROUP

from ..fixtures.cli import PATIENCE, Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

LIMITS = {
    "ingressRate": 8_000_000,
    "ingressBurst": 4_000_000,
    "egressRate": 8_000_000,
    "egressBurst": 4_000_000,
}


class Attached(NamedTuple):
    machine: Machine
    container: str
    link: str
    key: str

    def inside(self, *words: str) -> None:
        self.machine.node.in_container(self.container, *words)

    def outside(self, *words: str) -> str:
        return self.machine.node.inside(*words)

    def check(self, *words: str) -> Outcome:
        return self.machine.run("check", *words, "--json")

    def codes(self, *words: str) -> list[str]:
        return [it["code"] for it in self.check(*words).document["findings"]]

    @property
    def address(self) -> str:
        return "10.78.0.1"

    def works(self) -> bool:
        return self.machine.reaches(self.address) and self.machine.node.ping(self.container, "192.0.2.1")


@pytest.fixture
def calm(machine: Machine) -> Machine:
    """Its agent looks after attachments only once a minute: there is time to see what is wrong."""
    machine.run("down")
    machine.node.start("--tick", "60")
    return machine


@pytest.fixture
def attached(calm: Machine) -> Attached:
    container = calm.node.container()
    calm.attach(container, CAP_ARGS=json.dumps({"bandwidth": LIMITS}))
    (listed,) = calm.listed()
    key = f"{listed['network']}/{listed['containerID']}/{listed['ifName']}"
    return Attached(calm, container, listed["hostLink"], key)


def test_what_is_as_planned_is_well(attached: Attached) -> None:
    for words in ((), ("netloom",), (attached.container,), (attached.key,), (attached.address,)):
        outcome = attached.check(*words)
        assert (outcome.status, outcome.stderr) == (0, "")
        document = outcome.document
        assert document == {
            "attachments": [attached.key], "repaired": None, "table": False, "findings": []
        }  # fmt: skip


Change = Callable[[Attached], object]


def _way(*words: str) -> Change:
    return lambda it: it.inside("ip", "route", *words)


def _neighbour(address: str, link: str) -> tuple[str, ...]:
    return ("ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:07", "dev", link, "nud", "permanent")


def _queue(*words: str) -> Change:
    return lambda it: it.outside("tc", "qdisc", "replace", "dev", it.link, "root", "handle", *words)


def _element(verb: str, rest: str = "") -> Change:
    return lambda it: it.outside(
        "nft", verb, "element", "inet", "netloom", "leaving4", f"{{ {it.address}{rest} }}"
    )


def _all(*changes: Change) -> Change:
    return lambda it: [change(it) for change in changes]


def _address(*words: str) -> Change:
    return lambda it: it.inside("ip", "address", *words, "dev", "eth0")


def _redirect_to_lo(it: Attached) -> None:
    filters = ("tc", "filter")
    it.outside(*filters, "del", "dev", it.link, "ingress")
    it.outside(
        *filters, "add", "dev", it.link, "ingress", "prio", "1", "u32", "match", "u32", "0", "0",
        "action", "mirred", "egress", "redirect", "dev", "lo",
    )  # fmt: skip


_NO_WAY_OUT = _way("del", "default")

# What somebody may change of an attachment, and what `netloom check` calls it.
CHANGES: dict[str, tuple[Change, str]] = {
    "the container's MTU": (
        lambda it: it.inside("ip", "link", "set", "eth0", "mtu", "1400"),
        "object-changed",
    ),
    "the host's MTU": (lambda it: it.outside("ip", "link", "set", it.link, "mtu", "1400"), "object-changed"),
    "the host's MAC": (
        lambda it: it.outside("ip", "link", "set", it.link, "address", "ee:6e:6c:00:00:09"),
        "object-changed",
    ),
    "another way out": (_way("replace", "default", "dev", "lo"), "object-changed"),
    "another IPv6 way out": (
        lambda it: it.inside("ip", "-6", "route", "replace", "default", "metric", "1024", "dev", "lo"),
        "object-changed",
    ),
    "no way out": (_NO_WAY_OUT, "object-missing"),
    "a route with another metric": (
        _all(
            _NO_WAY_OUT,
            _way("add", "default", "via", "169.254.1.1", "dev", "eth0", "onlink", "metric", "9"),
        ),
        "object-missing",
    ),
    "a route of the host's": (
        lambda it: it.outside("ip", "route", "replace", f"{it.address}/32", "dev", "lo"),
        "object-changed",
    ),
    "an address with another prefix": (
        _all(_address("add", "10.78.0.1/24"), _address("del", "10.78.0.1/32")),
        "object-changed",
    ),
    "an IPv6 address with another prefix": (
        _all(_address("del", "fd78::1/128"), _address("add", "fd78::1/64", "nodad")),
        "object-changed",
    ),
    "an address that does not last": (
        _address("change", "10.78.0.1/32", "valid_lft", "900", "preferred_lft", "900"),
        "object-changed",
    ),
    "a neighbour of the host's": (lambda it: it.outside(*_neighbour(it.address, it.link)), "object-changed"),
    "a neighbour of the container's": (
        lambda it: it.inside(*_neighbour("169.254.1.1", "eth0")),
        "object-changed",
    ),
    "a setting": (
        lambda it: it.outside("sysctl", "-qw", f"net.ipv6.conf.{it.link}.accept_ra=1"),
        "object-changed",
    ),
    "another queue": (_queue("1:", "pfifo"), "object-changed"),
    "another rate": (
        _queue("6e6c:", "tbf", "rate", "1mbit", "burst", "10kb", "limit", "10kb"),
        "object-changed",
    ),
    "another link that what it sends waits in": (_redirect_to_lo, "object-changed"),
    "an element of the firewall": (_element("delete"), "object-missing"),
    "an element of the firewall that says something else": (
        _all(_element("delete"), _element("add", " : drop")),
        "object-changed",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_told_and_set_right(attached: Attached, what: str) -> None:
    change, code = CHANGES[what]
    change(attached)
    outcome = attached.check(attached.container)
    assert outcome.status == 1
    findings = outcome.document["findings"]
    assert code in {it["code"] for it in findings}
    assert {it["subject"] for it in findings} == {attached.key}
    repaired = attached.check(attached.container, "--repair")
    assert (repaired.status, repaired.document["findings"]) == (0, []), repaired.stdout
    (done,) = repaired.document["repaired"]
    assert done["attachment"] == attached.key
    assert done["putBack"] or done["setRight"]
    assert (done["recreated"], done["left"], done["error"]) == (False, [], "")
    assert attached.works()
    assert attached.codes() == []


def test_a_repair_does_not_wait_for_an_agent_that_is_halted(attached: Attached) -> None:
    CHANGES["the container's MTU"][0](attached)
    assert attached.machine.node.agent is not None
    attached.machine.node.agent.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    outcome = attached.check("--repair")
    assert time.monotonic() - began < 30
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (124, "", "agent-halted")
    attached.machine.node.agent.send_signal(signal.SIGCONT)
    assert attached.check("--repair").status == 0


def test_many_things_at_once_are_set_right_and_told_as_one_event(attached: Attached) -> None:
    for what in ("the container's MTU", "the host's MAC", "another way out", "a setting", "another rate"):
        CHANGES[what][0](attached)
    assert attached.check("--repair").status == 0
    assert attached.works()

    def repairs() -> list[Any]:
        return [it for it in attached.machine.node.ledger().operations() if it.verb == "REPAIR"]

    assert eventually(lambda: len(repairs()) == 1)
    assert str(attached.key) == "/".join(
        (repairs()[0].network, repairs()[0].container_id, repairs()[0].ifname)
    )


def test_a_container_keeps_its_link_when_it_is_set_right(attached: Attached) -> None:
    """Its index is another's whenever a link is made anew."""
    before = attached.outside("ip", "-j", "link", "show", attached.link)
    for what in ("the container's MTU", "the host's MAC", "an address with another prefix", "another queue"):
        CHANGES[what][0](attached)
    assert attached.check("--repair").status == 0
    after = attached.outside("ip", "-j", "link", "show", attached.link)
    assert json.loads(after)[0]["ifindex"] == json.loads(before)[0]["ifindex"]


def test_a_link_is_made_anew_only_if_that_was_said(attached: Attached) -> None:
    attached.inside("ip", "link", "set", "eth0", "down")
    attached.inside("ip", "link", "set", "eth0", "name", "other")
    refused = attached.check(attached.container, "--repair")
    assert refused.status == 1
    assert {it["code"] for it in refused.document["findings"]} == {"object-missing", "object-changed"}
    assert all("--recreate" in it["next"] for it in refused.document["findings"])
    assert attached.machine.links_of(attached.container) == {"lo", "other"}
    done = attached.check(attached.container, "--repair", "--recreate")
    assert (done.status, done.document["repaired"][0]["recreated"]) == (0, True)
    assert attached.works()
    assert attached.codes() == []


def test_what_stands_in_the_place_of_our_link_and_is_not_ours_stays(attached: Attached) -> None:
    """Its name may be ours; it is not."""
    agent = attached.machine.node.agent
    assert agent is not None
    agent.send_signal(signal.SIGSTOP)
    attached.outside("ip", "link", "del", attached.link)
    attached.outside("ip", "link", "add", attached.link, "type", "veth", "peer", "name", "stranger")
    before = json.loads(attached.outside("ip", "-j", "link", "show", attached.link))
    agent.send_signal(signal.SIGCONT)
    for words in (("--repair",), ("--repair", "--recreate")):
        outcome = attached.check(attached.container, *words)
        assert outcome.status == 1
        (done,) = outcome.document["repaired"]
        assert done["left"] or done["error"]
        after = json.loads(attached.outside("ip", "-j", "link", "show", attached.link))
        assert [(it["ifindex"], it["address"]) for it in after] == [
            (it["ifindex"], it["address"]) for it in before
        ]


def test_addresses_that_somebody_added_are_left_and_told(attached: Attached) -> None:
    attached.inside("ip", "address", "add", "10.99.0.1/32", "dev", "eth0")
    for words in ((), ("--repair",), (attached.container,), (attached.container, "--repair", "--recreate")):
        outcome = attached.check(*words)
        assert outcome.status == 1
        (finding,) = outcome.document["findings"]
        assert (finding["code"], finding["subject"]) == ("address-foreign", attached.key)
        assert "ip address del 10.99.0.1/32 dev eth0" in finding["next"]
    listed = attached.machine.node.in_container(attached.container, "ip", "-4", "address").stdout
    assert "10.99.0.1/32" in listed


def test_routes_that_somebody_added_stay(attached: Attached) -> None:
    attached.inside("ip", "route", "add", "198.51.100.0/24", "via", "169.254.1.1", "dev", "eth0", "onlink")
    CHANGES["another way out"][0](attached)
    assert attached.check("--repair").status == 0
    listed = attached.machine.node.in_container(attached.container, "ip", "route").stdout
    assert "198.51.100.0/24" in listed


def test_a_flushed_ruleset_is_told_while_no_agent_runs(attached: Attached) -> None:
    attached.machine.end_agent()
    attached.outside("nft", "flush", "ruleset")
    assert "table-broken" in attached.codes()


def test_a_flushed_ruleset_is_laid_down(attached: Attached) -> None:
    """By the agent, as soon as the kernel tells of it, or by the command."""
    attached.outside("nft", "flush", "ruleset")
    assert attached.check("--repair").status == 0
    assert attached.works()


def test_what_the_agent_is_just_doing_is_no_finding(machine: Machine) -> None:
    """An agent that looks every second has put it back by the second look."""
    container = machine.node.container()
    machine.attach(container)
    machine.end_agent()
    machine.node.start("--tick", "0.05")
    machine.node.in_container(container, "ip", "route", "del", "default")
    assert eventually(lambda: machine.run("check", "--json").status == 0)


def found(machine: Machine, *words: str) -> set[str]:
    return {it["code"] for it in machine.run(*(words or ("check",)), "--json").document["findings"]}


def assert_under_way_at_most(looks: list[set[str]]) -> None:
    """Of codes that were found while containers came and went."""
    assert not any({"link-orphaned", "element-orphaned"} & codes for codes in looks), looks
    # On a machine that has much else to do, one may be unfinished at every look of a run, but not of all.
    assert any(not codes & {"object-missing", "attachment-unfinished"} for codes in looks), looks


def test_containers_that_come_and_go_are_no_findings(machine: Machine) -> None:
    containers = [machine.node.container() for _ in range(8)]
    looks = []
    for verb in ("ADD", "DEL") * 3:
        begun = [machine.node.begin(verb, it) for it in containers]
        looks.append(found(machine))
        assert [it.wait(PATIENCE) for it in begun] == [0] * len(containers)
        for it in begun:
            it.communicate()
        # A DEL that took too long is done a moment later.
        assert eventually(lambda: found(machine) == set())
    assert_under_way_at_most(looks)
    assert set() in looks, looks


@pytest.mark.parametrize("words", [("check",), ("check", "--repair"), ("doctor",)], ids=" ".join)
def test_links_of_containers_that_come_and_go_all_the_time_are_nobodys_orphans(
    machine: Machine, words: tuple[str, ...]
) -> None:
    machine.attach(machine.node.container())
    over = threading.Event()

    def come_and_go(container: str) -> None:
        while not over.is_set():
            for verb in ("ADD", "DEL"):
                assert machine.node.ask(verb, container).status == 0

    with ThreadPoolExecutor() as executor:
        going = [executor.submit(come_and_go, machine.node.container()) for _ in range(3)]
        try:
            looks = [found(machine, *words) for _ in range(4)]
        finally:
            over.set()
        for it in going:
            it.result()
    assert_under_way_at_most(looks)


def test_an_orphan_is_still_told_after_a_repair(attached: Attached) -> None:
    attached.outside("ip", "link", "add", "loomstray", "group", str(GROUP), "type", "bridge")
    for words in ((), ("--repair",)):
        assert attached.codes(*words) == ["link-orphaned"]


def test_without_an_agent_it_is_compared_and_not_repaired(attached: Attached) -> None:
    attached.machine.node.stop()
    attached.inside("ip", "route", "del", "default")
    assert attached.codes() == ["object-missing"]
    outcome = attached.check("--repair")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert outcome.error["code"] == "agent-not-running"
    assert "netloom up" in outcome.error["next"]
    assert attached.codes() == ["object-missing"]


def test_a_network_is_checked_by_itself(attached: Attached) -> None:
    node = attached.machine.node
    other = node.container()
    node.add(other, node.config("second"))
    node.in_container(other, "ip", "link", "set", "eth0", "mtu", "1400")
    assert attached.codes("netloom") == []
    assert attached.codes("second") == ["object-changed"]
    assert attached.codes() == ["object-changed"]


def test_an_attachment_whose_namespace_is_gone_is_told_and_not_repaired(attached: Attached) -> None:
    attached.machine.node.remove_container(attached.container)
    assert eventually(lambda: attached.codes() == ["netns-stale"])
    outcome = attached.check("--repair")
    assert outcome.status == 1
    assert "netloom gc" in outcome.document["repaired"][0]["error"]


@pytest.mark.parametrize("step", ["kernel.taken:kill:1", "kernel.taken:kill:4", "kernel.made:kill:9"])
def test_an_agent_that_dies_while_it_makes_a_link_anew_leaves_what_the_next_can_finish(
    attached: Attached, step: str
) -> None:
    machine = attached.machine
    machine.node.stop()
    machine.node.start("--tick", "60", environment={"NETLOOM_FAILPOINT": step})
    attached.inside("ip", "link", "set", "eth0", "down")
    attached.inside("ip", "link", "set", "eth0", "name", "other")
    outcome = attached.check(attached.container, "--repair", "--recreate")
    assert (outcome.status != 0, outcome.stdout) == (True, "")
    assert machine.node.wait(20) == -signal.SIGKILL
    machine.node.start("--tick", "60")
    assert eventually(lambda: attached.check("--repair", "--recreate").status == 0)
    assert attached.works()


@pytest.mark.parametrize("words", [("--recreate",), ("a", "b"), ("--nonsense",)], ids=str)
def test_what_cannot_be_asked_is_refused(machine: Machine, words: tuple[str, ...]) -> None:
    assert machine.run("check", *words, "--json").status == 2


def test_a_name_that_nobody_has_is_an_error(machine: Machine) -> None:
    for words in (("nobody",), ("nobody", "--repair")):
        outcome = machine.run("check", *words, "--json")
        assert (outcome.status, outcome.error["code"]) == (1, "not-attached")
    assert machine.run("check", "netloom", "--json").document["attachments"] == []


def test_a_machine_without_anything_has_nothing_wrong(bare: Machine) -> None:
    assert bare.run("check", "--json").status == 0
    assert bare.run("check", "--repair", "--json").status == 0


def test_a_journal_that_contradicts_itself_is_found(attached: Attached) -> None:
    attached.machine.node.stop()
    with closing(sqlite3.connect(attached.machine.journal)) as connection, connection:
        connection.execute(
            "UPDATE address SET ip = ? WHERE ip = ?", (bytes([10, 78, 9, 9]), bytes([10, 78, 0, 1]))
        )
    assert set(attached.codes()) == {"address-inconsistent"}


def test_every_finding_has_a_page(attached: Attached) -> None:
    attached.machine.end_agent()
    attached.outside("nft", "flush", "ruleset")
    CHANGES["the container's MTU"][0](attached)
    attached.inside("ip", "address", "add", "10.99.0.1/32", "dev", "eth0")
    codes = attached.codes()
    assert set(codes) > {"table-broken", "object-changed", "address-foreign"}
    assert set(codes) <= set(ENTRIES)


def test_on_a_terminal_it_says_what_was_done(attached: Attached) -> None:
    assert "all as planned" in attached.machine.on_a_terminal("check").stdout
    CHANGES["the container's MTU"][0](attached)
    shown = attached.machine.on_a_terminal("check", attached.container)
    assert (shown.status, "object-changed" in shown.stdout) == (1, True)
    done = attached.machine.on_a_terminal("check", "--repair")
    assert done.status == 0
    assert f"set right: veth {attached.link}" in done.stdout
