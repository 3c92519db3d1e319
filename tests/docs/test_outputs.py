"""What commands print on a real node is what their schemas say, and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tools.reference.commands import LINES, commands

from ..cli.machine import Machine
from ..cli.stage import Outcome
from ..lanes import ROOT

pytestmark = pytest.mark.kernel

EXAMPLE = str(ROOT / "docs" / "examples" / "attachment.json")
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
LIMITS = {"ingressRate": 8_000_000, "egressRate": 8_000_000}
POD = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=api-0;K8S_POD_UID=u-1;K8S_POD_INFRA_CONTAINER_ID=x"


def strict(schema: Any) -> Any:
    """The same schema, without room for what later versions may add."""
    if isinstance(schema, list):
        return [strict(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def schema_of(name: str) -> Any:
    return json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A node with an attachment that has everything, and one whose DEL waits for the agent."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as made:
        made.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
        made.brought_up("--cni-version", "1.1.0")
        asked = {"portMappings": PORTS, "bandwidth": LIMITS}
        made.attach(made.node.container(), CAP_ARGS=json.dumps(asked), CNI_ARGS=POD)
        (made.stage.networks / "20-broken.conflist").write_text("{")
        yield made


def _convert(machine: Machine, version: str) -> Outcome:
    result = json.dumps(machine.attach(machine.node.container()))
    return machine.run("cni", "convert", "--to", version, stdin=result)


def _import(machine: Machine) -> Outcome:
    """Into another state directory, of which no agent knows."""
    source = machine.node.directory / "export.json"
    source.write_text(machine.run("journal", "export").stdout)
    return machine.run("journal", "import", str(source), "--state-dir", str(machine.node.directory / "other"))


def _down(*words: str) -> Outcome:
    """Of a node of its own, since it is none afterwards."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as other:
        other.brought_up()
        other.attach(other.node.container())
        return other.run("down", "--cache-dir", str(other.stage.cache), *words)


# How each command is run; as often as it has something else to print.
RUNS: dict[str, list[Callable[[Machine], Outcome]]] = {
    "bundle": [lambda it: it.run("bundle", str(it.node.directory / "report.tar.gz"), "--force")],
    "cni-add": [lambda it: it.cni("add", it.node.container())],
    "cni-attachments": [
        lambda it: it.run("cni", "attachments", "--cache-dir", str(it.stage.cache)),
        lambda it: it.run("cni", "attachments", "--container", "nobody"),
    ],
    "cni-convert": [lambda it: _convert(it, "0.2.0"), lambda it: _convert(it, "0.4.0")],
    "cni-validate": [lambda it: it.run("cni", "validate")],
    "cni-version": [lambda it: it.run("cni", "version", "netloom")],
    "connectivity": [lambda it: it.run("connectivity", "netloom")],
    "check": [lambda it: it.run("check")],
    "down": [lambda _: _down(), lambda _: _down("--purge", "--yes")],
    "doctor": [lambda it: it.run("doctor"), lambda it: it.run("doctor", "--fix", "--dry-run")],
    "events": [lambda it: it.run("events"), lambda it: it.run("events", "--failed")],
    "explain": [
        lambda it: it.run("explain", "shop/api-0"),
        lambda it: it.run("explain", "10.78.0.1"),
        lambda it: it.run("explain", "10.78.0.1", "--at", "1s ago"),
        lambda it: it.run("explain", "105"),
        lambda it: it.run("explain", "nobody"),
    ],
    "gc": [lambda it: it.run("gc", "--dry-run"), lambda it: it.run("gc")],
    "inspect": [lambda it: it.run("inspect", "shop/api-0")],
    "journal-backup": [lambda it: it.run("journal", "backup", "--force", str(it.node.directory / "copy.db"))],
    "journal-export": [lambda it: it.run("journal", "export")],
    "journal-import": [lambda it: _import(it)],
    "journal-verify": [lambda it: it.run("journal", "verify")],
    "ls": [lambda it: it.run("ls"), lambda it: it.run("ls", "nobody")],
    "plan-apply": [lambda it: it.run("plan", "apply", EXAMPLE, "--netns", it.node.container())],
    "plan-check": [lambda it: it.run("plan", "check", EXAMPLE, "--netns", it.node.container())],
    "plan-show": [lambda it: it.run("plan", "show", "netloom")],
    "pools": [lambda it: it.run("pools"), lambda it: it.run("pools", "--audit")],
    "ports": [lambda it: it.run("ports"), lambda it: it.run("ports", "8080")],
    "status": [lambda it: it.run("status"), lambda it: it.run("status", "--socket", "/run/nobody.sock")],
    "top": [lambda it: it.run("top", "--json")],
    "up": [lambda it: it.up()],
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_command_prints_is_what_its_schema_says(machine: Machine, name: str) -> None:
    schema = strict(schema_of(name))
    for run in RUNS[name]:
        for document in documents(name, run(machine)):
            jsonschema.validate(document, schema)


def documents(name: str, outcome: Outcome) -> list[Any]:
    """What was printed; of a command that goes on and on, every line is one."""
    if name in LINES:
        return [json.loads(line) for line in outcome.stdout.splitlines()]
    assert outcome.stdout, outcome.stderr
    return [outcome.document]


def test_every_command_that_prints_something_is_among_them() -> None:
    typed = {it.name for it in commands() if it.output is not None}
    assert typed - RUNS.keys() == set()


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "schemas").glob("*.json")), ids=lambda it: it.stem)
def test_a_schema_is_one(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_a_field_that_the_schema_does_not_have_is_found() -> None:
    known = {"type": "object", "properties": {"a": {"type": "string"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"a": "", "b": 1}, strict(known))
