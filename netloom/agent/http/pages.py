"""What an agent shows to machines that watch: `/metrics`, `/livez`, `/readyz`, and `/`, which names them.

Each is made once at a time, however many ask: whoever comes while it is being made gets the same.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ... import __version__
from ...api.findings import Finding
from ..conditions import Condition
from ..liveness import stuck
from ..metrics.exposition import CONTENT_TYPE, exposition
from ..metrics.readings import readings
from ..node import Node
from ..readiness import Judge, Obstacles
from ..single_flight import Shared
from .http import Page
from .web import Make, Web, shown

_JSON = "application/json"
# The condition's key.
_WEB = "web"
_INDEX = f"""netloom {__version__}
/metrics   for Prometheus
/livez     whether the agent makes progress
/readyz    whether an ADD would work now; ?network=NAME for one network
"""


class Pages:
    """Of a node, at the address that its settings name, or nowhere. `under_way` counts requests."""

    def __init__(self, node: Node, under_way: Callable[[], int]) -> None:
        self._node = node
        self._under_way = under_way
        self._judge = Judge(node)
        self._obstacles: Shared[Obstacles] = Shared(self._judge.obstacles)
        self._stuck: Shared[list[Finding]] = Shared(lambda: stuck(node))
        self._exposed: Shared[bytes] = Shared(self._expose)
        pages: Mapping[str, Make] = {
            "/": self._index,
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
        }
        self._web = None
        if node.settings.web is not None:
            self._web = Web(node.settings.web, pages, heard=self._heard, again=node.settings.tick)

    def open(self) -> None:
        if self._web is not None:
            self._web.open()

    async def close(self) -> None:
        """Nobody is answered any more, nothing is asked of the node, and the address is free."""
        if self._web is not None:
            await self._web.close()
        for asked in (self._exposed, self._obstacles, self._stuck, self._judge):
            await asked.close()

    def _heard(self, error: OSError | None) -> None:
        if error is None or self._web is None:
            self._node.conditions.pop(_WEB, None)
        else:
            self._node.conditions[_WEB] = Condition(_unavailable(self._web.address, error))

    async def _index(self, _: Mapping[str, str]) -> Page:
        return Page(_INDEX.encode())

    async def _metrics(self, _: Mapping[str, str]) -> Page:
        return Page(await self._exposed(), CONTENT_TYPE)

    async def _expose(self) -> bytes:
        return exposition(await readings(self._node, await self._obstacles(), self._under_way()))

    async def _livez(self, _: Mapping[str, str]) -> Page:
        return _judged("alive", await self._stuck())

    async def _readyz(self, query: Mapping[str, str]) -> Page:
        network = query.get("network")
        found = await self._obstacles()
        page = _judged("ready", found.findings(network))
        if network is not None and not found.knows(network):
            return msgspec.structs.replace(page, status=404)
        return page


def _unavailable(address: tuple[str, int], error: OSError) -> Finding:
    where, port = shown(address), address[1]
    cause = f"`ss -ltnp sport = :{port}` shows which process listens there: stop it"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        cause = f"give a link of this host the address {address[0]}"
    return Finding(
        code="metrics-unavailable",
        severity="warning",
        subject=where,
        text=f"metrics and health cannot be served at {where}: {error.strerror}",
        next=f"{cause}, or start the agent with another --metrics-listen; the agent tries again at every "
        "tick",
    )


def _judged(what: str, findings: Sequence[Finding]) -> Page:
    document = {what: not findings, "findings": findings}
    return Page(msgspec.json.encode(document) + b"\n", _JSON, 503 if findings else 200)
