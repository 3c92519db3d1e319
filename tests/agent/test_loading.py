"""An agent has loaded what requests need before it serves: the first one waits for no import."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from ..fixtures.node import Node, eventually
from ..fixtures.pages import ask, conf_dir, is_there

pytestmark = pytest.mark.kernel

# Writes down which modules there are when it gets SIGUSR2, and is the agent otherwise.
_TELLING = """
import os, runpy, signal, sys
def tell(*_):
    with open(os.environ["LOADED"] + ".new", "w") as file:
        print(*sys.modules, file=file)
    os.rename(file.name, os.environ["LOADED"])
signal.signal(signal.SIGUSR2, tell)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# All that an attachment can have: its plan is of many kinds of objects.
_EVERYTHING = {
    "ipMasq": True,
    "isolation": "networks",
    "bandwidth": {"ingressRate": 100_000_000, "egressRate": 20_000_000},
    "sysctl": {"net.core.somaxconn": "500"},
    "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
}


def loaded(node: Node) -> set[str]:
    assert node.agent is not None
    path = node.directory / "loaded"
    path.unlink(missing_ok=True)
    os.kill(node.agent.pid, signal.SIGUSR2)
    assert eventually(path.exists)
    return set(path.read_text().split())


def start(node: Node, *arguments: str) -> None:
    environment = {"LOADED": str(node.directory / "loaded")}
    node.start(*arguments, through=(sys.executable, "-c", _TELLING), environment=environment)
    node.info()


def test_no_request_waits_for_an_import(node: Node) -> None:
    start(node)
    before = loaded(node)
    container = node.container()
    config = node.config_with(_EVERYTHING)
    added = node.ask("ADD", container, config)
    for verb, of, more in (
        ("STATUS", "", {}),
        ("CHECK", container, {"prevResult": added.document}),
        ("GC", "", {"cni.dev/valid-attachments": [{"containerID": container, "ifname": "eth0"}]}),
        ("DEL", container, {}),
        ("GC", "", {"cni.dev/valid-attachments": []}),
    ):
        done = node.ask(verb, of, node.config_with({**_EVERYTHING, **more}))
        assert done.status == 0, done.output
    assert loaded(node) - before == set()


def test_no_page_waits_for_the_import_of_h11(node: Node) -> None:
    start(node, "--conf-dir", str(conf_dir(node, node.config())))
    before = loaded(node)
    assert {"h11", "netloom.agent.http.pages"} <= before
    assert eventually(lambda: is_there(node))
    assert [ask(node, path).status for path in ("/metrics", "/livez", "/readyz")] == [200] * 3
    assert {it for it in loaded(node) - before if it.startswith(("h11", "netloom"))} == set()


def test_an_agent_without_an_http_listener_does_not_import_h11(node: Node) -> None:
    start(node, "--metrics-listen", "none")
    assert {it for it in loaded(node) if it.startswith(("h11", "netloom.agent.http."))} == set()
