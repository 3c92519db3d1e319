"""Fixes of `netloom doctor --fix`. Each is harmless, and can be undone.

A fix never replaces a file of others in the place of netloom's: a person has to decide that. Files that fixes
write are recorded in the receipt like those of `netloom up`, and `netloom down --purge` deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import Place
from ...api.protocol import AT_A_TIME, Key, RepairRequest
from ...cni.files import make_directories
from ..control.asking import ask
from ..errors import OperationFailed
from ..install.plugins import install, is_foreign, require_receipt
from ..node.install import EXECUTABLE, READABLE, NotBuilt, read, receipt, shipped_plugin
from .host import path_of
from .services import NETWORKD_CONTENT, NETWORKD_DROP_IN, NM_CONTENT, NM_DROP_IN

# Seconds for a request to the agent.
_PATIENCE = 60.0
_STILL = "the fix was applied, but the finding remains"


class _LeftAlone(Exception):
    """The place of one of netloom's files has something that a person has to check first."""


class Fix(Struct, frozen=True, kw_only=True):
    """A fix of a finding."""

    code: Annotated[str, Meta(description="code of the finding")]
    subject: Annotated[str, Meta(description="what the finding is about")]
    text: Annotated[str, Meta(description="what was done; with --dry-run: what would be done")]
    done: Annotated[bool, Meta(description="whether it was done")]
    error: Annotated[str, Meta(description="why the attempt failed; empty otherwise")] = ""


def fix(place: Place, found: Iterable[Finding], *, dry_run: bool) -> list[Fix]:
    """Fixes each finding that has a fix, once for each subject."""
    wanted: dict[str, dict[str, Finding]] = {}
    for it in found:
        if it.fix:
            wanted.setdefault(it.code, {}).setdefault(it.subject, it)
    return [
        done
        for code, findings in wanted.items()
        for done in _fixed(place, code, list(findings.values()), dry_run=dry_run)
    ]


def judged(fixed: Iterable[Fix], left: Iterable[Finding]) -> list[Fix]:
    """Marks fixes as not done whose finding remains."""
    there = {(it.code, it.subject) for it in left}
    return [
        replace(it, done=False, error=_STILL) if it.done and (it.code, it.subject) in there else it
        for it in fixed
    ]


def _fixed(place: Place, code: str, findings: Sequence[Finding], *, dry_run: bool) -> Iterator[Fix]:
    together = [findings] if code in _BY_AGENT else [[it] for it in findings]
    for some in together:
        why = "" if dry_run else _tried(place, code, some)
        for it in some:
            done = not dry_run and not why
            yield Fix(code=code, subject=it.subject, text=it.fix, done=done, error=why)


def _tried(place: Place, code: str, findings: Sequence[Finding]) -> str:
    """Returns why it could not be done; empty if it was done."""
    try:
        if code in _BY_AGENT:
            _BY_AGENT[code](place, findings)
        else:
            _FIXES[code](place, findings[0])
    except OSError as error:
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    except (NotBuilt, OperationFailed, _LeftAlone) as error:
        return str(error)
    return ""


def _collect(place: Place, _: Sequence[Finding]) -> None:
    ask(place, "collect", timeout=_PATIENCE)


def _repair(place: Place, findings: Sequence[Finding]) -> None:
    keys = [cast(Key, tuple(it.subject.split("/"))) for it in findings]
    for start in range(0, len(keys), AT_A_TIME):
        wish = RepairRequest(keys[start : start + AT_A_TIME])
        ask(place, "repair", msgspec.json.encode(wish), timeout=_PATIENCE)


def _switch_on(_: Place, found: Finding) -> None:
    with open(path_of(found.subject), "w") as file:
        file.write("1")


def _install_plugin(place: Place, found: Finding) -> None:
    if is_foreign(found.subject, receipt(place.state_dir)):
        raise _LeftAlone(f"{found.subject} is not netloom's plugin")
    _write(place, found.subject, shipped_plugin(), EXECUTABLE)


def _configure_networkd(place: Place, _: Finding) -> None:
    _write_drop_in(place, NETWORKD_DROP_IN, NETWORKD_CONTENT.encode())


def _configure_network_manager(place: Place, _: Finding) -> None:
    _write_drop_in(place, NM_DROP_IN, NM_CONTENT.encode())


def _write_drop_in(place: Place, path: str, content: bytes) -> None:
    there = read(path)
    if there not in (None, content) and not receipt(place.state_dir).is_ours(path, there):
        raise _LeftAlone(f"{path} has content that netloom did not write")
    _write(place, path, content, READABLE)


def _write(place: Place, path: str, content: bytes, mode: int) -> None:
    damage = require_receipt(place.state_dir)
    if damage is not None:
        raise _LeftAlone(f"{damage}, and would be lost; `netloom up` writes a new one")
    make_directories(place.state_dir, 0o700)
    install(place.state_dir, path, content, mode)


# Fixes of many findings with one request to the agent.
_BY_AGENT: Mapping[str, Callable[[Place, Sequence[Finding]], None]] = {
    "netns-stale": _collect,
    "attachment-unfinished": _collect,
    "element-orphaned": _collect,
    "object-missing": _repair,
}
_FIXES: Mapping[str, Callable[[Place, Finding], None]] = {
    "sysctl-forwarding": _switch_on,
    "plugin-missing": _install_plugin,
    "plugin-differs": _install_plugin,
    "plugin-not-executable": _install_plugin,
    "networkd-interferes": _configure_networkd,
    "networkmanager-interferes": _configure_network_manager,
}
FIXABLE = frozenset({*_BY_AGENT, *_FIXES})
