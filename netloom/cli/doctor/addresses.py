"""Addresses on attachments' links that no plan has: somebody added them by hand, or another plugin did."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

from ...api.findings import Finding
from ...journal import Attachment
from ...kernel import Address, KernelError, Namespace, Plan
from ...kernel.errors import ABSENT, Refused
from ...kernel.netlink import address, link
from ...ops.health.attachments import foreign_address
from ...ops.node.presence import namespace_of
from .ground import Ground

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_GLOBAL = 0
_SOME = 200


def look(ground: Ground) -> Iterator[Finding]:
    rows = [row for row in ground.attachments if row.id in ground.plans and row.state == "committed"]
    for number, row in enumerate(rows):
        if number % _SOME == 0 and number:
            ground.tell(f"addresses of containers: {number} of {len(rows)}")
        yield from _in_container(row, ground.plans[row.id])
    yield from _on_host(ground.host, {row.host_link: row for row in rows})


def _in_container(row: Attachment, plan: Plan) -> Iterator[Finding]:
    namespace = namespace_of(row)
    if namespace is None:
        return
    planned = {it.address for it in plan.objects if isinstance(it, Address) and it.on == "attachment"}
    links = {it.link for it in plan.objects if isinstance(it, Address) and it.on == "attachment"}
    with namespace:
        try:
            for name in links:
                index = namespace.route.index(name)
                for found in _addresses(namespace, index):
                    if found not in planned:
                        yield foreign_address(row, found, name)
        except KernelError:
            return  # the link is gone, which the audit tells of


def _on_host(host: Namespace, rows: dict[str, Attachment]) -> Iterator[Finding]:
    """One question for all: the host's ends have none."""
    for index, found in _all_addresses(host):
        try:
            answer = host.route.ask(link.GET, link.get(index))
        except Refused as refused:
            if refused.errno in ABSENT:
                continue
            raise
        row = rows.get(link.decode(answer).name) if answer is not None else None
        if row is not None:
            yield foreign_address(row, found, row.host_link, on_host=True)


def _addresses(namespace: Namespace, index: int) -> list[str]:
    return [found for at, found in _all_addresses(namespace, index) if at == index]


def _all_addresses(namespace: Namespace, index: int = 0) -> Iterable[tuple[int, str]]:
    """Of one link, or of all. Link-local ones come and go by themselves."""
    for family in _FAMILIES:
        for payload in namespace.route.dump(address.GET, address.of_link(index, family)):
            found = address.decode(payload)
            if found.scope == _GLOBAL:
                yield found.index, f"{found.address}/{found.prefix}"
