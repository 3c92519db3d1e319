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
from tools.reference.files import ERROR

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine
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
        (made.cli.networks / "20-broken.conflist").write_text("{")
        yield made


def _convert(machine: Machine, version: str) -> Outcome:
    result = json.dumps(machine.attach(machine.node.container()))
    return machine.run("cni", "convert", "--to", version, stdin=result)


def _import(machine: Machine) -> Outcome:
    """Into another state directory, of which no agent knows."""
    source = machine.node.directory / "export.json"
    source.write_text(machine.run("journal", "export").stdout)
    return machine.run(
        "journal", "import", "--json", str(source), "--state-dir", str(machine.node.directory / "other")
    )


def _restored(machine: Machine) -> Outcome:
    """The same, of a copy."""
    copy = str(machine.node.directory / "copy.db")
    machine.run("journal", "backup", "--force", copy)
    return machine.run(
        "journal", "restore", "--json", copy, "--state-dir", str(machine.node.directory / "another")
    )


def _down(*words: str) -> Outcome:
    """Of a node of its own, since it is none afterwards."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as other:
        other.brought_up()
        other.attach(other.node.container())
        return other.run("down", "--json", "--cache-dir", str(other.cli.cache), *words)


# How each command is run; as often as it has something else to print.
RUNS: dict[str, list[Callable[[Machine], Outcome]]] = {
    "bundle": [lambda it: it.run("bundle", "--json", str(it.node.directory / "report.tar.gz"), "--force")],
    "cni-add": [lambda it: it.cni("add", it.node.container())],
    "cni-attachments": [
        lambda it: it.run("cni", "attachments", "--json", "--cache-dir", str(it.cli.cache)),
        lambda it: it.run("cni", "attachments", "--json", "--container", "nobody"),
    ],
    "cni-convert": [lambda it: _convert(it, "0.2.0"), lambda it: _convert(it, "0.4.0")],
    "cni-validate": [lambda it: it.run("cni", "validate", "--json")],
    "cni-version": [lambda it: it.run("cni", "version", "--json", "netloom")],
    "connectivity": [lambda it: it.run("connectivity", "--json", "netloom")],
    "check": [lambda it: it.run("check", "--json")],
    "down": [lambda _: _down(), lambda _: _down("--purge", "--yes")],
    "doctor": [
        lambda it: it.run("doctor", "--json"),
        lambda it: it.run("doctor", "--json", "--fix", "--dry-run"),
    ],
    "events": [lambda it: it.run("events", "--json"), lambda it: it.run("events", "--json", "--failed")],
    "explain": [
        lambda it: it.run("explain", "--json", "shop/api-0"),
        lambda it: it.run("explain", "--json", "10.78.0.1"),
        lambda it: it.run("explain", "--json", "10.78.0.1", "--at", "1s ago"),
        lambda it: it.run("explain", "--json", "105"),
        lambda it: it.run("explain", "--json", "nobody"),
    ],
    "gc": [lambda it: it.run("gc", "--json", "--dry-run"), lambda it: it.run("gc", "--json")],
    "inspect": [lambda it: it.run("inspect", "--json", "shop/api-0")],
    "journal-backup": [
        lambda it: it.run("journal", "backup", "--json", "--force", str(it.node.directory / "copy.db"))
    ],
    "journal-export": [lambda it: it.run("journal", "export")],
    "journal-import": [lambda it: _import(it)],
    "journal-restore": [lambda it: _restored(it)],
    "journal-verify": [lambda it: it.run("journal", "verify", "--json")],
    "ls": [lambda it: it.run("ls", "--json"), lambda it: it.run("ls", "--json", "nobody")],
    "plan-apply": [lambda it: it.run("plan", "apply", "--json", EXAMPLE, "--netns", it.node.container())],
    "plan-check": [lambda it: it.run("plan", "check", "--json", EXAMPLE, "--netns", it.node.container())],
    "plan-show": [lambda it: it.run("plan", "show", "--json", "netloom")],
    "pools": [lambda it: it.run("pools", "--json"), lambda it: it.run("pools", "--json", "--audit")],
    "ports": [lambda it: it.run("ports", "--json"), lambda it: it.run("ports", "--json", "8080")],
    "status": [
        lambda it: it.run("status", "--json"),
        lambda it: it.run("status", "--json", "--socket", "/run/nobody.sock"),
    ],
    "top": [lambda it: it.run("top", "--json")],
    "up": [lambda it: it.up("--json")],
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_command_prints_is_what_its_schema_says(machine: Machine, name: str) -> None:
    schema = strict(schema_of(name))
    for run in RUNS[name]:
        for document in documents(name, run(machine)):
            jsonschema.validate(document, schema)


FAILURES: dict[str, Callable[[Machine], Outcome]] = {
    "a word that is no command": lambda it: it.run("statsu", "--json"),
    "an option that is none": lambda it: it.run("up", "--jsno", "--json"),
    "a value that cannot be": lambda it: it.run("doctor", "--only", "nothing", "--json"),
    "a command that could not": lambda it: it.run("inspect", "nobody", "--json"),
    "a plugin": lambda it: it.run("cni", "add", "netloom", "/run/netns/nobody", "--json"),
    "a network that is none": lambda it: it.run("cni", "add", "nobody", "/run/netns/nobody", "--json"),
    "a plan that is none": lambda it: it.run("plan", "check", "-", "--json", stdin="{}"),
    "a kernel that refuses": lambda it: it.run(
        "plan", "apply", EXAMPLE, "--netns", it.node.container(), "--json",
        prefix=("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"),
    ),
    "something in the way": lambda it: in_the_way(it),
}  # fmt: skip


def in_the_way(machine: Machine) -> Outcome:
    """A link of the plan's name that somebody else has made."""
    plan = {"version": 1, "objects": [{"type": "bridge", "name": "nlbr", "mac": "02:00:00:00:00:01"}]}
    machine.node.inside("ip", "link", "add", "nlbr", "type", "veth", "peer", "name", "nlpeer")
    try:
        return machine.run("plan", "apply", "-", "--json", stdin=json.dumps(plan))
    finally:
        machine.node.inside("ip", "link", "delete", "nlbr")


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_is_what_the_schema_of_errors_says(machine: Machine, name: str) -> None:
    outcome = FAILURES[name](machine)
    assert outcome.status != 0
    jsonschema.validate(outcome.error, strict(schema_of(ERROR)))


def test_every_kind_of_error_is_among_them(machine: Machine) -> None:
    fields = {frozenset(run(machine).error) for run in FAILURES.values()}
    kinds = schema_of(ERROR)["$defs"]
    assert fields == {frozenset(kinds[name]["properties"]) for name in ("OfCommand", "OfPlugin", "OfKernel")}


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
