"""Findings about one attachment: what it lacks, what was changed, what blocks it."""

from __future__ import annotations

from collections.abc import Sequence

from ...api.findings import Finding
from ...cni import AttachmentKey
from ...journal import Attachment
from ...kernel import Difference, Plan
from ..node.host import Diverted

# What a running agent does by itself.
BY_AGENT = (
    "a running agent repairs it within a minute, or `netloom status` says why not; `netloom up` starts one"
)
_REPAIR = "`netloom check --repair` does it at once"


def unfinished(row: Attachment) -> Finding:
    return Finding(
        code="attachment-unfinished", subject=str(row.key), text=f"{row.key} is {row.state}", next=BY_AGENT
    )


def unreadable(key: AttachmentKey) -> Finding:
    return Finding(
        code="plan-unreadable",
        subject=str(key),
        text=f"{key}: its plan cannot be read; it can only be deleted",
        next="delete its container, or run `netloom cni del`; `netloom ls --wide` shows its names",
    )


def mode_unknown(row: Attachment, *, is_readable: bool) -> Finding:
    """`is_readable`: its plan can be read, so that DEL removes what the plan says."""
    deleted = "DEL removes what its plan says" if is_readable else "and its plan cannot be read: DEL fails"
    return Finding(
        code="mode-unknown",
        severity="warning" if is_readable else "error",
        subject=str(row.key),
        text=f"{row.key}: this version does not know the mode {row.mode!r}; {deleted}",
        next="run the version of netloom that made it, or a later one (`netloom --version`)",
    )


def stale(row: Attachment, *, is_replaced: bool = False) -> Finding:
    """Its namespace was deleted, and the kernel deleted the host's end of its link with it."""
    return Finding(
        code="netns-stale",
        subject=str(row.key),
        text=f"{row.key}: its namespace {row.netns} {_how(is_replaced)}, and no DEL came",
        next="a running agent releases it 30 seconds after the namespace was deleted; `netloom gc` does it "
        "at once",
    )


def busy(row: Attachment, *, is_replaced: bool = False) -> Finding:
    """The kernel deletes a namespace's links with it: while the host's end exists, a process holds it."""
    return Finding(
        code="netns-busy",
        subject=str(row.key),
        text=f"{row.key}: {row.netns} {_how(is_replaced)}, but a process keeps its namespace alive",
        next="`netloom doctor` names the process: end or restart it; the kernel then deletes the namespace "
        "and its links",
    )


def _how(is_replaced: bool) -> str:
    return "was replaced by another namespace" if is_replaced else "was deleted"


def missing(key: AttachmentKey, objects: Sequence[str]) -> Finding:
    return Finding(
        code="object-missing",
        subject=str(key),
        text=f"{key}{_many(objects)}: not in the kernel: {'; '.join(objects)}",
        next=f"{BY_AGENT}; {_REPAIR}",
    )


def changed(key: AttachmentKey, plan: Plan, differences: Sequence[Difference]) -> Finding:
    """A change in the container's own namespace is a warning: its owner may have intended it."""
    outside = {it.label for it in plan.objects if it.on == "host"}
    is_inside = all(it.object not in outside or it.is_of_peer for it in differences)
    return Finding(
        code="object-changed",
        severity="warning" if is_inside else "error",
        subject=str(key),
        text=f"{key}{_many(differences)}: {'; '.join(map(str, differences))}",
        next="the agent does not undo what others changed: change it back, or run `netloom check "
        f"{key} --repair`",
    )


def _many(listed: Sequence[object]) -> str:
    return f" ({len(listed)} objects)" if len(listed) > 1 else ""


def foreign_address(row: Attachment, address: str, link: str, *, on_host: bool = False) -> Finding:
    enter = "" if on_host else f"nsenter --net={row.netns} "
    return Finding(
        code="address-foreign",
        severity="warning",
        subject=str(row.key),
        text=f"{row.key}: {link} has the address {address}, which netloom did not assign",
        next=f"`{enter}ip address del {address} dev {link}` removes it; or request it when you attach the "
        "container",
    )


def diverted(key: AttachmentKey, found: Diverted) -> Finding:
    return Finding(
        code="route-diverted",
        subject=str(key),
        text=f"{key}: {found.what}",
        next=f"`ip rule` and `ip route get {found.ip}` show the rule or route that diverts them: remove it",
    )


def unrepaired(key: AttachmentKey, why: str) -> Finding:
    """`why` is the kernel's answer to the agent's attempt."""
    return Finding(
        code="attachment-unrepaired",
        subject=str(key),
        text=f"{key} lost part of its network, and the agent cannot repair it: {why}",
        next=f"`netloom check {key}` shows what is missing; remove the cause that the message names, or "
        "detach the container and attach it again",
    )


def many_unwell(count: int) -> Finding:
    """Stands for the attachments that a short list leaves out."""
    more = "1 more attachment is" if count == 1 else f"{count} more attachments are"
    return Finding(
        code="attachment-unrepaired", text=f"{more} not as planned", next="`netloom check` names each"
    )
