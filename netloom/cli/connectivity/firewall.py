"""Base chains that are not netloom's, as a bug report lists them: without their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ...kernel import Namespace
from ...kernel.nft_listing import listed
from ...networks.table import TABLE

_LEGACY = {"ipv4": "/proc/net/ip_tables_names", "ipv6": "/proc/net/ip6_tables_names"}
_REFUSALS = ("drop", "reject")


class BaseChain(Struct, frozen=True, kw_only=True):
    """A chain that the kernel calls itself. `refuses` is whether anything in it, or behind it, may drop."""

    family: str
    table: str
    name: str
    type: str
    hook: str
    priority: int
    policy: str
    rules: int
    refuses: bool

    def __str__(self) -> str:
        return f"table {self.family} {self.table}, chain {self.name} (hook {self.hook}, policy {self.policy})"


def foreign_chains(host: Namespace) -> list[BaseChain]:
    """Raises `KernelError` if nftables cannot be asked."""
    return foreign_chains_in(listed(host))


def foreign_chains_in(ruleset: list[dict[str, Any]]) -> list[BaseChain]:
    """Those of a ruleset as `nft -j list ruleset` has it."""
    chains: dict[tuple[str, str, str], dict[str, Any]] = {}
    rules: dict[tuple[str, str, str], list[list[Any]]] = {}
    for it in ruleset:
        if "chain" in it:
            chain = it["chain"]
            chains[chain["family"], chain["table"], chain["name"]] = chain
        elif "rule" in it:
            rule = it["rule"]
            rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule.get("expr", []))
    found = []
    for key, chain in chains.items():
        if "hook" not in chain or TABLE.is_at(*key[:2]):
            continue
        policy = str(chain.get("policy", "accept"))
        found.append(
            BaseChain(
                family=key[0],
                table=key[1],
                name=key[2],
                type=str(chain.get("type", "")),
                hook=str(chain["hook"]),
                priority=int(chain.get("prio", 0)),
                policy=policy,
                rules=len(rules.get(key, ())),
                refuses=policy == "drop" or _refuses(key, rules, set()),
            )
        )
    return sorted(found, key=lambda it: (it.hook, it.priority, it.family, it.table, it.name))


def legacy_tables(family: str) -> list[str]:
    """Of iptables-legacy: no nft shows what is in them."""
    try:
        with open(_LEGACY[family]) as file:
            return sorted(file.read().split())
    except OSError:
        return []


def _refuses(
    chain: tuple[str, str, str],
    rules: Mapping[tuple[str, str, str], list[list[Any]]],
    seen: set[tuple[str, str, str]],
) -> bool:
    """Whether a rule of it drops or rejects, or leads to a chain that has one that does."""
    if chain in seen:
        return False
    seen.add(chain)
    for expressions in rules.get(chain, ()):
        for verdict, target in _verdicts(expressions):
            if verdict in _REFUSALS:
                return True
            if verdict in ("jump", "goto") and _refuses((*chain[:2], target), rules, seen):
                return True
    return False


def _verdicts(value: Any) -> Iterator[tuple[str, str]]:
    """All that stand anywhere in a rule: as its end, in a map, or as a target of iptables."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _REFUSALS:
                yield key, ""
            elif key in ("jump", "goto") and isinstance(item, dict):
                yield key, str(item.get("target", ""))
            elif key == "xt" and isinstance(item, dict):
                yield str(item.get("name", "")).lower(), ""
            else:
                yield from _verdicts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _verdicts(item)
