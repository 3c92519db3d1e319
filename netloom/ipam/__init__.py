"""Addresses for attachments: which a network may give, which are free, which one it shall be.

Functions over values. What is held and what rests is asked of `Holdings`, which the journal answers
inside of a transaction; nothing here opens, waits or remembers. Whatever goes wrong is an exception
that ends that transaction, so a half-given set of addresses does not exist.
"""

from .holdings import FREE, HELD, Holdings, SqlHoldings
from .pool import Pool, PoolConfig, parse_pools
from .strategy import Allocation, Exhausted, Taken, allocate, requested_addresses
from .usage import PoolUsage, Shortage, count_free, free_addresses, usage, would_allocate

__all__ = [
    "Allocation", "Exhausted", "FREE", "HELD", "Holdings", "Pool", "PoolConfig", "PoolUsage", "Shortage",
    "SqlHoldings", "Taken", "allocate", "count_free", "free_addresses", "parse_pools",
    "requested_addresses", "usage", "would_allocate",
]  # fmt: skip
