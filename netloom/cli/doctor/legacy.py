"""Rules of iptables-legacy, which apply beside nftables' rules. No `nft list` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.findings import Finding
from ...kernel.netfilter.legacy import tables
from ...networks.names import PREFIX

CODE = "legacy-iptables"


def legacy_findings() -> Iterator[Finding]:
    """A table that is empty and accepts everything is left behind by one `iptables-legacy -L`."""
    active = [it for it in tables() if it.rules != 0]
    for family, program in (("ip", "iptables-legacy"), ("ip6", "ip6tables-legacy")):
        names = [it.name for it in active if it.family == family]
        if names:
            yield Finding(
                code=CODE,
                severity="warning",
                subject=program,
                text=f"{program} rules are active and also apply to containers: "
                f"{'table' if len(names) == 1 else 'tables'} {', '.join(names)}",
                next=f"`{program}-save` shows them; let links named {PREFIX}* pass there, or move the rules "
                "to nftables",
            )
