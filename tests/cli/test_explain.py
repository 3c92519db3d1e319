"""`netloom explain`: what was asked, what came of it, how it is, and what to do."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from netloom.api.catalogue import ENTRIES
from netloom.api.times import shown

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel


def pod(namespace: str, name: str) -> str:
    return f"IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}"


def logged(machine: Machine, verb: str, count: int = 1) -> bool:
    """Whether the log has it by now: it is written when nothing else is to be done."""
    return eventually(lambda: sum(it.verb == verb for it in machine.node.ledger().operations()) >= count)


def codes(outcome: Outcome) -> list[str]:
    return [it["code"] for it in outcome.document["findings"]]


class Shop:
    """A node with three pods: one attached, one deleted, one that could not be attached."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.attached, self.gone, self.failed = (machine.node.container() for _ in range(3))
        machine.attach(self.attached, CNI_ARGS=pod("shop", "api-0"))
        machine.attach(self.gone, CNI_ARGS=pod("shop", "api-1"))
        self.gone_id = self.listed("api-1")["containerID"]
        assert machine.cni("del", self.gone, CNI_ARGS=pod("shop", "api-1")).status == 0
        self.deleted = time.time()
        refused = machine.cni("add", self.failed, CNI_ARGS=f"{pod('shop', 'api-2')};IP=10.78.0.1")
        assert refused.status == 1
        assert logged(machine, "ADD", 3)
        self.id = self.listed("api-0")["containerID"]
        self.link = self.listed("api-0")["hostLink"]

    def listed(self, name: str) -> Any:
        return next(it for it in self.machine.listed() if it["workload"]["pod"] == name)

    def explain(self, *words: str) -> Outcome:
        return self.machine.told("explain", *words, "--json")


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as made:
        made.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
        made.brought_up()
        yield Shop(made)


@pytest.mark.parametrize("way", ["pod", "name", "id", "beginning", "path", "namespace", "key", "link", "of"])
def test_an_attachment_is_found_by_whatever_names_it(shop: Shop, way: str) -> None:
    names = {
        "pod": "shop/api-0",
        "name": "api-0",
        "id": shop.id,
        "beginning": shop.id[:14],
        "path": f"/run/netns/{shop.attached}",
        "namespace": shop.attached,
        "key": f"netloom/{shop.id}/eth0",
        "link": shop.link,
        "of": f"netloom/{shop.id[:14]}",
    }
    outcome = shop.explain(names[way])
    assert (outcome.status, outcome.stderr) == (0, "")
    (found,) = outcome.document["attachments"]
    assert (found["containerID"], found["ifName"], found["pod"]) == (shop.id, "eth0", "api-0")


def test_what_is_attached_is_told_with_what_was_asked_and_every_phase(shop: Shop) -> None:
    outcome = shop.explain("shop/api-0")
    document = outcome.document
    (present,) = document["attachments"]
    assert present["addresses"] == ["10.78.0.1", "fd78::1"]
    assert (present["state"], present["presence"], present["differing"]) == ("committed", "there", [])
    assert present["planned"] > 10
    (add,) = document["operations"]
    assert (add["verb"], add["code"], add["addresses"]) == ("ADD", 0, ["10.78.0.1", "fd78::1"])
    assert add["caller"].startswith("netloom[")
    assert list(add["phases"]) == ["judge", "queue", "reserve", "kernel", "commit", "answer"]
    assert sum(add["phases"].values()) == pytest.approx(add["duration"], rel=0.2, abs=1)
    assert document["findings"] == []
    assert document["since"] <= add["started"]


def test_what_was_deleted_is_told_and_is_no_fault(shop: Shop) -> None:
    outcome = shop.explain("shop/api-1")
    assert outcome.status == 0
    document = outcome.document
    assert (document["attachments"], document["findings"]) == ([], [])
    assert [it["verb"] for it in document["operations"]] == ["ADD", "DEL"]


def test_an_add_that_failed_is_told_with_its_code_and_its_remedy(shop: Shop) -> None:
    outcome = shop.explain("shop/api-2")
    assert outcome.status == 1
    (finding,) = outcome.document["findings"]
    assert (finding["code"], finding["severity"]) == ("add-failed", "error")
    assert finding["subject"].startswith("netloom/cnitool-")
    assert finding["next"]
    failed = next(it for it in outcome.document["operations"] if it["verb"] == "ADD")
    assert failed["code"] == 101
    assert "reserve" not in failed["phases"]


def test_a_pod_that_was_attached_after_it_failed_is_well(shop: Shop) -> None:
    machine = shop.machine
    container = machine.node.container()
    assert machine.cni("add", container, CNI_ARGS=f"{pod('shop', 'late')};IP=10.78.0.1").status == 1
    assert machine.cni("del", container, CNI_ARGS=pod("shop", "late")).status == 0
    machine.attach(container, CNI_ARGS=pod("shop", "late"))
    assert eventually(lambda: len(shop.explain("shop/late").document["operations"]) >= 3)
    outcome = shop.explain("shop/late")
    assert (outcome.status, codes(outcome)) == (0, [])


def test_who_had_an_address_is_told_for_any_moment(shop: Shop) -> None:
    """api-1 had it; nobody does since."""
    address = shop.explain("10.78.0.2").document["address"]
    assert address["state"] == "resting"
    assert time.time() < address["restsUntil"] < time.time() + 131
    (tenure,) = address["tenures"]
    assert (tenure["pod"], tenure["containerID"], tenure["current"]) == ("api-1", shop.gone_id, False)
    middle = (tenure["began"] + tenure["ended"]) / 2
    for moment, holder in ((middle, "api-1"), (tenure["ended"] + 0.001, None)):
        outcome = shop.explain("10.78.0.2", "--at", f"@{moment}")
        assert outcome.status == 0
        at = outcome.document["address"]["at"]
        assert at["known"]
        assert (at["holder"] or {"pod": None})["pod"] == holder


def test_a_local_clock_is_understood_for_an_address(shop: Shop) -> None:
    moment = math.ceil(shop.deleted)  # it is told in whole seconds, and the log began a moment before
    assert eventually(lambda: time.time() >= moment)
    outcome = shop.explain("10.78.0.1", "--at", shown(moment))
    assert outcome.document["address"]["at"]["known"]


def test_before_the_log_begins_nothing_is_claimed(shop: Shop) -> None:
    outcome = shop.explain("10.78.0.2", "--at", "3d ago")
    assert outcome.status == 1
    at = outcome.document["address"]["at"]
    assert (at["known"], at["holder"]) == (False, None)
    assert "begins at" in at["why"]


def test_who_has_an_address_now_is_told_in_both_families(shop: Shop) -> None:
    for address in ("10.78.0.1", "fd78::1", "fd78:0:0::1", "10.78.0.1/32", "[fd78::1]"):
        outcome = shop.explain(address)
        assert outcome.status == 0, address
        assert outcome.document["address"]["state"] == "held"
        assert outcome.document["attachments"][0]["pod"] == "api-0"
        assert outcome.document["address"]["tenures"][0]["current"]


@pytest.mark.parametrize(
    ("address", "state"),
    [
        ("10.78.200.1", "free"),
        ("192.0.2.1", "host"),
        ("198.51.100.7", "outside"),
        ("10.78.255.255", "never given"),
        ("169.254.1.1", "next hop"),
        ("fe80::1", "next hop"),
    ],
)
def test_an_address_that_nobody_holds_is_told_for_what_it_is(shop: Shop, address: str, state: str) -> None:
    outcome = shop.explain(address)
    assert (outcome.status, outcome.document["address"]["state"]) == (0, state)


def test_the_network_and_the_pool_of_an_address_are_named(shop: Shop) -> None:
    address = shop.explain("10.78.200.1").document["address"]
    assert (address["pools"], address["networks"]) == (["10.78.0.0/16"], ["netloom"])


def test_what_never_arrived_is_told_with_what_runtimes_load(shop: Shop) -> None:
    outcome = shop.explain("nobody")
    assert (outcome.status, codes(outcome)[0]) == (1, "never-asked")
    document = outcome.document
    assert document["kind"] == "unknown"
    (file,) = document["absence"]["configurations"]
    assert file == {
        "path": str(shop.machine.conflist),
        "network": "netloom",
        "plugins": ["netloom"],
        "ours": True,
        "error": "",
    }
    assert document["absence"]["agent"] == ""
    assert document["since"] > 0


def test_names_that_look_like_it_are_offered(shop: Shop) -> None:
    assert "shop/api-0" in shop.explain("shop/apl-0").document["absence"]["similar"]
    assert "pool-exhausted" in shop.explain("pool-exhaust").document["absence"]["similar"]
    assert shop.id in shop.explain(f"{shop.id[:16]}zzzz").document["absence"]["similar"]


def test_a_namespace_of_that_name_elsewhere_is_offered_by_its_path_and_never_the_word_itself(
    machine: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "xenon"
    path.symlink_to(f"/run/netns/{machine.node.container()}")
    cache = ("--cache-dir", str(machine.cli.cache))
    assert machine.run("cni", "add", "netloom", str(path), *cache).status == 0
    document = machine.run("explain", "xenon", "--json").document
    assert document["absence"]["similar"] == [str(path)]
    assert machine.run("explain", str(path)).status == 0


def test_a_file_that_runtimes_load_first_is_named(shop: Shop) -> None:
    other = shop.machine.cli.networks / "05-other.conflist"
    other.write_text(json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "bridge"}]}))
    try:
        outcome = shop.explain("nobody")
    finally:
        other.unlink()
    assert "network-shadowed" in codes(outcome)
    first = outcome.document["absence"]["configurations"][0]
    assert (first["network"], first["plugins"], first["ours"]) == ("other", ["bridge"], False)
    shadowed = next(it for it in outcome.document["findings"] if it["code"] == "network-shadowed")
    assert shadowed["subject"] == str(other)


def test_a_first_file_that_cannot_be_read_is_told_with_its_error(shop: Shop) -> None:
    broken = shop.machine.cli.networks / "01-broken.conflist"
    broken.write_text("{")
    try:
        first = shop.explain("nobody").document["absence"]["configurations"][0]
    finally:
        broken.unlink()
    assert (first["path"], first["network"]) == (str(broken), "")
    assert first["error"]


def test_runtimes_that_look_elsewhere_are_named(shop: Shop, tmp_path: Path) -> None:
    """With files of their own, in a mount namespace of the test's."""
    containerd = tmp_path / "containerd"
    containerd.mkdir()
    (containerd / "config.toml").write_text(
        'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
        '[plugins."io.containerd.grpc.v1.cri".cni]\nconf_dir = "/somewhere/net.d"\n'
    )
    containers = tmp_path / "containers"
    containers.mkdir()
    (containers / "containers.conf").write_text('[network]\nnetwork_backend = "netavark"\n')
    script = (
        f"mkdir -p /etc/containerd /etc/containers && mount --bind {containerd} /etc/containerd && "
        f'mount --bind {containers} /etc/containers && exec "$@"'
    )
    outcome = shop.machine.run(
        "explain", "nobody", "--json", prefix=("unshare", "--mount", "sh", "-c", script, "sh")
    )
    found = {it["name"]: it for it in outcome.document["absence"]["runtimes"]}
    assert found["containerd"]["confDir"] == "/somewhere/net.d"
    assert found["containerd"]["path"] == "/etc/containerd/config.toml"
    assert (found["podman"]["confDir"], "netavark" in found["podman"]["note"]) == ("", True)
    elsewhere = [it for it in outcome.document["findings"] if it["code"] == "runtime-elsewhere"]
    assert {it["subject"] for it in elsewhere} >= {"containerd", "podman"}


def test_a_beginning_that_several_have_lists_them(shop: Shop) -> None:
    outcome = shop.explain("cnitool-")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.error["code"] == "ambiguous-name"
    assert shop.id in outcome.error["error"]


def test_a_pod_that_two_namespaces_have_lists_them(shop: Shop) -> None:
    machine = shop.machine
    for namespace in ("east", "west"):
        machine.attach(machine.node.container(), CNI_ARGS=pod(namespace, "twin"))
    assert eventually(lambda: shop.explain("west/twin").status == 0)
    outcome = shop.explain("twin")
    assert outcome.status == 2
    assert all(f"{it}/twin" in outcome.error["error"] for it in ("east", "west"))


def of_podman(machine: Machine, name: str, container_id: str) -> str:
    """A container as podman attaches it: its name is a pod's, of no namespace. The path of its namespace."""
    container = machine.node.container()
    variables = {"CNI_CONTAINERID": container_id, "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAME={name}"}
    config = json.loads(machine.conflist.read_text())
    document = {**config["plugins"][0], "name": config["name"], "cniVersion": config["cniVersion"]}
    machine.node.add(container, json.dumps(document).encode(), **variables)
    return f"/run/netns/{container}"


def advised(outcome: Outcome) -> list[list[str]]:
    """The commands that a name with several meanings is answered with, as a shell takes them."""
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (2, "", "ambiguous-name")
    return [shlex.split(it) for it in re.findall(r"`([^`]*)`", outcome.error["next"])]


@pytest.mark.parametrize("command", ["explain", "inspect", "check"])
def test_each_command_that_an_ambiguous_name_is_answered_with_picks_another(
    machine: Machine, command: str
) -> None:
    name = machine.node.container()
    machine.attach(name)  # by the path of its namespace
    ids = ["3f2a9c81" * 8, "4f2a9c81" * 8]
    for it in ids:
        of_podman(machine, name, it)
    (namespace,) = [it["containerID"] for it in machine.listed() if it["containerID"] not in ids]
    commands = advised(machine.run(command, name, "--json"))
    assert len(commands) == 3
    found = []
    for program, *words in commands:
        assert program == "netloom"
        outcome = machine.run(*words)
        assert outcome.status == 0, outcome.stderr
        found.append(machine.run("inspect", words[1], "--json").document)
    assert sorted(it["containerID"] for (it,) in found) == sorted([namespace, *ids])


def test_a_container_that_has_the_name_of_a_pod_can_be_picked(machine: Machine) -> None:
    name = "shop"
    of_podman(machine, "other", name)
    of_podman(machine, name, "3f2a9c81" * 8)
    commands = advised(machine.run("explain", name, "--limit", "3", "--json"))
    told = [machine.run(*words).document for _, *words in commands]
    assert {it["operations"][-1]["containerID"] for it in told} == {name, "3f2a9c81" * 8}
    assert all(words[-3:] == ["--limit", "3", "--json"] for words in commands)


def test_names_that_look_like_it_are_not_offered_where_several_have_them(machine: Machine) -> None:
    for number in (3, 4):
        of_podman(machine, "shop", f"{number}f2a9c81" * 8)
    of_podman(machine, "other", "shop")
    similar = machine.run("explain", "/shop", "--json").document["absence"]["similar"]
    assert "shop" not in similar
    assert len(similar) == 3
    assert all(machine.run("explain", it).status == 0 for it in similar)


@pytest.mark.parametrize("columns", [80, 120, 160])
def test_tables_fit_the_terminal_and_nothing_of_them_is_cut(shop: Shop, columns: int) -> None:
    whole = shop.machine.run("explain", "shop/api-2").stdout
    shown = shop.machine.on_a_terminal("explain", "shop/api-2", columns=columns).stdout
    table = shown.partition("\nWHEN ")[2].partition("\n\n")[0].splitlines()
    assert max(map(len, table[1:])) <= columns
    assert "…" not in whole + shown
    assert sorted(shown.split()) == sorted(whole.split())


@pytest.mark.parametrize("code", ["105", "pool-exhausted", "never-asked", "POOL-EXHAUSTED"])
def test_a_code_has_its_page(shop: Shop, code: str) -> None:
    outcome = shop.explain(code)
    assert outcome.status == 0
    page = outcome.document["page"]
    entry = ENTRIES[code.lower()]
    assert (page["code"], page["meaning"], page["remedy"]) == (entry.code, entry.meaning, entry.remedy)
    assert outcome.document["kind"] == "code"


def test_every_finding_that_explain_gives_has_a_page(shop: Shop) -> None:
    for word in ("nobody", "shop/api-2"):
        assert set(codes(shop.explain(word))) <= set(ENTRIES)


@pytest.mark.parametrize(
    "words",
    [
        ("",),
        (" ",),
        ("shop/api-0", "--at", "02:13"),
        ("10.78.0.1", "--at", "soon"),
        ("10.78.0.1", "--at", "2999-01-01"),
        ("shop/api-0", "--limit", "many"),
        (),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused(shop: Shop, words: tuple[str, ...]) -> None:
    outcome = shop.explain(*words)
    assert (outcome.status, outcome.stdout) == (2, "")


@pytest.mark.parametrize(
    "word", ["a/b/c/d", "///", "x" * 5000, "10.78.0.1; drop", "%", "_", "é\u202e", "-- -x"]
)
def test_any_word_is_answered(shop: Shop, word: str) -> None:
    outcome = shop.machine.run("explain", "--json", "--", word)
    assert outcome.status == 1
    assert outcome.document["kind"] == "unknown"


def test_on_a_terminal_phases_have_bars_and_failures_their_place(shop: Shop) -> None:
    well = shop.machine.on_a_terminal("explain", "shop/api-0")
    assert well.status == 0
    assert any("kernel" in line and "▇" in line for line in well.stdout.splitlines())
    failed = shop.machine.on_a_terminal("explain", "shop/api-2")
    assert failed.status == 1
    assert any("reserve" in line and "failed here" in line for line in failed.stdout.splitlines())


def test_fewer_operations_may_be_asked_for(shop: Shop) -> None:
    document = shop.explain("shop/api-1", "--limit", "1").document
    assert ([it["verb"] for it in document["operations"]], document["omitted"]) == (["DEL"], 1)
    assert shop.explain("shop/api-1", "--limit", "0").document["operations"] == []


def test_what_the_kernel_said_is_told_with_the_phase_that_it_was_said_in(machine: Machine) -> None:
    document = json.loads(machine.conflist.read_text())
    document["plugins"][0]["sysctl"] = {"net.ipv4.tcp_rmem": "1 2 nonsense"}
    machine.conflist.write_text(json.dumps(document))
    container = machine.node.container()
    assert machine.cni("add", container).status == 1
    assert logged(machine, "ADD")
    outcome = machine.told("explain", container, "--json")
    assert (outcome.status, codes(outcome)) == (1, ["add-failed"])
    failed = outcome.document["operations"][-1]
    assert (failed["code"], os.strerror(errno.EINVAL) in failed["error"]) == (100, True)
    assert ("kernel" in failed["phases"], "undo" in failed["phases"]) == (False, True)
    shown = machine.on_a_terminal("explain", container).stdout
    assert any("kernel" in line and "failed here" in line for line in shown.splitlines())


def test_what_differs_from_its_plan_is_told_with_every_object(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.node.in_container(container, "ip", "link", "set", "eth0", "mtu", "1400")
    machine.node.in_container(container, "ip", "address", "add", "10.99.0.1/32", "dev", "eth0")
    outcome = machine.told("explain", container, "--json")
    assert (outcome.status, codes(outcome)) == (1, ["object-changed", "address-foreign"])
    (present,) = outcome.document["attachments"]
    (differing,) = present["differing"]
    assert (differing["type"], differing["state"]) == ("veth", "different")
    assert "1400" in differing["differences"][0]


def test_a_table_that_does_not_guard_is_told(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    chains = machine.node.inside("nft", "-a", "list", "chains", "inet")
    base = next(
        line.split()[1]
        for line, following in pairwise(chains.splitlines())
        if line.strip().startswith("chain") and "hook" in following
    )
    machine.node.inside("nft", "flush", "chain", "inet", "netloom", base)
    outcome = machine.told("explain", container, "--json")
    assert (outcome.status, codes(outcome)) == (1, ["table-broken"])


def test_what_the_agent_put_back_is_told(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.node.in_container(container, "ip", "route", "del", "default")
    assert logged(machine, "REPAIR")
    outcome = machine.told("explain", container, "--json")
    assert outcome.status == 0
    repair = outcome.document["operations"][-1]
    assert (repair["verb"], "0.0.0.0/0" in repair["details"]) == ("REPAIR", True)


def test_without_an_agent_it_is_answered_all_the_same(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    assert logged(machine, "ADD")
    machine.run("down")
    assert machine.run("explain", container, "--json").status == 0
    outcome = machine.run("explain", "nobody", "--json")
    assert codes(outcome)[:2] == ["never-asked", "agent-not-running"]
    assert outcome.document["absence"]["outages"][0]["ended"] is None


def test_a_namespace_that_is_gone_with_its_del_queued_is_no_finding(machine: Machine) -> None:
    """What goes without a DEL is one; and without an agent, no command is advised that needs one."""
    deleted, killed = machine.node.container(), machine.node.container()
    machine.attach(deleted)
    machine.attach(killed)
    machine.run("down")
    assert machine.cni("del", deleted).status == 0
    for container in (deleted, killed):
        machine.node.remove_container(container)
    assert eventually(lambda: not machine.node.links())
    assert codes(machine.told("explain", deleted, "--json")) == ["queued-dels"]
    for words in (("doctor", "--only", "attachments"), ("check",)):
        found = machine.run(*words, "--json").document["findings"]
        (stale,) = [it for it in found if it["code"] == "netns-stale"]
        assert "`netloom up`" in stale["next"]
        assert "`netloom gc`" not in stale["next"]


def test_an_attachment_whose_del_waits_says_so(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    assert machine.cni("del", container).status == 0
    outcome = machine.told("explain", container, "--json")
    assert (outcome.status, codes(outcome)) == (1, ["queued-dels"])
    assert outcome.document["findings"][0]["severity"] == "warning"
    assert outcome.document["attachments"][0]["queued"]


def test_a_namespace_that_is_gone_is_told(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    (listed,) = machine.listed()
    machine.run("down")
    machine.node.remove_container(container)
    assert eventually(
        lambda: codes(machine.run("explain", listed["containerID"], "--json")) == ["netns-stale"]
    )


def test_a_machine_that_was_never_a_node_says_so(bare: Machine) -> None:
    outcome = bare.run("explain", "web", "--json")
    assert (outcome.status, codes(outcome)[0]) == (1, "never-asked")
    assert "network-none" in codes(outcome)
    assert bare.run("explain", "10.78.0.1", "--json").document["address"]["state"] == "outside"
    assert bare.run("explain", "105", "--json").status == 0


def test_a_journal_that_is_damaged_is_an_error_with_its_code(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.run("explain", "web", "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "journal-damaged")
    assert bare.run("explain", "105", "--json").status == 0


def test_a_journal_with_a_page_that_is_damaged_is_an_error_with_its_code(machine: Machine) -> None:
    machine.attach(machine.node.container())
    assert logged(machine, "ADD")
    machine.run("down")
    whole = machine.journal.read_bytes()
    machine.journal.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    outcome = machine.run("explain", "web", "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "journal-damaged")


def test_a_reader_that_has_seen_enough_is_no_error(shop: Shop) -> None:
    machine = shop.machine
    done = machine.cli.start("explain", "shop/api-0", "--json", prefix=machine.node.command())
    assert done.stdout is not None
    done.stdout.close()
    assert done.wait(20) == 0
    assert done.stderr is not None
    assert done.stderr.read() == b""
    done.stderr.close()


def test_what_never_arrived_is_told_with_a_plugin_that_is_missing(machine: Machine) -> None:
    machine.run("up", "--plugin-dir", str(machine.cli.plugins))
    (machine.cli.plugins / "netloom").unlink()
    found = machine.run("explain", "shop/nobody", "--json").document["findings"]
    assert [it["subject"] for it in found if it["code"] == "plugin-missing"] == [
        str(machine.cli.plugins / "netloom")
    ]


@pytest.mark.parametrize("word", ["\udcff", "a/\udcff/b", "\udcff/b"], ids=ascii)
def test_a_word_that_is_no_text_is_one_that_nobody_knows(shop: Shop, word: str) -> None:
    outcome = shop.machine.run("explain", word, "--json")
    assert outcome.status == 1
    assert "never-asked" in codes(outcome)


def test_very_many_files_are_not_all_shown(shop: Shop) -> None:
    files = [shop.machine.cli.networks / f"50-{number:03}.conflist" for number in range(100)]
    for it in files:
        it.write_text(json.dumps({"name": it.stem, "plugins": [{"type": "bridge"}] * 100}))
    try:
        lines = shop.machine.run("explain", "nobody").stdout.splitlines()
    finally:
        for it in files:
            it.unlink()
    assert len(lines) < 60
    assert any(line.endswith("bridge and 92 more") for line in lines)


def test_of_a_container_that_is_detached_it_tells_that_no_agent_runs(shop: Shop) -> None:
    """Another ADD of the same pod, which no agent records, would find none either."""
    assert "agent-not-running" not in codes(shop.explain("shop/api-1"))
    assert shop.machine.run("down").status == 0
    assert "agent-not-running" in codes(shop.explain("shop/api-1"))
