"""Host ports: NAT of packets for a port of this host to a container.

Only packets for an address of this host are translated: a packet for the same port of another machine must
pass unchanged (CVE-2025-67499).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...kernel import NftElement, Plan
from .. import table
from .options import MappedPort


def elements(ports: Iterable[MappedPort]) -> list[NftElement]:
    made: list[NftElement] = []
    for it in ports:
        key, value = (it.protocol, str(it.host_port)), (it.ip, str(it.port))
        if it.host_ip:
            made.append(table.element(table.PORTS_AT[it.is_ipv6], it.host_ip, *key, value=value))
        else:
            made.append(table.element(table.PORTS[it.is_ipv6], *key, value=value))
        if it.host_ip in ("", table.LOOPBACK6):
            made.append(table.element(table.LOOPED[it.is_ipv6], *key))
        elif it.host_ip.startswith("127."):
            made.append(table.element(table.LOOPED_AT, it.host_ip, *key))
    return made


def of_plan(plan: Plan) -> list[MappedPort]:
    """Returns the host ports in the plan of an attachment."""
    return of_elements(it for it in plan.objects if isinstance(it, NftElement))


def of_elements(elements: Iterable[NftElement]) -> list[MappedPort]:
    return [
        MappedPort(
            protocol=it.key[-2],  # type: ignore[arg-type]
            host_port=int(it.key[-1]),
            ip=it.value[0],
            port=int(it.value[1]),
            host_ip=it.key[0] if it.set in table.PORTS_AT else "",
        )
        for it in elements
        if it.value is not None and it.set in table.PORTS + table.PORTS_AT
    ]
