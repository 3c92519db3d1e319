"""Decodes what the journal stores of an attachment: its plan, its result, its addresses and host ports.

A row may be unreadable because a later version wrote it before a downgrade, or because the file is damaged.
DEL must not fail for it, and the key must not be lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ..cni import CNIError, Result, decode_result
from ..journal import Attachment, Ledger, Port
from ..kernel import InvalidPlan, Plan
from ..kernel.values import packed_ip, shown_ip
from .features.options import MappedPort
from .modes import UnknownMode, mode_named
from .modes.base import Lost


def readable_plan(attachment: Attachment) -> Plan | None:
    try:
        return Plan.decode(attachment.plan)
    except InvalidPlan:
        return None


def readable_result(attachment: Attachment) -> Result | None:
    try:
        result = decode_result(attachment.result)
    except CNIError:
        return None
    return result if isinstance(result, Result) else None


def remnants_of(ledger: Ledger, attachment: Attachment) -> Plan:
    """Returns what to remove for an attachment whose plan cannot be read, derived by its mode from its row.

    Raises `UnknownMode`: then nothing is known about its objects, and its row must stay.
    """
    ips = tuple(ip for _, ip in ledger.addresses_of(attachment.id))
    lost = Lost(attachment.host_link, attachment.ifname, ips, attachment.rank)
    return mode_named(attachment.mode).remnants(lost)


def planned_addresses(attachment: Attachment, plan: Plan) -> Sequence[bytes] | None:
    """Returns the addresses that the host routes to the attachment; None if its mode is unknown."""
    try:
        return mode_named(attachment.mode).addresses(plan)
    except UnknownMode:
        return None


def port_of(it: MappedPort) -> Port:
    ip = packed_ip(it.ip)
    return Port(
        protocol=it.protocol,
        host_port=it.host_port,
        host_ip=packed_ip(it.host_ip) if it.host_ip else bytes(len(ip)),
        ip=ip,
        port=it.port,
    )


def host_port_of(it: Port) -> MappedPort:
    return MappedPort(
        protocol=it.protocol,  # type: ignore[arg-type]
        host_port=it.host_port,
        ip=shown_ip(it.ip),
        port=it.port,
        host_ip=shown_ip(it.host_ip) if any(it.host_ip) else "",
    )


class _Ip(Struct):
    address: str


class _Addresses(Struct):
    ips: tuple[_Ip, ...] = ()


_addresses = msgspec.json.Decoder(_Addresses)


def addresses_of(result: bytes) -> tuple[str, ...]:
    """Returns the addresses of a stored result, without prefix lengths."""
    try:
        return tuple(it.address.partition("/")[0] for it in _addresses.decode(result).ips)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()
