"""A journal's two tables in a real SQLite, and the rows that a journal writes around an allocation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netloom.ipam import Allocation, Pool, PoolConfig, SqlHoldings, allocate, parse_pools
from netloom.journal import empty
from netloom.kernel.values import packed_ip, shown_ip

COOLDOWN = 130.0
NOW = 10_000.0


class Book:
    """One node's addresses. `attach` is what an ADD does: allocate, and write it down."""

    def __init__(self) -> None:
        self.connection = empty().connection
        self.holdings = SqlHoldings(self.connection)

    def attach(
        self,
        pools: Sequence[Pool],
        *names: str,
        scope: str = "net",
        now: float = NOW,
        cooldown: float = COOLDOWN,
        identity: tuple[str, ...] = (),
    ) -> tuple[Allocation, ...]:
        found = allocate(
            pools,
            [packed_ip(name) for name in names],
            self.holdings,
            scope=scope,
            now=now,
            cooldown=cooldown,
            identity=identity,
        )
        self.hold((it.ip for it in found), scope=scope)
        return found

    def hold(self, ips: Iterable[bytes], *, scope: str = "net") -> None:
        self._write(scope, ips, 1, None)

    def release(self, ips: Iterable[bytes], *, at: float, scope: str = "net") -> None:
        self._write(scope, ips, None, at)

    def _write(
        self, scope: str, ips: Iterable[bytes], attachment: int | None, released: float | None
    ) -> None:
        self.connection.execute("BEGIN")
        self.connection.executemany(
            "INSERT OR REPLACE INTO address VALUES (?, ?, ?, 0.0, ?)",
            ((scope, ip, attachment, released) for ip in ips),
        )
        self.connection.execute("COMMIT")

    def rows(self) -> list[tuple[object, ...]]:
        """All that is written, to see that nothing has changed."""
        return [
            *self.connection.execute("SELECT * FROM address"),
            *self.connection.execute("SELECT * FROM cursor"),
        ]


def pools_of(*configs: str | PoolConfig) -> tuple[Pool, ...]:
    return parse_pools([PoolConfig(it) if isinstance(it, str) else it for it in configs])


def pool_of(
    cidr: str,
    gateway: str | None = None,
    exclude: tuple[str, ...] = (),
) -> Pool:
    (pool,) = parse_pools([PoolConfig(cidr, gateway, exclude)])
    return pool


def every(pool: Pool) -> list[bytes]:
    return [pool.at(ordinal) for ordinal in range(pool.capacity)]


def shown(found: Iterable[Allocation]) -> list[str]:
    return [shown_ip(it.ip) for it in found]
