"""The plan of an attachment, also where its row cannot be read.

A later version may have written it, and was taken back; or the file is damaged. Whatever the reason: DEL must
not fail for it, and the key must not be lost.
"""

from __future__ import annotations

from ..cni import CNIError, Result, decode_result
from ..journal import Attachment, Ledger
from ..kernel import InvalidPlan, Plan
from ..modes import routed


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
    """What has to go without its plan: that follows from the name of its link, and from its addresses."""
    ips = [ip for _, ip in ledger.addresses_of(attachment.id)]
    return routed.remnants(attachment.host_link, attachment.ifname, ips, attachment.rank)
