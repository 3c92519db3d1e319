"""What `netloom connectivity` found: a result for each probe, and how a probe fails."""

from __future__ import annotations

import errno
import os
from typing import Literal, TypeAlias

from msgspec import Struct

Family: TypeAlias = Literal["ipv4", "ipv6"]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

FAMILIES: tuple[Family, ...] = ("ipv4", "ipv6")
# Of what was skipped because of --skip.
AS_ASKED = "as was asked"


class ProbeResult(Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One thing that was tried. `code` is of the catalogue; it and all that follows it are a failure's.

    `subject` is what the code is about, as `netloom doctor` names it: of a firewall, its chain.
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
    """One of the two. `host_link` is empty if its result names no link of the host."""

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
    """`removal` are the commands that remove what `--keep` has left; `left` is what is there unasked."""

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
    """`errno` is the kernel's, if it refused or brought a refusal; 0 if nothing came back.

    `code` and `cause` are set by whoever knows the cause already.
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
    """It cannot be tried here, and why."""


_WORDS = {
    errno.ENETUNREACH: "there is no route",
    errno.EHOSTUNREACH: "answered by: no way to that host",
    errno.ECONNREFUSED: "refused",
    errno.EACCES: "answered by: prohibited",
    errno.EPERM: "a firewall of the sender does not let it out",
    errno.EMSGSIZE: "too large for the way",
    errno.ECONNRESET: "the connection was reset",
}


def refused(cause: OSError) -> Failed:
    number = cause.errno or 0
    return Failed(_WORDS.get(number) or os.strerror(number) if number else str(cause), errno=number)


def lost(patience: float) -> Failed:
    return Failed(f"no answer within {patience:.1f} s")
