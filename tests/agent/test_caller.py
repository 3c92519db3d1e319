"""Who asked is in the log by name, also if it was gone before anything was written there."""

from __future__ import annotations

import subprocess

import pytest

from netloom.failpoints import VARIABLE

from ..fixtures.node import PLUGIN, Node, eventually
from .test_operation_log import go_on, is_stopped

pytestmark = pytest.mark.kernel


def test_a_runtime_that_ends_with_its_answer_is_named(node: Node) -> None:
    node.start(environment={VARIABLE: "operation.recorded:stop"})
    container = node.container()
    subprocess.run(
        node.command("sh", "-c", f"{PLUGIN}; true"),  # or the shell would become the plugin
        input=node.config(),
        env=node.environment(node.cni_environment("ADD", container)),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert eventually(lambda: is_stopped(node))
    go_on(node)

    def callers() -> list[str]:
        return [it.caller.partition("[")[0] for it in node.ledger().operations() if it.verb == "ADD"]

    assert eventually(lambda: callers() == ["sh"])
