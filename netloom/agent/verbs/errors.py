"""Translates errors of lower layers into CNI errors: a code, a sentence, a next step."""

from __future__ import annotations

from typing import ClassVar

from ...cni import AttachmentKey, CNIError, InternalError, InvalidNetns, IOFailure, TryAgainLater
from ...failpoints import FailpointReached
from ...ipam import Taken
from ...journal import Attachment, Closed, Damaged, JournalError, Unwritable
from ...kernel import (
    Conflict,
    InvalidNamespace,
    InvalidPlan,
    KernelError,
    KernelTimeout,
    QueueFull,
    Stopped,
    SysctlError,
    Unsupported,
)
from ...kernel.values import shown_ip
from ...networks.features.options import MappedPort
from ...networks.modes import UnknownMode


class VerbFailed(CNIError):
    """An error with a code of netloom's own.

    It is not the class attribute `code`: that would turn another plugin's error 100 into this class.
    """

    CODE: ClassVar[int]

    def __init__(self, msg: str, details: str = "") -> None:
        super().__init__(msg, details, code=self.CODE)


class KernelRefused(VerbFailed):
    """The kernel refused a part of the plan, or is known not to support it."""

    CODE = 100


class InTheWay(VerbFailed):
    """Another program's object conflicts with the attachment."""

    CODE = 102


class NotAsPlanned(VerbFailed):
    """CHECK found differences."""

    CODE = 103


class AttachedElsewhere(VerbFailed):
    """The key has an attachment already, in another namespace or with another configuration."""

    CODE = 104


class PortTaken(VerbFailed):
    """A host port already leads to another container."""

    CODE = 105

    def __init__(self, port: MappedPort, holder: Attachment) -> None:
        super().__init__(
            f"host port {port} is held by {holder.key}",
            "use another port, or delete that attachment; `netloom ports` lists the holders",
        )
        self.holder = holder


class PortOfOrphan(VerbFailed):
    """A host port leads to an orphaned link."""

    CODE = 105

    def __init__(self, port: MappedPort, link: str) -> None:
        super().__init__(
            f"host port {port} leads to link {link}, which is not in the journal (orphaned)",
            "use another port; or delete the container that uses the link, with its runtime; or, if no "
            f"container uses it, delete the link (`ip link del {link}`)",
        )


class OfOrphan(Taken):
    """A requested address is routed to an orphaned link."""

    def __init__(self, ip: bytes, link: str) -> None:
        super().__init__(
            f"requested address {shown_ip(ip)} is in use by link {link}, which is not in the journal "
            "(orphaned)",
            "delete the container that uses the link, with its runtime; or, if no container uses it, delete "
            f"the link (`ip link del {link}`); or request another address",
        )


class OfNeighbour(Taken):
    """A requested address belongs to another machine on the host's network."""

    def __init__(self, ip: bytes, who: str, link: str = "") -> None:
        """`link` is set if only the host's neighbour table has the address."""
        address = shown_ip(ip)
        gone = f"; if that machine no longer exists, `ip neigh del {address} dev {link}` frees the address"
        super().__init__(
            f"requested address {address} is in use by {who}: the host could not reach it any more",
            f"request another address{gone if link else ''}",
        )


def explained(error: BaseException, key: AttachmentKey | None) -> CNIError:
    """Returns the CNI error for any error."""
    where = f"attachment {key}" if key is not None and all(key) else ""
    return _translated(error).at(attachment=key, context=where)


def _translated(error: BaseException) -> CNIError:
    match error:
        case CNIError():
            return error
        case Conflict():
            return InTheWay(str(error), "remove what is in the way, or choose another name or address")
        case QueueFull() | KernelTimeout() | Stopped():
            return TryAgainLater(str(error), "the node is busy; `netloom status` shows its load")
        case InvalidNamespace() | InvalidPlan():
            return InvalidNetns(str(error))
        case Unsupported():
            return KernelRefused(str(error), "`netloom doctor` lists what this kernel can do")
        case SysctlError():
            return KernelRefused(str(error), "correct the network's `sysctl`, if the setting is from there")
        case KernelError():
            return KernelRefused(str(error), "`netloom doctor` lists what this kernel can do")
        case Unwritable():
            return IOFailure(str(error), "check the disk: space, permissions, errors")
        case Damaged():
            return IOFailure(
                str(error),
                "run `netloom down`, restore a copy with `netloom journal restore FILE` or move the file "
                "away, then run `netloom up`",
            )
        case UnknownMode():
            return TryAgainLater(
                f"{error}, and the recorded plan cannot be read: nothing was removed",
                "run the version of netloom that created the attachment, or a later one",
            )
        case Closed():
            return TryAgainLater("the agent is stopping", "`netloom status` shows when one runs again")
        case JournalError():
            return IOFailure(str(error))
        case OSError():
            return IOFailure(str(error), "check the disk: space, permissions, errors")
        case FailpointReached():
            return InternalError(str(error))
    report = "this is a defect of netloom: please report it"
    kind = type(error).__name__
    # The text may quote the request: only its sender may see it.
    return InternalError(f"{kind}: {error}", report, discreet=f"{kind}; {report}")
