"""The agent's part of `netloom up`: a systemd unit with --systemd, else a process in the background."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ... import __version__
from ...api.client import AgentError, Silent
from ...api.paths import Place
from ...api.protocol import Info
from ..control import units as own_units
from ..control.presence import silent
from ..control.process import Running, Tell, answering, await_other, log_of, require_same_state, running
from ..control.start import start
from ..control.units import SERVICE, SOCKET, is_booted, paths, require_booted, systemctl, unit_of
from ..errors import OperationFailed
from ..journals.reading import explained
from ..node.install import Put, read, receipt
from .conflist import AgentAccess, NodeOptions


def is_used(state_dir: str) -> bool:
    """Whether an earlier `netloom up --systemd` made systemd run the agent."""
    if not is_booted():
        return False
    known = receipt(state_dir).files
    return all(path in known and os.path.exists(path) for path in paths()) or own_units.are_left(state_dir)


def judge(place: Place, found: Running | None, access: AgentAccess, *, force: bool) -> None:
    """Raises, before anything is changed, if systemd cannot run the agent, or another unit runs it."""
    require_booted()
    unit = None if found is None else unit_of(process_of(found))
    if unit not in (None, SERVICE):
        raise OperationFailed(
            f"the running agent belongs to {unit}, which `netloom up` did not write; nothing was done",
            f"run `systemctl disable --now {unit}` first; or keep that unit, and give --no-agent",
            code="agent-of-other-unit",
        )
    if not force:
        _require_ours(place)
    if found is not None and is_of_another(found.info):
        with explained():
            access.require_readable(place.journal)


def by_systemd(
    place: Place,
    found: Running | None,
    timeout: float,
    contents: Mapping[str, bytes],
    put: Callable[[str, bytes], Put],
    access: AgentAccess,
) -> tuple[AgentPart, dict[str, Put]]:
    """Makes systemd run the agent. Returns what was done to the agent and to each unit.

    `contents` are the units' contents, by name.
    """
    unit = None if found is None else unit_of(process_of(found))
    is_old = found is not None and is_of_another(found.info)
    units = {path: put(path, contents[os.path.basename(path)]) for path in paths()}
    if set(units.values()) != {"kept"}:
        systemctl("daemon-reload")
        is_old = is_old or unit == SERVICE
        if found is None:  # an old unit's agent may still serve at its previous socket
            systemctl("stop", SERVICE, SOCKET)
    began = time.monotonic()
    change: Change = "started" if found is None else "kept"
    if found is not None and unit is None:
        # Calls wait at systemd's socket until the service's agent is there.
        access.replace_agent(place, lambda: systemctl("start", SOCKET))
        change = "replaced"
    elif is_old:
        systemctl("restart", SERVICE, said_by=SERVICE)
        change = "replaced"
    systemctl("enable", "--now", SOCKET, SERVICE, said_by=SERVICE)
    agent = answering(place, timeout, lambda: False, access.tell)
    if agent is None:
        raise OperationFailed(
            f"systemd started the agent, but it does not answer at {place.socket}",
            f"look at `systemctl status {SERVICE}` and `journalctl -u {SERVICE}`",
            code="agent-silent",
        )
    waited = (time.monotonic() - began) * 1000 if change == "replaced" else None
    return part(change, place, agent, waited), units


def _require_ours(place: Place) -> None:
    """Raises if `netloom up` did not write a unit, or a user changed it since."""
    known = receipt(place.state_dir)
    for path in paths():
        try:
            there = read(path)
        except OSError as cause:
            raise OperationFailed(
                f"{path} cannot be read: {cause.strerror}; nothing was done",
                "move away what is in its place; or keep it, and give --no-agent",
                code="unit-foreign",
                kind="configuration",
            ) from None
        if there is not None and not own_units.is_ours(path, there, place.state_dir, known):
            raise OperationFailed(
                f"{path} was not written by `netloom up`, or was changed since; nothing was done",
                f"put what you need into a drop-in (`systemctl edit {os.path.basename(path)}`), and replace "
                "the file with --force; or keep it, and give --no-agent",
                code="unit-foreign",
                kind="configuration",
            )


Change: TypeAlias = Literal["started", "replaced", "kept", "none"]


class AgentPart(Struct, frozen=True, kw_only=True):
    """What was done to the agent."""

    change: Annotated[Change, Meta(description="`none`: no agent runs, and none was to be started")]
    process: Annotated[int | None, Meta(description="its process")] = None
    version: Annotated[str | None, Meta(description="its version")] = None
    socket: Annotated[str, Meta(description="where it listens")]
    log: Annotated[str | None, Meta(description="its log, unless a service manager has it")] = None
    unit: Annotated[str | None, Meta(description="the service of systemd that runs it")] = None
    waited_ms: Annotated[
        float | None, Meta(description="of one that was replaced: how long calls waited, at most")
    ] = None


def found_agent(place: Place) -> Running | None:
    """The agent that answers. Raises if it is not an agent, or has another state directory."""
    try:
        found = running(place)
    except Silent as error:
        who = silent(error, place)
        raise OperationFailed(f"the agent does not answer: {who.why}", who.advice, code=who.code) from None
    except AgentError as error:
        raise OperationFailed(
            str(error), "stop it with `netloom down`, and try again", code="agent-strange"
        ) from None
    if found is not None:
        require_same_state(place, found.info, "; nothing was changed")
    return found


def is_of_another(info: Info) -> bool:
    """Whether an agent has another version. Unreleased versions share a number: the table counts, too."""
    from ...networks.table import TABLE

    return (info.version, info.table) != (__version__, TABLE.comment)


def in_background(options: NodeOptions, found: Running | None, tell: Tell) -> AgentPart:
    """Starts or replaces an agent without a service manager. One of a service manager is kept as it is."""
    place, timeout = options.place, options.timeout
    if options.no_agent:
        return part("none" if found is None else "kept", place, found)
    if found is None:
        found = await_other(place, timeout, tell)
    if found is None:
        return part("started", place, start(place, timeout, tell).agent)
    if not is_of_another(found.info) or unit_of(process_of(found)):
        return part("kept", place, found)
    agent, waited = start(place, timeout, tell, take_over=True)
    return part("replaced", place, agent, waited)


def part(change: Change, place: Place, found: Running | None, waited: float | None = None) -> AgentPart:
    if found is None:
        return AgentPart(change=change, socket=place.socket)
    process = process_of(found)
    return AgentPart(
        change=change,
        process=process,
        version=found.info.version,
        socket=place.socket,
        log=log_of(process, place),
        unit=unit_of(process),
        waited_ms=None if waited is None else round(waited, 1),
    )


def process_of(found: Running) -> int:
    return found.process or found.info.process
