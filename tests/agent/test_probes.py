"""Probes of an agent that is well are answered, whoever else holds connections to its pages."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ..fixtures.node import Node, eventually
from ..fixtures.pages import PORT, ask, conf_dir, is_there

pytestmark = pytest.mark.kernel

# Far longer than a page takes, and shorter than one waits for those that are silent.
PROMPT = 10.0


@pytest.fixture
def watched(node: Node) -> Iterator[Node]:
    node.start("--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node) and ask(node, "/readyz").status == 200)
    before = node.descriptors() + 2
    yield node
    assert eventually(lambda: node.descriptors() <= before)
    assert "Traceback" not in node.log()


def hold(node: Node, held: ExitStack, number: int, sent: bytes) -> None:
    """Connections on which nothing is ever read."""
    with node.namespace.entered():
        for _ in range(number):
            client = held.enter_context(socket.create_connection(("127.0.0.1", PORT), timeout=30))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(sent)


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        pytest.param(200, b"", id="idle"),
        pytest.param(200, b"GET /metrics HTTP/1.1\r\nHo", id="half a request"),
        pytest.param(
            150, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n" * 40, id="answers that are not read"
        ),
    ],
)
def test_probes_are_answered_while_others_hold_connections(watched: Node, number: int, sent: bytes) -> None:
    with ExitStack() as held:
        hold(watched, held, number, sent)
        began = time.monotonic()
        for page in ("/livez", "/readyz", "/metrics", "/livez"):
            assert ask(watched, page).status == 200
        assert time.monotonic() - began < PROMPT
