"""W3C trace context, passed on to plugins in their environment.

A runtime that was itself started with `TRACEPARENT` passes it on untouched, as it passes on its
whole environment. A runtime that serves many requests sets `trace_context` for each.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from msgspec import Struct

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class TraceContext(Struct, frozen=True):
    traceparent: str
    tracestate: str = ""
    baggage: str = ""

    def __post_init__(self) -> None:
        if not _TRACEPARENT.fullmatch(self.traceparent):
            raise ValueError(f'invalid traceparent "{self.traceparent}"')
        for name, value in (("tracestate", self.tracestate), ("baggage", self.baggage)):
            if not (value.isascii() and (value.isprintable())):
                raise ValueError(f"invalid {name} {value!a}")

    def environment(self) -> dict[str, str]:
        fields = {"TRACEPARENT": self.traceparent, "TRACESTATE": self.tracestate, "BAGGAGE": self.baggage}
        return {name: value for name, value in fields.items() if value}


trace_context: ContextVar[TraceContext | None] = ContextVar("trace_context", default=None)
