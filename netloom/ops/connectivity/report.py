"""The report of `netloom connectivity`: a result for each probe, and the errors of probes."""

from __future__ import annotations

import errno
import os
from typing import Literal, TypeAlias

from msgspec import Struct

Family: TypeAlias = Literal["ipv4", "ipv6"]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

FAMILIES: tuple[Family, ...] = ("ipv4", "ipv6")
# The detail of probes that --skip names.


class ProbeResult(Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """The result of one probe. `code`, from the error catalogue, and all that follows it are a failure's.

    `subject` is what the code is about, as `netloom doctor` names it: for a firewall, its chain.
    """

    what: str
    family: Family
    source: str
    target: str
    result: Outcome
    milliseconds: float = 0.0
    detail: str = ""
    code: str = ""
    subject: str = ""
    cause: str = ""
    next: str = ""


class Container(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"container_id": "containerID", "ifname": "ifName", "host_link": "hostLink"},
):
    """One of the two containers. `host_link` is empty if the ADD result names no link of the host."""

    name: str
    container_id: str
    netns: str
    ifname: str
    addresses: tuple[str, ...]
    mtu: int
    host_link: str


class Left(Struct, frozen=True, kw_only=True):
    """What could not be removed."""

    what: str
    why: str
    next: str


class Connectivity(Struct, frozen=True, kw_only=True):
    """`removal` has the commands that remove what `--keep` kept; `left` is what could not be removed."""

    network: str
    containers: tuple[Container, ...]
    checks: tuple[ProbeResult, ...]
    passed: int
    failed: int
    skipped: int
    in_time: bool
    removal: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    warnings: tuple[str, ...] = ()


def counted(checks: tuple[ProbeResult, ...]) -> dict[str, int]:
    outcomes: tuple[Outcome, ...] = ("passed", "failed", "skipped")
    return {outcome: sum(check.result == outcome for check in checks) for outcome in outcomes}


class Failed(Exception):
    """A probe failed. `errno` is the kernel's, also if an ICMP error caused it; 0 if no answer came.

    `code` and `cause` are set only if the cause is known already.
    """

    def __init__(
        self, text: str, *, errno: int = 0, code: str = "", cause: str = "", advice: str = ""
    ) -> None:
        super().__init__(text)
        self.errno = errno
        self.code = code
        self.cause = cause
        self.advice = advice


class Skipped(Exception):
    """A probe cannot run here. The text says why."""


_WORDS = {
    errno.ENETUNREACH: "there is no route",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ECONNREFUSED: "connection refused",
    errno.EACCES: "prohibited by a router or firewall",
    errno.EPERM: "a firewall of the sender drops it",
    errno.EMSGSIZE: "too large for the path",
    errno.ECONNRESET: "the connection was reset",
}


def refused(cause: OSError) -> Failed:
    number = cause.errno or 0
    return Failed(_WORDS.get(number) or os.strerror(number) if number else str(cause), errno=number)


def lost(patience: float) -> Failed:
    return Failed(f"no answer within {patience:.1f} s")
