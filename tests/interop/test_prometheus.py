"""What is shipped for monitoring, with the distribution's own Prometheus and a real agent."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from operator import eq
from pathlib import Path

import pytest

from netloom.agent.metrics.metrics import METRICS

from ..fixtures.node import Node, eventually
from ..fixtures.pages import ask, conf_dir, is_there
from ..lanes import ROOT
from .prometheus import PATIENCE, RULE_TESTS, RULES, SCRAPE, Prometheus, dashboard, expressions

pytestmark = pytest.mark.interop

# Expressions that say nothing when nothing is wrong.
QUIET = {"starts", "Findings"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node on which something happened: three ADDs, a DEL, and an ADD that failed."""
    with tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory, Node(Path(directory)) as made:
        start(made)
        config = made.config(cooldown=3600)  # what rests does so until the last test
        containers = [made.container() for _ in range(3)]
        for container in containers:
            made.add(container, config)
        made.delete(containers[0], config)
        assert made.plugin("ADD", "nobody").code == 8
        yield made


def start(node: Node) -> None:
    node.start("--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node))


@pytest.fixture(scope="module")
def prometheus(node: Node) -> Iterator[Prometheus]:
    with Prometheus(node) as started:
        assert started.becomes('up{job="netloom"}', lambda value: value == 1)
        # A rate needs two samples.
        assert started.becomes("count_over_time(netloom_ready[1m])", lambda value: value > 3)
        yield started


def promtool(*words: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["promtool", *words], input=given, capture_output=True, timeout=60)


def named(expression: str) -> set[str]:
    """Metrics that an expression names."""
    return set(re.findall(r"\b(?:netloom|process)_[a-z_]+\b|\bup\b", expression))


def is_told(name: str) -> bool:
    told = {"up", *METRICS}
    for metric in METRICS.values():
        if metric.kind == "histogram":
            told |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return name in told


def test_promtool_has_no_complaint_about_what_an_agent_tells(node: Node) -> None:
    checked = promtool("check", "metrics", given=ask(node, "/metrics").body)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_rules_and_example_are_valid() -> None:
    rules, config = promtool("check", "rules", RULES), promtool("check", "config", SCRAPE)
    assert rules.returncode == 0, rules.stderr
    assert config.returncode == 0, config.stderr


def test_every_alert_fires_for_what_it_is_about_and_for_nothing_else() -> None:
    tested = promtool("test", "rules", RULE_TESTS)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)", RULE_TESTS.read_text()))


def test_every_alert_says_what_is_wrong_and_where_to_read_what_to_do() -> None:
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    headings = {it.lower() for it in re.findall(r"^#+ (\w+)$", page, re.MULTILINE)}
    text = RULES.read_text()
    for alert in re.findall(r"alert: (\w+)", text):
        assert f"runbook_url: docs/how-to/monitor.md#{alert.lower()}\n" in text
        assert alert.lower() in headings
    assert text.count("alert: ") == text.count("summary: ") == text.count("description: ")


def test_every_metric_of_rules_and_dashboard_is_one_that_agents_tell(prometheus: Prometheus) -> None:
    asked = [rule["query"] for rule in prometheus.rules()] + [expression for _, expression in expressions()]
    names = {name for expression in asked for name in named(expression)}
    assert len(names) > 20
    assert [name for name in names if not is_told(name)] == []


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for _, expression in expressions() for name in named(expression)}
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    unshown = METRICS.keys() - shown
    assert unshown == {"process_virtual_memory_bytes", "process_start_time_seconds"}


def test_the_dashboard_is_a_model_that_grafana_takes() -> None:
    board = dashboard()
    assert (board["uid"], board["title"], board["schemaVersion"] >= 36) == ("netloom-node", "netloom", True)
    panels = [it for it in board["panels"] if it["type"] != "row"]
    assert len({it["id"] for it in board["panels"]}) == len(board["panels"])
    assert {it["name"] for it in board["templating"]["list"]} == {"datasource", "instance"}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]
        assert {it["refId"] for it in panel["targets"]} == set("ABCDEFGH"[: len(panel["targets"])])
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize(("panel", "expression"), expressions())
def test_every_question_of_the_dashboard_has_an_answer(
    prometheus: Prometheus, panel: str, expression: str
) -> None:
    # Of an agent that has just not answered in time, nothing is known for a moment.
    answered = bool(prometheus.query(expression))
    assert answered or panel in QUIET or eventually(lambda: bool(prometheus.query(expression)), PATIENCE)


def test_prometheus_reads_what_happened(prometheus: Prometheus) -> None:
    happened = {
        'netloom_operations_total{verb="ADD", result="done"}': 3,
        'netloom_operations_total{verb="ADD", result="failed"}': 1,
        'netloom_operation_errors_total{verb="ADD", code="8"}': 1,
        'netloom_operations_total{verb="DEL", result="done"}': 1,
        'netloom_attachments{state="committed"}': 2,
        'netloom_pool_addresses{pool="10.9.0.0/16", state="held"}': 2,
        'netloom_pool_addresses{pool="10.9.0.0/16", state="resting"}': 1,
        "netloom_ready": 1,
    }
    for expression, wanted in happened.items():
        assert prometheus.becomes(expression, partial(eq, wanted)), expression
    quantile = 'histogram_quantile(0.5, netloom_operation_duration_seconds_bucket{verb="ADD"})'
    assert prometheus.becomes(quantile, lambda median: 0 < median < 30)


def test_prometheus_has_no_complaint_about_its_target(prometheus: Prometheus) -> None:
    def is_content() -> bool:
        (target,) = prometheus.api("targets")["activeTargets"]
        return (target["health"], target["lastError"]) == ("up", "")

    assert eventually(is_content, PATIENCE)
    metadata = prometheus.api("targets/metadata")
    assert {it["metric"] for it in metadata} >= METRICS.keys()


def test_rules_are_evaluated_without_an_error_and_nothing_fires_on_a_node_that_is_well(
    prometheus: Prometheus,
) -> None:
    assert eventually(lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"}, PATIENCE)
    # One of the four ADDs failed, which is more than one of twenty; and a machine may be slow.
    assert prometheus.firing() <= {"NetloomAddsFail", "NetloomSlowAdd", "NetloomSlowJournal"}


def test_alerts_fire_for_real_faults_and_end_with_them(node: Node, prometheus: Prometheus) -> None:
    network = node.directory / "net.d" / "00-net.conf"
    content = network.read_bytes()
    network.unlink()
    assert eventually(lambda: "NetloomNotReady" in prometheus.firing(), PATIENCE)
    network.write_bytes(content)
    assert eventually(lambda: "NetloomNotReady" not in prometheus.firing(), PATIENCE)
    node.kill()
    assert eventually(lambda: "NetloomAgentDown" in prometheus.firing(), PATIENCE)
    start(node)
    assert eventually(lambda: "NetloomAgentDown" not in prometheus.firing(), PATIENCE)
