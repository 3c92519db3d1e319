"""Every kind of kernel object as rows of a table: what it needs, what it is, and how it can drift.

`KERNEL` is what any kernel can do; what takes a distribution's is in `full_rows`. The tests say what
is true of every row; a new object, or a field of one, is a new row.
"""

from __future__ import annotations

from .address_rows import ADDRESSES, NEIGHBOURS
from .link_rows import LINKS, PORTS
from .route_rows import ROUTES, RULES, SETTINGS
from .row import Row
from .traffic_rows import NFTABLES, TRAFFIC

KERNEL: tuple[Row, ...] = (
    *LINKS, *ADDRESSES, *NEIGHBOURS, *PORTS, *ROUTES, *RULES, *SETTINGS, *TRAFFIC, *NFTABLES,
)  # fmt: skip
