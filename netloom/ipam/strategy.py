"""The addresses of one attachment: the requested ones, or those that the pool's strategy chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import randrange

from msgspec import Struct

from ..cni import CNIError, InvalidConfig, InvalidEnvironment, TryAgainLater
from ..cni.names import shortened
from ..kernel.errors import InvalidObject
from ..kernel.values import packed_cidr, shown_ip
from .counting import shortage, usage
from .holdings import HELD, Holdings, Resting, Vacancies, longest_resting, resting_since
from .pool import Family, Pool, Strategy, by_family

_TRIES = 4


def sequential(vacancies: Vacancies, _identity: tuple[str, ...]) -> bytes | None:
    """Chooses the next address after the last one, cyclically, so that addresses are reused late."""
    pool = vacancies.pool
    last = vacancies.holdings.cursor(vacancies.scope, pool.cidr)
    start = 0 if last is None else pool.ordinal_after(last)
    for ordinal in range(start, min(start + _TRIES, pool.capacity)):
        if vacancies.has(ip := pool.at(ordinal)):
            return ip
    return _from(vacancies, start)


def random(vacancies: Vacancies, _identity: tuple[str, ...]) -> bytes | None:
    pool = vacancies.pool
    for _ in range(_TRIES):
        if vacancies.has(ip := pool.at(randrange(pool.capacity))):
            return ip
    return _from(vacancies, randrange(pool.capacity))


def by_identity(vacancies: Vacancies, identity: tuple[str, ...]) -> bytes | None:
    """Chooses the same host part for the same identity, except the slot; any address if no slot is free."""
    pool = vacancies.pool
    host = embedded(identity, pool.host_bits)
    if host is not None:
        turn = randrange(SLOTS)
        for slot in range(SLOTS):
            ip = (pool.network | host | (slot ^ turn)).to_bytes(pool.width, "big")
            if ip in pool and vacancies.has(ip):
                return ip
    return random(vacancies, identity)


def _from(vacancies: Vacancies, start: int) -> bytes | None:
    return vacancies.first(start, vacancies.pool.capacity) or vacancies.first(0, start)


STRATEGIES: Mapping[Strategy, Callable[[Vacancies, tuple[str, ...]], bytes | None]] = {
    "sequential": sequential,
    "random": random,
    "embedded": by_identity,
}


SLOTS = 16

_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF
_HASH_NIBBLES = 16


def embedded(identity: tuple[str, ...], host_bits: int) -> int | None:
    """Returns the host part of an identity with slot 0; None if there is no identity, or no room for one.

    Each nibble is one digit of an IPv6 address. The fields of an identity share the nibbles equally (the
    first ones get the remainder), and each part is a hash of its field. The last nibble is a slot for
    identities that agree in all fields. A /64 with three fields is 5 + 5 + 5 + 1.

    >>> hex(embedded(("shop", "web", "nginx"), 64))
    '0x9767bd2a92d30c80'
    """
    room = host_bits // 4 - 1
    if room < 1 or not identity:
        return None
    if room < len(identity):  # less than a nibble for each field: hash them together
        identity = ("\0".join(identity),)
    each, left = divmod(room, len(identity))
    host = 0
    for place, field in enumerate(identity):
        nibbles = each + (place < left)
        host = host << (4 * nibbles) | _folded(fnv1a(field), min(nibbles, _HASH_NIBBLES))
    return host << 4


@lru_cache(maxsize=1024)
def fnv1a(text: str) -> int:
    """FNV-1a, 64 bits.

    >>> hex(fnv1a("foobar"))
    '0x85944171f73967e8'
    """
    value = _BASIS
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * _PRIME & _MASK
    return value


def _folded(value: int, nibbles: int) -> int:
    """Folds a hash into fewer bits. Its top bits alone are the same for `web-1` and `web-2`."""
    bits = 4 * nibbles
    folded = 0
    while value:
        folded ^= value & ((1 << bits) - 1)
        value >>= bits
    return folded


class Exhausted(TryAgainLater):
    """Every address of a family is held, or has not rested long enough."""


class Taken(CNIError):
    """A requested address is held by another attachment.

    Each instance sets the code, not the class: `from_code` would use a class that declares a code for every
    plugin's errors, and 101 may mean anything in another plugin.
    """

    CODE = 101

    def __init__(self, msg: str, details: str = "") -> None:
        super().__init__(msg, details, code=self.CODE)


def requested_addresses(
    args_ip: str | None, args_cni_ips: Sequence[str], capability_ips: Sequence[str], pools: Sequence[Pool]
) -> tuple[bytes, ...]:
    """Returns the requested addresses, each once, in the order of the request.

    `args_ip` is the value of `IP=` in `CNI_ARGS`: one address, or several separated by commas. A prefix
    length after an address is ignored, as host-local does: the pool has it.
    """
    found: dict[bytes, None] = {}
    ways: tuple[tuple[str, type[CNIError], Sequence[str]], ...] = (
        ("IP in CNI_ARGS", InvalidEnvironment, args_ip.split(",") if args_ip else ()),
        ("args.cni.ips", InvalidConfig, args_cni_ips),
        ("the capability ips", InvalidConfig, capability_ips),
    )
    for way, kind, texts in ways:
        for text in texts:
            try:
                ip, _ = packed_cidr(text.strip())
            except InvalidObject:
                raise kind(
                    f"{way}: {shortened(text)!r} is not an IP address", discreet=f"{way}: not an IP address"
                ) from None
            pool_of(ip, pools, kind, f"{way}: ")
            found[ip] = None
    return tuple(found)


def pool_of(ip: bytes, pools: Sequence[Pool], kind: type[CNIError] = InvalidConfig, lead: str = "") -> Pool:
    """Returns the pool that may assign an address. Raises an error of the given kind if none may."""
    for pool in pools:
        if ip in pool:
            return pool
    reason = next((pool.refusal(ip) for pool in pools if pool.covers(ip)), "is in none of the pools")
    cidrs = ", ".join(pool.cidr for pool in pools)
    raise kind(f"{lead}{shown_ip(ip)} {reason}", f"the network's pools are {cidrs}")


class Allocation(Struct, frozen=True):
    """`rested` is for how many seconds the address has rested, if it is assigned before its cooldown ends."""

    ip: bytes
    pool: Pool
    rested: float | None


def allocate(
    pools: Sequence[Pool],
    requested: Sequence[bytes],
    holdings: Holdings,
    *,
    scope: str,
    now: float,
    cooldown: float,
    identity: tuple[str, ...],
) -> tuple[Allocation, ...]:
    """Chooses the addresses of an attachment, IPv4 first. The caller must store them in the same transaction.

    `now` is in seconds since boot. A released address rests for `cooldown` seconds, unless it is requested,
    or no other is left and it has rested for a tenth of that time.
    """
    since = resting_since(now, cooldown)
    named = {ip: pool_of(ip, pools) for ip in requested}
    found: list[Allocation] = []
    moves: list[Allocation] = []
    for family, own in by_family(pools):
        asked = [
            _by_name(ip, pool, holdings, scope, now, since)
            for ip, pool in named.items()
            if pool.family == family
        ]
        if asked:
            found += asked
            continue
        chosen = _by_strategy(own, holdings, scope, since, identity)
        if chosen is None:
            chosen = _early(family, own, holdings, scope, now, cooldown)
        elif chosen.pool.strategy == "sequential":
            moves.append(chosen)
        found.append(chosen)
    for it in moves:
        holdings.move_cursor(scope, it.pool.cidr, it.ip)
    return tuple(found)


def _by_name(ip: bytes, pool: Pool, holdings: Holdings, scope: str, now: float, since: float) -> Allocation:
    released = holdings.released_at(scope, ip)
    if released == HELD:
        raise Taken(
            f"requested address {shown_ip(ip)} is in use by {holdings.holder(scope, ip)}",
            "request another address, or detach the container that holds it; "
            f"`netloom explain {shown_ip(ip)}` shows since when",
        )
    if released <= since:
        return Allocation(ip, pool, None)
    return Allocation(ip, pool, Resting(released, ip, pool).rested(now))


def _by_strategy(
    pools: Sequence[Pool], holdings: Holdings, scope: str, since: float, identity: tuple[str, ...]
) -> Allocation | None:
    for pool in pools:
        ip = STRATEGIES[pool.strategy](Vacancies(pool, holdings, scope, since), identity)
        if ip is not None:
            return Allocation(ip, pool, None)
    return None


def _early(
    family: Family, pools: Sequence[Pool], holdings: Holdings, scope: str, now: float, cooldown: float
) -> Allocation:
    oldest = longest_resting(pools, holdings, scope)
    if oldest is None or oldest.ready_in(now, cooldown) > 0:
        counted = usage(pools, holdings, scope, now, cooldown)
        found = shortage(family, counted, oldest, now, cooldown)
        raise Exhausted(found.text, found.next)
    return Allocation(oldest.ip, oldest.pool, oldest.rested(now))
