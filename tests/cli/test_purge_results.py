"""Whose results a purge removes from the cache that all runtimes share, whose it leaves, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from netloom.ops.connectivity.namespaces import KEPT_PREFIX

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

# A container runtime, whose process is not called netloom.
_RUNTIME = """
import sys
from netloom.cni import Endpoint, Runtime, load_networks
confs, plugins, cache, network, container, netns = sys.argv[1:]
found = load_networks(confs).find(network)
Runtime([plugins], cache_dir=cache).add(found, Endpoint(container, netns, "eth0"))
"""


def attached_by_a_runtime(machine: Machine, container: str, network: str = "netloom") -> str:
    """The path of its result."""
    where = (machine.cli.networks, machine.cli.plugins, machine.cli.cache)
    words = (*map(str, where), network, f"id-{container}", f"/run/netns/{container}")
    subprocess.run(
        machine.node.command(sys.executable, "-c", _RUNTIME, *words), check=True, env=machine.cli.env
    )
    return f"{machine.cli.cache}/results/{network}-id-{container}-eth0"


def cached(machine: Machine) -> list[str]:
    results = machine.cli.cache / "results"
    return sorted(map(str, results.iterdir())) if results.exists() else []


def purged(machine: Machine) -> Any:
    outcome = machine.run("down", "--purge", "--yes", "--json", "--cache-dir", str(machine.cli.cache))
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.document


def test_what_netloom_cni_attached_under_another_name_goes(machine: Machine) -> None:
    machine.attach(machine.node.container(), "--container-id", "job-17", "-i", "net1")
    (result,) = cached(machine)
    document = purged(machine)
    assert (result in document["removed"], document["kept"], cached(machine)) == (True, [], [])


def test_what_a_runtime_attached_stays_and_is_named_with_who_and_where(machine: Machine) -> None:
    container = machine.node.container()
    result = attached_by_a_runtime(machine, container)
    for _ in range(2):  # a second purge says it again
        (kept,) = purged(machine)["kept"]
        assert (kept["what"], cached(machine)) == (result, [result])
        assert f"/run/netns/{container}" in kept["why"]


def test_who_attached_it_is_named_as_the_journal_has_it(machine: Machine) -> None:
    attached_by_a_runtime(machine, machine.node.container())
    (kept,) = purged(machine)["kept"]
    assert kept["why"].startswith("python")


def test_a_result_without_a_namespace_in_it_is_judged_by_the_journal(machine: Machine) -> None:
    """As an older libcni writes it."""
    there, gone = machine.node.container(), machine.node.container()
    results = [attached_by_a_runtime(machine, it) for it in (there, gone)]
    for path in results:
        with open(path, "r+") as file:
            entry = json.load(file)
            del entry["netns"]
            file.seek(0)
            file.truncate()
            json.dump(entry, file)
    machine.node.remove_container(gone)
    (kept,) = purged(machine)["kept"]
    assert (kept["what"], cached(machine)) == (results[0], results[:1])


def test_what_was_released_since_its_namespace_is_gone_leaves_no_result(machine: Machine) -> None:
    container = machine.node.container()
    result = attached_by_a_runtime(machine, container)
    machine.node.remove_container(container)
    assert eventually(lambda: not machine.node.links())
    # With another cache, so that the result is left, as by an agent that collects by itself.
    machine.run("gc", "--cache-dir", str(machine.cli.directory / "none"))
    assert (machine.listed(), cached(machine)) == ([], [result])
    document = purged(machine)
    assert (result in document["removed"], document["kept"], cached(machine)) == (True, [], [])


def test_results_of_other_networks_stay_and_are_no_matter(machine: Machine) -> None:
    machine.cli.recorded_network("other")
    cache = ("--cache-dir", str(machine.cli.cache))
    netns = f"/run/netns/{machine.node.container()}"
    assert machine.run("cni", "add", "other", netns, *cache).status == 0
    before = cached(machine)
    assert (purged(machine)["kept"], cached(machine)) == ([], before)


def test_a_result_in_which_another_plugin_has_a_part_stays_and_is_named_with_it(machine: Machine) -> None:
    machine.cli.recording_plugin()
    ours = json.loads(machine.conflist.read_text())["plugins"][0]
    machine.cli.network("chained", ours, "recording", version="1.0.0")
    cache = ("--cache-dir", str(machine.cli.cache))
    netns = f"/run/netns/{machine.node.container()}"
    assert machine.run("cni", "add", "chained", netns, *cache).status == 0
    (result,) = cached(machine)
    kept = {it["what"]: it["why"] for it in purged(machine)["kept"]}
    assert (kept[result].startswith("recording "), cached(machine)) == (True, [result])


# What `netloom connectivity --keep` leaves.


def kept_namespaces() -> list[str]:
    return sorted(it for it in os.listdir("/run/netns") if it.startswith(KEPT_PREFIX))


@contextmanager
def kept_containers(machine: Machine, network: str) -> Iterator[list[str]]:
    cache = ("--cache-dir", str(machine.cli.cache))
    machine.run("connectivity", network, "--keep", *cache, "--conf-dir", str(machine.cli.networks))
    names = kept_namespaces()
    try:
        yield names
    finally:
        for name in kept_namespaces():
            subprocess.run(["ip", "netns", "del", name], check=True)


def test_containers_that_connectivity_has_kept_go_with_their_namespaces_and_results(machine: Machine) -> None:
    with kept_containers(machine, "netloom") as names:
        assert (len(names), len(cached(machine))) == (2, 2)
        document = purged(machine)
        assert {f"namespace {name}" for name in names} <= set(document["removed"])
        assert (kept_namespaces(), cached(machine), document["kept"]) == ([], [], [])


def test_a_kept_namespace_on_another_plugins_network_stays_with_how_to_remove_it(machine: Machine) -> None:
    """What that plugin holds for it, only that plugin can give back."""
    machine.cli.recorded_network("other")
    netns = machine.node.container(f"{KEPT_PREFIX}0123-a")
    cache = ("--cache-dir", str(machine.cli.cache))
    assert (
        machine.run("cni", "add", "other", f"/run/netns/{netns}", "--container-id", netns, *cache).status == 0
    )
    (kept,) = purged(machine)["kept"]
    assert (kept["what"], kept_namespaces()) == (f"namespace {netns}", [netns])
    assert f"netloom cni del other /run/netns/{netns} --container-id {netns} -i eth0" in kept["why"]


# Files that stay.


def test_a_network_that_stays_is_warned_of_since_its_plugin_is_gone(machine: Machine) -> None:
    machine.conflist.write_text(machine.conflist.read_text().replace("10.78", "10.79"))
    (warning,) = purged(machine)["warnings"]
    assert str(machine.conflist) in warning
    assert "network netloom" in warning
    assert not machine.plugin.exists()


def test_nobody_is_warned_of_a_network_whose_plugin_stays(machine: Machine) -> None:
    machine.conflist.write_text(machine.conflist.read_text().replace("10.78", "10.79"))
    machine.plugin.write_bytes(machine.plugin.read_bytes() + b"\0")
    document = purged(machine)
    assert ({it["what"] for it in document["kept"]}, document["warnings"]) == (
        {str(machine.conflist), str(machine.plugin)},
        [],
    )


@pytest.mark.parametrize("change", ["other", "broken"])
def test_a_second_purge_says_again_what_stays(machine: Machine, change: str) -> None:
    content = machine.conflist.read_text()
    machine.conflist.write_text(content.replace("10.78", "10.79") if change == "other" else content[:-5])
    first = machine.run("down", "--purge", "--yes")
    assert f"kept     {machine.conflist}: changed since" in first.stdout
    second = machine.run("down", "--purge", "--yes")
    assert f"kept     {machine.conflist}: " in second.stdout
    assert "nothing else of netloom was found" in second.stdout
    for outcome in (first, second):
        assert f"warning: {machine.conflist} was kept" in outcome.stderr
    machine.conflist.unlink()
    assert "nothing of netloom was found" in machine.run("down", "--purge", "--yes").stdout
