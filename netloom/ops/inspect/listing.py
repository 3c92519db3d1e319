"""Lists attachments, the ports of the host that lead to them, and DELs that wait for the agent.

It reads the journal and the files of queued DELs, not the kernel.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import NamedTuple

from ...api.paths import Place
from ...api.text import shown_ip
from ...cni import CNIError
from ...cni.skel import judge_config
from ...journal import Attachment, Port
from ..journals.reading import ledger
from .documents import AttachedWorkload, HeldPort, Listed
from .plan_facts import facts_of


class Queued(NamedTuple):
    """A queued DEL. `network` is None if it names none and so concerns all; `sent` is seconds since boot."""

    network: str | None
    container_id: str
    ifname: str
    sent: float

    def is_about(self, row: Attachment) -> bool:
        same = (self.container_id, self.ifname) == (row.container_id, row.ifname)
        return same and self.network in (None, row.network) and row.created <= self.sent


def queued(directory: str) -> list[Queued]:
    """Ignores files that cannot be read: the agent reports them."""
    try:
        if not os.listdir(directory):
            return []
    except OSError:
        return []
    from ...api.protocol import ProtocolError, read_intent, waiting

    found = []
    for path in waiting(directory):
        try:
            message = read_intent(path)
        except (OSError, ProtocolError):
            continue
        environment = message.head.environment
        found.append(
            Queued(
                _network(message.body),
                environment.get("CNI_CONTAINERID", ""),
                environment.get("CNI_IFNAME", ""),
                message.head.sent / 1e9,
            )
        )
    return found


def _network(body: bytes) -> str | None:
    try:
        name: str = judge_config(body)["name"]
    except CNIError:
        return None
    return name


class AttachmentRow(NamedTuple):
    """An attachment of the journal, its addresses as text, and whether its DEL waits."""

    row: Attachment
    addresses: list[str]
    is_queued: bool


def attachments(place: Place, network: str | None = None) -> list[AttachmentRow]:
    """Lists attachments of one network, or all; by network, the oldest first."""
    with ledger(place) as journal:
        if journal is None:
            return []
        addresses = defaultdict(list)
        for _, ip, number in journal.held():
            addresses[number].append(ip)
        rows = [it for it in journal.attachments() if network in (None, it.network)]
        rows.sort(key=lambda it: (it.network, it.id))
        dels = queued(place.intents)
        return [
            AttachmentRow(
                it,
                [shown_ip(ip) for ip in sorted(addresses[it.id], key=lambda ip: (len(ip), ip))],
                any(one.is_about(it) for one in dels),
            )
            for it in rows
        ]


def document_of(it: AttachmentRow) -> Listed:
    row, facts = it.row, facts_of(it.row.plan)
    return Listed(
        network=row.network,
        container_id=row.container_id,
        ifname=row.ifname,
        addresses=it.addresses,
        mac=facts.mac,
        mtu=facts.mtu,
        host_link=row.host_link,
        host_ports=list(facts.ports),
        bandwidth=facts.bandwidth,
        masquerade=facts.masquerade,
        isolation=facts.isolation,
        netns=row.netns,
        state=row.state,
        queued=it.is_queued,
        created=row.created_at,
        workload=AttachedWorkload(row.namespace, row.pod, row.uid),
    )


def configured_networks(directory: str) -> set[str]:
    """Returns the names of networks; none if the directory cannot be read."""
    from ..node.networks import node_networks

    try:
        return {network.name for network in node_networks(directory)}
    except CNIError:
        return set()


def held_ports(place: Place, port: int | None = None) -> list[HeldPort]:
    """Lists ports of the host with the attachments that hold them: one port, or all."""
    with ledger(place) as journal:
        if journal is None:
            return []
        holders = {it.id: it for it in journal.attachments()}
        dels = queued(place.intents)
        held = [(it, holders[number]) for number, it in journal.ports() if number in holders]
        return [
            _held_port(it, holder, any(one.is_about(holder) for one in dels))
            for it, holder in held
            if port in (None, it.host_port)
        ]


def _held_port(port: Port, holder: Attachment, is_queued: bool) -> HeldPort:
    return HeldPort(
        host_ip=shown_ip(port.host_ip) if any(port.host_ip) else "",
        host_port=port.host_port,
        protocol=port.protocol,
        container_ip=shown_ip(port.ip),
        container_port=port.port,
        network=holder.network,
        container_id=holder.container_id,
        ifname=holder.ifname,
        state=holder.state,
        queued=is_queued,
    )
