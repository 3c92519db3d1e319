"""Asks the kernel which way a packet would take that came in by a link. Nothing is sent."""

from __future__ import annotations

import errno
import socket
from struct import Struct

from ...kernel import Namespace
from ...kernel.netlink import route
from ...kernel.netlink.attributes import raw, u32

# A root server, whose address has not moved for decades and is nobody's own.
FAR_AWAY = socket.inet_pton(socket.AF_INET, "198.41.0.4")

# Of a source that reverse-path filtering does not believe; and the same from Linux 6.14 on.
FILTERED = frozenset({errno.EXDEV, errno.EINVAL})

_INFO = Struct("=BBBBBBBBI")
_DST, _SRC, _IIF = 1, 2, 3


def way_in(host: Namespace, index: int, source: bytes, target: bytes) -> route.Route | None:
    """Of IPv4. Raises `Refused`: EHOSTUNREACH if the link does not forward, one of `FILTERED` if the source
    is not believed."""
    family = socket.AF_INET
    head = _INFO.pack(family, len(target) * 8, len(source) * 8, 0, 0, 0, 0, 0, 0)
    question = head + raw(_DST, target) + raw(_SRC, source) + u32(_IIF, index)
    answer = host.route.ask(route.GET, question)
    return None if answer is None else route.decode(answer)
