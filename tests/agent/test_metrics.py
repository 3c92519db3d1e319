"""What an agent tells Prometheus is what happened, and no request makes it tell more than it should."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from netloom.agent.metrics.metrics import METRICS

from ..fixtures.faults import BreakableDisk
from ..fixtures.node import Node, eventually
from ..fixtures.pages import ask, conf_dir, is_there, scrape, series_of

pytestmark = pytest.mark.kernel


@pytest.fixture
def watched(node: Node) -> Node:
    """A node whose network is configured, and whose agent serves."""
    node.start("--tick", "0.1", "--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node))
    return node


def test_every_metric_is_told_as_what_it_is(watched: Node) -> None:
    watched.add(watched.container())
    watched.plugin("ADD", "nobody")
    answer = ask(watched, "/metrics")
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    told = {it.name: it for it in text_string_to_metric_families(answer.body.decode())}
    for name, metric in METRICS.items():
        family = told[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)
    assert len(told) == len(METRICS)


def test_requests_are_counted_by_verb_result_and_code(watched: Node) -> None:
    container = watched.container()
    watched.add(container)
    watched.delete(container)
    watched.plugin("ADD", "nobody")
    watched.plugin("STATUS")
    found = scrape(watched)
    counted = {
        (verb, result): found.of("netloom_operations_total", verb=verb, result=result)
        for verb in ("ADD", "DEL", "STATUS", "CHECK")
        for result in ("done", "failed")
    }
    assert counted == {
        ("ADD", "done"): 1, ("ADD", "failed"): 1, ("DEL", "done"): 1, ("DEL", "failed"): 0,
        ("STATUS", "done"): 1, ("STATUS", "failed"): 0, ("CHECK", "done"): 0, ("CHECK", "failed"): 0,
    }  # fmt: skip
    assert found.of("netloom_operation_errors_total", verb="ADD", code="8") == 1


def test_durations_of_requests_and_of_their_phases_are_told(watched: Node) -> None:
    for _ in range(3):
        watched.add(watched.container())
    found = scrape(watched)
    assert found.of("netloom_operation_duration_seconds_count", verb="ADD") == 3
    total = found.of("netloom_operation_duration_seconds_sum", verb="ADD")
    phases = {
        phase: found.of("netloom_phase_duration_seconds_sum", verb="ADD", phase=phase)
        for phase in ("judge", "queue", "reserve", "kernel", "commit", "answer")
    }
    # Each is told to a microsecond.
    assert 0 < sum(phases.values()) <= total + 1e-6 * len(phases)
    assert found.of("netloom_journal_commit_duration_seconds_count", durable="yes") >= 3
    assert found.of("netloom_journal_commit_duration_seconds_count", durable="no") >= 3


def test_attachments_and_addresses_are_told_as_they_are_now(watched: Node) -> None:
    first, second = watched.container(), watched.container()
    watched.add(first)
    watched.add(second)
    watched.delete(second)
    found = scrape(watched)
    assert found.of("netloom_attachments", state="committed") == 1
    for pool in ("10.9.0.0/16", "fd09::/64"):
        states = {
            state: found.of("netloom_pool_addresses", network="net", pool=pool, state=state)
            for state in ("held", "resting", "free")
        }
        assert (states["held"], states["resting"]) == (1, 1)
        capacity = found.of("netloom_pool_capacity_addresses", network="net", pool=pool)
        assert sum(states.values()) == pytest.approx(capacity)


def test_pools_of_a_network_without_a_file_are_known_by_its_requests(watched: Node) -> None:
    config = watched.config("elsewhere", pools=[{"cidr": "10.31.0.0/24"}])
    watched.add(watched.container(), config)
    found = scrape(watched)
    place = {"network": "elsewhere", "pool": "10.31.0.0/24"}
    assert found.of("netloom_pool_addresses", **place, state="held") == 1
    assert found.of("netloom_pool_capacity_addresses", **place) == 254


def test_a_network_whose_file_is_changed_is_told_anew(watched: Node) -> None:
    changed = watched.config(pools=[{"cidr": "10.32.0.0/24"}])
    conf_dir(watched, changed)
    found = scrape(watched)
    assert found.of("netloom_pool_capacity_addresses", network="net", pool="10.32.0.0/24") == 254
    assert not [labels for name, labels in found if ("pool", "10.9.0.0/16") in labels]


def test_no_request_makes_more_series_than_there_are_verbs_and_codes(watched: Node) -> None:
    container = watched.container()
    watched.add(container)
    for number in range(300):
        watched.ask(f"VERB{number}", container)
        watched.ask("ADD", f"bad/{number}")
        config = json.dumps({"cniVersion": "1.1.0", "name": f"net{number}", "type": "netloom"}).encode()
        watched.ask("ADD", container, config)
    found = scrape(watched)
    assert found.of("netloom_operations_total", verb="other", result="failed") == 300
    assert {dict(labels)["verb"] for name, labels in found if name == "netloom_operations_total"} == {
        "ADD", "CHECK", "DEL", "GC", "STATUS", "other",
    }  # fmt: skip
    assert len(found) < 700


def test_networks_that_are_asked_for_are_bounded(watched: Node) -> None:
    for number in range(80):
        config = watched.config(f"asked{number}", pools=[{"cidr": f"10.40.{number}.0/24"}])
        container = watched.container()
        assert watched.ask("ADD", container, config).status == 0
    told = {dict(labels)["network"] for name, labels in scrape(watched) if name == "netloom_pool_addresses"}
    assert len(told) == 65


def test_what_was_put_back_is_counted_by_its_kind(watched: Node) -> None:
    container = watched.container()
    address = watched.add(container).addresses[0]
    watched.inside("ip", "route", "del", address)

    def is_counted() -> bool:
        return scrape(watched).of("netloom_repairs_total", kind="route") == 1

    assert eventually(is_counted)
    watched.inside("nft", "delete", "table", "inet", "netloom")
    assert eventually(lambda: scrape(watched).of("netloom_tables_laid_total") >= 1)


def test_releases_are_counted_by_their_reason(watched: Node) -> None:
    watched.add(watched.container())
    config = watched.config_with({"cni.dev/valid-attachments": []})
    assert watched.plugin("GC", config=config).status == 0
    found = scrape(watched)
    assert found.of("netloom_releases_total", reason="gc") == 1
    assert found.of("netloom_releases_total", reason="namespace") == 0


def test_a_journal_that_cannot_be_written_is_told_and_so_is_its_recovery(node: Node, tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    directory = conf_dir(node, node.config())
    node.start("--tick", "0.1", "--conf-dir", str(directory), environment=disk.environment)
    assert eventually(lambda: is_there(node))
    assert scrape(node).of("netloom_journal_writable") == 1
    disk.break_down()
    assert node.plugin("ADD", node.container()).code == 5
    found = scrape(node)
    assert (found.of("netloom_journal_writable"), found.of("netloom_ready")) == (0, 0)
    assert found.of("netloom_troubles") == 1
    disk.mend()
    assert eventually(lambda: scrape(node).of("netloom_journal_writable") == 1)
    assert scrape(node).of("netloom_ready") == 1


def test_a_firewall_that_drops_what_containers_send_is_told(watched: Node) -> None:
    """The agent looks by itself; a node that only a firewall stops is ready all the same."""
    assert scrape(watched).of("netloom_firewall_drops", severity="error") == 0
    watched.inside(
        "nft", "table inet walls { chain f { type filter hook forward priority 0; policy drop; }; }"
    )
    assert eventually(lambda: scrape(watched).of("netloom_firewall_drops", severity="error") == 1)
    assert scrape(watched).of("netloom_ready") == 1
    watched.inside("nft", "delete table inet walls")
    assert eventually(lambda: scrape(watched).of("netloom_firewall_drops", severity="error") == 0)


def test_dels_that_wait_are_told(watched: Node) -> None:
    """Of an agent that was stopped, as by a debugger, when they came."""
    intents = watched.socket.parent / "intents"
    intents.mkdir(mode=0o700, exist_ok=True)
    assert scrape(watched).of("netloom_queued_dels") == 0
    container = watched.container()
    watched.add(container)
    assert watched.agent is not None
    watched.agent.kill()
    watched.agent.wait(10)
    watched.delete(container)
    assert len(watched.intents()) == 1
    watched.start("--tick", "0.1", "--conf-dir", str(watched.directory / "net.d"))
    assert eventually(lambda: is_there(watched))
    found = scrape(watched)
    assert (found.of("netloom_queued_dels"), found.of("netloom_replayed_dels_total")) == (0, 1)


def test_the_process_is_told_as_the_kernel_sees_it(watched: Node) -> None:
    found = scrape(watched)
    assert watched.agent is not None
    assert found.of("process_resident_memory_bytes") == pytest.approx(watched.memory(), rel=0.2)
    assert abs(found.of("process_open_fds") - watched.descriptors()) < 20
    assert 0 < found.of("process_cpu_seconds_total") < 60
    started = os.stat(f"/proc/{watched.agent.pid}").st_ctime
    assert found.of("process_start_time_seconds") == pytest.approx(started, abs=30)
    again = scrape(watched)
    assert again.of("process_start_time_seconds") == found.of("process_start_time_seconds")


def test_many_who_scrape_at_once_get_the_same_and_nobody_else_waits(watched: Node) -> None:
    words = watched.command("curl", "-sS", "--max-time", "20", "http://127.0.0.1:9478/metrics")
    scraping = [subprocess.Popen(words, stdout=subprocess.PIPE, text=False) for _ in range(20)]
    watched.add(watched.container())
    for process in scraping:
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "netloom_ready" in series_of(output).names()


def test_an_agent_that_follows_another_has_its_address(watched: Node) -> None:
    before = watched.agent
    assert before is not None
    watched.add(watched.container())
    watched.start("--tick", "0.1", "--conf-dir", str(watched.directory / "net.d"), "--take-over", ready=False)
    try:
        assert before.wait(20) == 0
    finally:
        if before.poll() is None:
            before.send_signal(signal.SIGKILL)
            before.wait(10)
    assert eventually(lambda: is_there(watched))
    found = scrape(watched)
    assert found.of("netloom_attachments", state="committed") == 1
    assert found.of("netloom_operations_total", verb="ADD", result="done") == 0
