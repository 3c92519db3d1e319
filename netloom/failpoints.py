"""Failpoints: named steps at which a test can kill this process, stop it, or make the step fail.

    NETLOOM_FAILPOINT=add.reserved            SIGKILL when the step is reached
    NETLOOM_FAILPOINT=add.reserved:stop       SIGSTOP
    NETLOOM_FAILPOINT=add.reserved:error      an unexpected error
    NETLOOM_FAILPOINT=add.reserved:kill:3     SIGKILL at the third time

They are in every build, since tests must run the code that users run. A failpoint that is not named costs a
look-up in an empty dict.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "NETLOOM_FAILPOINT"

# Every failpoint, in the order in which an operation reaches them.
NAMES = (
    "recovery.locked", "recovery.boot", "recovery.orphans", "recovery.node", "recovery.intent",
    "recovery.intents", "recovery.row", "recovery.row-removed", "recovery.rows", "recovery.done",
    "add.judged", "add.reserved", "add.applied", "add.committed", "add.undone", "add.freed", "add.answered",
    "del.judged", "del.marked", "del.removed", "del.released", "del.answered",
    "gc.listed", "gc.row", "gc.done", "operation.recorded",
    "collect.found", "collect.done", "repair.found", "repair.forgotten", "repair.adopted", "repair.done",
    "journal.begun", "journal.written", "journal.committed", "kernel.made", "kernel.taken",
    "handover.prepared", "handover.asked", "handover.begun", "handover.drained", "handover.released",
    "handover.offered", "handover.received", "handover.opened", "handover.serving", "handover.said",
    "handover.heard", "handover.resumed", "takeover.placed", "takeover.ended",
    "migration.kept", "migration.done", "migration.undone", "restore.aside", "restore.done",
    "moved-file.checkpointed", "install.intended", "install.written",
)  # fmt: skip


class FailpointReached(RuntimeError):
    """A step failed because `NETLOOM_FAILPOINT` names it."""


def _parsed(text: str) -> dict[str, tuple[str, int]]:
    armed: dict[str, tuple[str, int]] = {}
    for entry in filter(None, text.split(",")):
        name, action, count = (*entry.split(":"), "", "")[:3]
        if name not in NAMES and not name.startswith("plugin."):
            raise ValueError(f"{VARIABLE}: unknown step {name!r}")
        if action not in ("", "kill", "stop", "error") or not (count or "1").isdecimal():
            raise ValueError(f"{VARIABLE}: {entry!r} is not NAME[:kill|stop|error[:COUNT]]")
        armed[name] = (action or "kill", int(count or "1"))
    return armed


_armed = _parsed(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Marks a step at which a test can make the process fail."""
    if name in _armed:
        _act(name)


def _act(name: str) -> None:
    action, count = _armed[name]
    if count > 1:
        _armed[name] = (action, count - 1)
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        del _armed[name]
    if action == "error":
        raise FailpointReached(f"the step {name} failed because {VARIABLE} names it")
