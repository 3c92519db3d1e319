"""Queueing disciplines: the queues of a link's packets, and the hooks for filters."""

from __future__ import annotations

from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import Attributes, nested, raw, text, u32, u64

NEW, DELETE, GET = 36, 37, 38

INFO = Struct("=BxxxiIII")
_KIND, _OPTIONS = 1, 2
ROOT, INGRESS = 0xFFFFFFFF, 0xFFFFFFF1
INGRESS_HANDLE = 0xFFFF0000

_TBF_PARAMETERS, _TBF_RATES, _TBF_RATE64, _TBF_BURST = 1, 2, 4, 6
_RATE = Struct("=BBHhHI")  # cell log, link layer, overhead, cell align, mpu, rate
_TBF = Struct("=12s12sIII")  # rate, peak rate, limit, buffer, mtu
_ETHERNET = 1
_CELL_LOG, _CELLS = 3, 256
# The kernel's tick for packet scheduling is 64 ns.
_TICK_NS = 64
_U32_MAX = 0xFFFFFFFF


class Qdisc(Record, frozen=True):
    index: int
    handle: int
    parent: int
    kind: str
    options: bytes


class TokenBucket(Record, frozen=True):
    """Bytes per second; burst bytes; bytes that may wait."""

    rate: int
    burst: int
    limit: int


def decode(payload: bytes) -> Qdisc:
    if len(payload) < INFO.size:
        raise Malformed(f"a qdisc of {len(payload)} bytes")
    _, index, handle, parent, _ = INFO.unpack_from(payload)
    found = Attributes(payload[INFO.size :])
    return Qdisc(index, handle, parent, found.text(_KIND) or "", found.raw(_OPTIONS) or b"")


def ingress(index: int, kind: str) -> bytes:
    """Builds the hook for incoming packets (`ingress`), or for both directions (`clsact`)."""
    return INFO.pack(0, index, INGRESS_HANDLE, INGRESS, 0) + text(_KIND, kind)


def at_root(index: int) -> bytes:
    return INFO.pack(0, index, 0, ROOT, 0)


def of_link(index: int) -> bytes:
    return INFO.pack(0, index, 0, 0, 0)


def token_bucket(index: int, handle: int, bucket: TokenBucket) -> bytes:
    rate = _RATE.pack(_CELL_LOG, _ETHERNET, 0, -1, 0, min(bucket.rate, _U32_MAX))
    parts = [
        raw(_TBF_PARAMETERS, _TBF.pack(rate, bytes(12), bucket.limit, _ticks(bucket.burst, bucket.rate), 0)),
        u32(_TBF_BURST, bucket.burst),
        # The kernel computes its own since 3.11 but still requires a table of 256 entries.
        raw(_TBF_RATES, bytes(4 * _CELLS)),
    ]
    if bucket.rate > _U32_MAX:
        parts.append(u64(_TBF_RATE64, bucket.rate))
    return INFO.pack(0, index, handle, ROOT, 0) + text(_KIND, "tbf") + nested(_OPTIONS, *parts)


def decode_token_bucket(options: bytes) -> TokenBucket:
    found = Attributes(options)
    data = found.raw(_TBF_PARAMETERS)
    if data is None or len(data) < _TBF.size:
        raise Malformed("a tbf without parameters")
    packed, _, limit, buffer, _ = _TBF.unpack_from(data)
    rate = found.u64(_TBF_RATE64) or _RATE.unpack(packed)[5]
    # The kernel stores the burst as its duration.
    return TokenBucket(rate, round(buffer * _TICK_NS * rate / 1e9), limit)


def _ticks(size: int, rate: int) -> int:
    return min(size * 1_000_000_000 // (rate * _TICK_NS), _U32_MAX)
