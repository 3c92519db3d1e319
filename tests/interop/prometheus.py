"""The distribution's own Prometheus in a node's namespace, with netloom's rules and its example config."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ..fixtures.node import Node, eventually
from ..lanes import ROOT

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "netloom-rules.yml"
SCRAPE = DEPLOY / "prometheus" / "scrape.yml"
RULE_TESTS = DEPLOY / "prometheus" / "tests.yml"
DASHBOARD = DEPLOY / "grafana" / "netloom.json"

PORT = 9090
PATIENCE = 60.0


class Prometheus:
    """It looks every three seconds, and alerts as soon as something is so: nobody wants to wait for minutes.

    An interval is also how long an agent may take to answer.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        directory = node.directory / "prometheus"
        directory.mkdir()
        rules = re.sub(r"for: \d+m", "for: 1s", RULES.read_text())
        (directory / RULES.name).write_text(rules)
        config = re.sub(r"_interval: 15s", "_interval: 3s", SCRAPE.read_text())
        (directory / SCRAPE.name).write_text(config)
        with open(directory / "log", "wb") as log:
            self._process = subprocess.Popen(
                node.command(
                    "prometheus",
                    f"--config.file={directory / SCRAPE.name}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address=127.0.0.1:{PORT}",
                    "--log.level=warn",
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._log: Path = directory / "log"

    def __enter__(self) -> Self:
        assert eventually(self._is_ready, PATIENCE), self._log.read_text()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            with self._node.namespace.entered():
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/-/ready", timeout=10).close()
        except OSError:
            return False
        return True

    def api(self, path: str, **parameters: str) -> Any:
        """What its API answers, which must be a success."""
        query = urllib.parse.urlencode(parameters)
        with (
            self._node.namespace.entered(),
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/v1/{path}?{query}", timeout=30) as answer,
        ):
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.api("query", query=expression)["result"]
        return result

    def value(self, expression: str) -> float | None:
        """Of the one series that an expression gives."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def becomes(self, expression: str, holds: Callable[[float], bool]) -> bool:
        def is_so() -> bool:
            value = self.value(expression)
            return value is not None and holds(value)

        return eventually(is_so, PATIENCE)

    def firing(self) -> set[str]:
        return {it["labels"]["alertname"] for it in self.api("alerts")["alerts"] if it["state"] == "firing"}

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.api("rules")["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def expressions() -> list[tuple[str, str]]:
    """All of the dashboard, each with the panel that it is of, as Grafana would ask for them."""
    found = [
        (it["title"], target["expr"]) for it in dashboard()["panels"] for target in it.get("targets", ())
    ]
    found += [(it["name"], it["expr"]) for it in dashboard()["annotations"]["list"]]
    return [(title, _filled_in(expression)) for title, expression in found]


def _filled_in(expression: str) -> str:
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
