"""Findings about the node's part of the kernel: its nft table, forwarding, MTU and queued DELs, and the
addresses by which containers of every node reach their host.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.findings import Finding
from ...kernel import Difference, Route
from ...networks import table
from ...networks.table import TABLE

_SHOWN = 3


def table_broken(differences: Sequence[object] = ()) -> Finding:
    """`differences` is empty if only a count shows that the table is incomplete."""
    listed = [str(it) for it in differences]
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    what = f": {'; '.join(listed[:_SHOWN])}{more}" if listed else ""
    return Finding(
        code="table-broken",
        subject=TABLE.name,
        text=f"the nft table {TABLE.family} {TABLE.name} differs from what the agent wrote{what}",
        next="a running agent restores it at once; `netloom up` starts one",
    )


def silent(why: str, subject: object = "") -> Finding:
    about = f"{subject}: " if subject else ""
    return Finding(
        code="kernel-silent",
        subject=str(subject),
        text=f"{about}{why}",
        next="the text ends with the kernel's own words; try again with `netloom check`",
    )


def object_missing(label: str, why: str) -> Finding:
    """A mode needs this object on the node itself. `why` is the kernel's answer."""
    return Finding(
        code="node-object-missing",
        subject=label,
        text=f"the host lacks {label}, which its networks need: {why}",
        next="remove what the message names; the agent tries again every second",
    )


def forwarding_off(setting: str, *, link: str = "", why: str = "") -> Finding:
    """`setting` is a name as `sysctl` takes it; `link`: the only link it concerns; `why` it stays off."""
    about = f" packets that arrive on {link}" if link else ""
    kept = f", and the agent cannot set it to 1: {why}" if why else ""
    by_agent = "" if link else "; a running agent does it within a second (`netloom up` starts one)"
    return Finding(
        code="sysctl-forwarding",
        subject=setting,
        text=f"the host does not forward{about}: {setting} is 0{kept}; containers reach neither each other "
        "nor the outside",
        next=f"`sysctl -w {setting}=1`{by_agent}",
        fix=f"set {setting} to 1",
    )


def queued_dels(count: int, subject: str, *, has_agent: bool) -> Finding:
    """`subject` is the directory of all queued DELs, or the attachment of a single one."""
    waits = "1 DEL waits" if count == 1 else f"{count} DELs wait"
    return Finding(
        code="queued-dels",
        severity="warning",
        subject=subject,
        text=f"{waits} for the agent: {subject}",
        next="the agent does them within a second; if it does not, its log says why"
        if has_agent
        else "`netloom up` starts an agent, which does them before it serves",
    )


def mtu_mismatch(network: str, uplink: str, mtu: int, larger: str, path: str = "") -> Finding:
    """`larger` says what has a larger MTU than the uplink; `path`: the file that sets it."""
    advice = "attach the containers again; they then get the uplink's MTU"
    if path:
        advice = f"set `mtu` to {mtu} or less in {path} (0 follows the uplink), and {advice}"
    return Finding(
        code="mtu-mismatch",
        severity="warning",
        subject=network,
        text=f"MTU mismatch: uplink {uplink} is {mtu}, {larger}",
        next=advice,
    )


ADDRESSES: dict[int, Route] = dict(zip((4, 6), table.OWN_ADDRESSES, strict=True))

_LOST = {
    4: "Host ports on 127.0.0.1 do not work, nor do containers that call their own host port or resolve "
    "their next hop",
    6: "Host ports on ::1 do not work, nor do containers that call their own host port over IPv6",
}


def address_missing(family: int, why: str) -> Finding:
    """`why` is the kernel's answer, as the end of a sentence."""
    address = ADDRESSES[family].destination.partition("/")[0]
    switch = ""
    if family == 6:
        switch = "if IPv6 is switched off on lo, `sysctl -w net.ipv6.conf.lo.disable_ipv6=0`; otherwise "
    return Finding(
        code="node-address-missing",
        subject=address,
        text=f"the host lacks {address}, which netloom needs on every node: {why}. {_LOST[family]}",
        next=f"{switch}`ip route show table local` shows what has taken its place: remove that; the agent "
        "adds the address within a second",
    )


def is_local(differences: Sequence[Difference]) -> bool:
    """Whether the host has the address on another link than lo, where it answers for it just as well."""
    return all(it.what == "different" and it.field == "way" for it in differences)
