"""Whoever watches an agent: asks for its pages as Prometheus and a service manager do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from .stage import Node

PORT = 9478


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def codes(self) -> list[str]:
        """Of what it finds."""
        return [it["code"] for it in self.document["findings"]]


def ask(node: Node, path: str, *, timeout: float = 30, port: int = PORT) -> Answer:
    with node.namespace.entered():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return Answer(response.status, response.read(), response.headers["Content-Type"])
        finally:
            connection.close()


def is_there(node: Node) -> bool:
    try:
        return ask(node, "/").status == 200
    except OSError:
        return False


class Series(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """What an exposition says, as Prometheus' own parser reads it: by name and labels."""

    def of(self, name: str, **labels: str) -> float:
        return self[name, frozenset(labels.items())]

    def names(self) -> set[str]:
        return {name for name, _ in self}


def series_of(text: bytes) -> Series:
    return Series(
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    )


def scrape(node: Node) -> Series:
    answer = ask(node, "/metrics")
    assert answer.status == 200, answer.body
    return series_of(answer.body)


def conf_dir(node: Node, *networks: bytes) -> Path:
    """A directory with files of networks, for an agent that is started with it."""
    directory = node.directory / "net.d"
    directory.mkdir(exist_ok=True)
    for number, content in enumerate(networks):
        (directory / f"{number}0-net.conf").write_bytes(content)
    return directory


def lines(node: Node) -> Iterator[dict[str, Any]]:
    """The agent's log, of one that logs objects."""
    for line in node.log().splitlines():
        yield json.loads(line)
