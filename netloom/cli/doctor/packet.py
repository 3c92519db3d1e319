"""A packet, and whether the matches of a rule of nftables hold for it: true, false, or not known.

What a named set holds, a mark, a port or an extension of iptables cannot be told here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Packet(Struct, frozen=True, kw_only=True):
    """What is known of it. `source` and `destination` are networks: it may be any address of them."""

    iif: str = ""
    oif: str = ""
    source: _Network
    destination: _Network
    state: Literal["new", "established"] = "new"

    @property
    def family(self) -> int:
        return self.source.version


def both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return True if one and other else None


def matches(match: Mapping[str, Any], packet: Packet) -> bool | None:
    left, right, op = match.get("left"), match.get("right"), match.get("op", "==")
    found = _equals(left, right, packet) if isinstance(left, dict) else None
    if op in ("==", "in"):
        return found
    if op == "!=":
        # A packet of another family does not have such a field, and no match of it holds.
        return None if found is None or _is_of_other_family(left, packet) else not found
    return None


def _is_of_other_family(left: Any, packet: Packet) -> bool:
    protocol = left.get("payload", {}).get("protocol") if isinstance(left, dict) else None
    return protocol in ("ip", "ip6") and protocol != ("ip" if packet.family == 4 else "ip6")


def _equals(left: Mapping[str, Any], right: Any, packet: Packet) -> bool | None:
    if "meta" in left:
        return _of_meta(left["meta"].get("key"), right, packet)
    if "ct" in left:
        key = left["ct"].get("key")
        if key == "state":
            return _any_of(right, lambda it: it == packet.state)
        if key == "status":
            return _any_of(right, lambda it: False if it in ("dnat", "snat") else None)
        if key == "direction":
            return _any_of(right, lambda it: it == ("original" if packet.state == "new" else "reply"))
        return None
    payload = left.get("payload")
    if isinstance(payload, dict) and payload.get("protocol") in ("ip", "ip6"):
        if _is_of_other_family(left, packet):
            return False
        if payload.get("field") in ("saddr", "daddr"):
            own = packet.source if payload["field"] == "saddr" else packet.destination
            return _any_of(right, lambda it: _holds(it, own))
    return None


def _of_meta(key: str | None, right: Any, packet: Packet) -> bool | None:
    if key in ("iifname", "iif"):
        return _any_of(right, lambda it: _named(it, packet.iif))
    if key in ("oifname", "oif"):
        return _any_of(right, lambda it: _named(it, packet.oif))
    if key == "nfproto":
        return _any_of(right, lambda it: it == f"ipv{packet.family}")
    if key == "protocol":
        return _any_of(right, lambda it: it == ("ip" if packet.family == 4 else "ip6"))
    return None


def _any_of(right: Any, equals: Callable[[Any], bool | None]) -> bool | None:
    """Whether one of several, which stand in a set or a list."""
    if isinstance(right, dict) and "set" in right:
        right = right["set"]
    if isinstance(right, str) and right.startswith("@"):
        return None
    answers = [equals(it) for it in (right if isinstance(right, list) else [right])]
    if True in answers:
        return True
    return None if None in answers else False


def _named(pattern: Any, name: str) -> bool | None:
    if not isinstance(pattern, str):
        return None
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _holds(value: Any, own: _Network) -> bool | None:
    """Whether all addresses of a network are meant, none, or some."""
    try:
        if isinstance(value, dict) and "prefix" in value:
            text = f"{value['prefix']['addr']}/{value['prefix']['len']}"
            low, high = _span(ipaddress.ip_network(text, strict=False))
        elif isinstance(value, dict) and "range" in value:
            low, high = (int(ipaddress.ip_address(it)) for it in value["range"])
        elif isinstance(value, str):
            low = high = int(ipaddress.ip_address(value))
        else:
            return None
    except (ValueError, KeyError, TypeError):
        return None
    first, last = _span(own)
    if low <= first and last <= high:
        return True
    return False if last < low or high < first else None


def _span(network: _Network) -> tuple[int, int]:
    return int(network.network_address), int(network.broadcast_address)
