"""The agent's pages for monitoring: `/metrics`, `/livez`, `/readyz`, and `/`, which lists them.

Concurrent requests for a page share one result (single flight). An agent without an HTTP listener must import
neither this module nor h11.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ... import __version__
from ...api.findings import Finding
from ..conditions import Condition
from ..liveness import stuck
from ..locks import SingleFlight
from ..metrics.exposition import CONTENT_TYPE, exposition
from ..metrics.readings import readings
from ..node import Node
from ..readiness import Judge, Readiness
from .messages import HttpPage
from .server import HttpServer, MakePage, shown

_JSON = "application/json"
# The condition's key.
_WEB = "web"
_INDEX = f"""netloom {__version__}
/metrics   for Prometheus
/livez     whether the agent makes progress
/readyz    whether an ADD would work now; ?network=NAME for one network
"""


class Pages:
    """Serves a node's pages at `address`. `under_way` returns the number of requests in progress."""

    def __init__(self, node: Node, address: tuple[str, int], under_way: Callable[[], int]) -> None:
        self._node = node
        self._under_way = under_way
        self._judge = Judge(node)
        self._readiness: SingleFlight[Readiness] = SingleFlight(self._judge.readiness)
        self._stuck: SingleFlight[list[Finding]] = SingleFlight(lambda: stuck(node))
        self._exposed: SingleFlight[bytes] = SingleFlight(self._expose)
        pages: Mapping[str, MakePage] = {
            "/": self._index,
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
        }
        self._server = HttpServer(address, pages, heard=self._heard, again=node.settings.tick)

    def open(self) -> None:
        self._server.open()

    async def close(self) -> None:
        """Stops serving and cancels checks of the node. The address is free when this returns."""
        await self._server.close()
        for asked in (self._exposed, self._readiness, self._stuck, self._judge):
            await asked.close()

    def _heard(self, error: OSError | None) -> None:
        if error is None:
            self._node.conditions.clear(_WEB)
        else:
            self._node.conditions.set(_WEB, Condition(_unavailable(self._server.address, error)))

    async def _index(self, _: Mapping[str, str]) -> HttpPage:
        return HttpPage(_INDEX.encode())

    async def _metrics(self, _: Mapping[str, str]) -> HttpPage:
        return HttpPage(await self._exposed(), CONTENT_TYPE)

    async def _expose(self) -> bytes:
        return exposition(await readings(self._node, await self._readiness(), self._under_way()))

    async def _livez(self, _: Mapping[str, str]) -> HttpPage:
        return _judged("alive", await self._stuck())

    async def _readyz(self, query: Mapping[str, str]) -> HttpPage:
        network = query.get("network")
        found = await self._readiness()
        page = _judged("ready", found.findings(network))
        if network is not None and not found.knows(network):
            return msgspec.structs.replace(page, status=404)
        return page


def _unavailable(address: tuple[str, int], error: OSError) -> Finding:
    where, port = shown(address), address[1]
    cause = f"stop the process that listens there (`ss -ltnp sport = :{port}` shows it)"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        cause = f"add the address {address[0]} to a link of this host"
    return Finding(
        code="metrics-unavailable",
        severity="warning",
        subject=where,
        text=f"metrics and health cannot be served at {where}: {error.strerror}",
        next=f"{cause}, or start the agent with another --metrics-listen; the agent tries again at every "
        "tick",
    )


def _judged(what: str, findings: Sequence[Finding]) -> HttpPage:
    document = {what: not findings, "findings": findings}
    return HttpPage(msgspec.json.encode(document) + b"\n", _JSON, 503 if findings else 200)
