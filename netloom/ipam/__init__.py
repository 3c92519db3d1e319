"""IPAM: which addresses a network may assign, which are free, and which one an attachment gets.

These are functions over values. `Holdings`, which the journal implements within a transaction, knows which
addresses are held and which rest; nothing here does I/O, waits or keeps state. An exception rolls the
transaction back, so an attachment gets either all of its addresses or none.
"""

from .counting import PoolUsage, Shortage, count_free, free_addresses, usage, would_allocate
from .holdings import FREE, HELD, Holdings, SqlHoldings
from .pool import Pool, PoolConfig, parse_pools
from .strategy import Allocation, Exhausted, Taken, allocate, requested_addresses

__all__ = [
    "Allocation", "Exhausted", "FREE", "HELD", "Holdings", "Pool", "PoolConfig", "PoolUsage", "Shortage",
    "SqlHoldings", "Taken", "allocate", "count_free", "free_addresses", "parse_pools",
    "requested_addresses", "usage", "would_allocate",
]  # fmt: skip
