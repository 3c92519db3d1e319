"""What the journal keeps of an attachment, as values: its plan, its result, its addresses and host ports.

A later version may have written a row, and was taken back; or the file is damaged. Whatever the reason: DEL
must not fail for it, and the key must not be lost.
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
    """What to remove of an attachment whose plan cannot be read: its mode knows, from what its row says.

    Raises `UnknownMode`: then nothing is known of what it has, and its row must stay.
    """
    ips = tuple(ip for _, ip in ledger.addresses_of(attachment.id))
    lost = Lost(attachment.host_link, attachment.ifname, ips, attachment.rank)
    return mode_named(attachment.mode).remnants(lost)


def planned_addresses(attachment: Attachment, plan: Plan) -> Sequence[bytes] | None:
    """Those that the host's own routing table leads to the attachment; None if its mode is unknown."""
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
    """Of a result as the journal has it, without prefixes."""
    try:
        return tuple(it.address.partition("/")[0] for it in _addresses.decode(result).ips)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()
