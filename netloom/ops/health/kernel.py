"""Findings about the node's part of the kernel: its nft table, forwarding, MTU, and DELs that wait."""

from __future__ import annotations

from collections.abc import Sequence

from ...api.findings import Finding
from ...networks.table import TABLE

_SHOWN = 3


def table_broken(differences: Sequence[object] = ()) -> Finding:
    """Without differences, only a count has told that it is not whole."""
    listed = [str(it) for it in differences]
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    what = f": {'; '.join(listed[:_SHOWN])}{more}" if listed else ""
    return Finding(
        code="table-broken",
        subject=TABLE.name,
        text=f"the nft table {TABLE.family} {TABLE.name} is not as it was laid down{what}",
        next="a running agent lays it down again at once; `netloom up` starts one",
    )


def silent(why: str, subject: object = "") -> Finding:
    about = f"{subject}: " if subject else ""
    return Finding(
        code="kernel-silent",
        subject=str(subject),
        text=f"{about}{why}",
        next="the text ends with the kernel's own words; ask again with `netloom check`",
    )


def forwarding_off(setting: str, *, link: str = "", why: str = "") -> Finding:
    """`setting` is a name as `sysctl` takes it; `link` the only link that it is about; `why`: it stays so."""
    about = f" what comes in by {link}" if link else ""
    kept = f", and the agent cannot set it to 1: {why}" if why else ""
    by_agent = "" if link else "; a running agent does it within a second (`netloom up` starts one)"
    return Finding(
        code="sysctl-forwarding",
        subject=setting,
        text=f"the host does not forward{about}: {setting} is 0{kept}; no container reaches another, or the "
        "outside",
        next=f"`sysctl -w {setting}=1`{by_agent}",
        fix=f"set {setting} to 1",
    )


def queued_dels(count: int, subject: str, *, has_agent: bool) -> Finding:
    """`subject` is the directory of all of them, or the attachment that one is about."""
    waits = "1 DEL waits" if count == 1 else f"{count} DELs wait"
    return Finding(
        code="queued-dels",
        severity="warning",
        subject=subject,
        text=f"{waits} for the agent: {subject}",
        next="it does them within a second, unless something is in its way: its log tells"
        if has_agent
        else "the next agent does them before it serves: `netloom up`",
    )


def mtu_mismatch(network: str, uplink: str, mtu: int, larger: str, path: str = "") -> Finding:
    """`larger` says who has a larger MTU than the uplink; `path`: the file that asks for it."""
    advice = "attach the containers again, which then follow the uplink"
    if path:
        advice = f"set `mtu` to {mtu} or less in {path} (0 follows the uplink), and {advice}"
    return Finding(
        code="mtu-mismatch",
        severity="warning",
        subject=network,
        text=f"MTU mismatch: uplink {uplink} is {mtu}, {larger}",
        next=advice,
    )
