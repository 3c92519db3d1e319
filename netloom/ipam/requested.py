"""Addresses that somebody asked for by name, by any of the ways that CNI has for it."""

from __future__ import annotations

from collections.abc import Sequence

from ..cni import CNIError, InvalidConfig, InvalidEnvironment
from ..cni.names import shortened
from ..kernel.errors import InvalidObject
from ..kernel.values import packed_cidr, shown_ip
from .pool import Pool


def requested_addresses(
    args_ip: str | None, args_cni_ips: Sequence[str], capability_ips: Sequence[str], pools: Sequence[Pool]
) -> tuple[bytes, ...]:
    """All that were asked for, each once, in the order of asking.

    `args_ip` is the value of `IP=` in `CNI_ARGS`: one address, or several with commas between them. A
    prefix length may stand behind an address and is ignored, as host-local does: the pool knows it.
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
                    f"{way}: {shortened(text)!r} is no IP address", discreet=f"{way}: no IP address"
                ) from None
            pool_of(ip, pools, kind, f"{way}: ")
            found[ip] = None
    return tuple(found)


def pool_of(ip: bytes, pools: Sequence[Pool], kind: type[CNIError] = InvalidConfig, lead: str = "") -> Pool:
    """The pool that may give an address; an error of the given kind says why none may."""
    for pool in pools:
        if ip in pool:
            return pool
    reason = next((pool.refusal(ip) for pool in pools if pool.covers(ip)), "is in none of the pools")
    cidrs = ", ".join(pool.cidr for pool in pools)
    raise kind(f"{lead}{shown_ip(ip)} {reason}", f"the network's pools are {cidrs}")
