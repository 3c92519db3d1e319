"""Firewalls of others that drop what containers need: in the kernel, every table has to let a packet pass."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.findings import Finding
from ...ops.firewall.flows import around, flows_of
from ...ops.firewall.judging import findings_of
from .ground import Ground
from .legacy import legacy_findings


def look(ground: Ground) -> Iterator[Finding]:
    yield from legacy_findings()
    networks = [it.network for it in ground.networks if it.network is not None]
    pools = [(pool.cidr, it.isolation == "containers") for it in networks for pool in it.pools]
    if pools:
        has_ports = ground.ledger is not None and any(ground.ledger.count_ports())
        yield from findings_of(ground.host, flows_of(around(ground.host, pools, has_ports=has_ports)))
