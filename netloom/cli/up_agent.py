"""The agent's part of `netloom up`: one is started, follows the one that runs, or is left to its manager."""

from __future__ import annotations

import argparse
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from .. import __version__
from ..api.client import AgentError, Silent
from ..api.info import Info
from .agent_presence import silent
from .agent_process import Place, Running, await_other, log_of, require_same_state, running
from .agent_start import start
from .failure import CommandFailed
from .service_manager import unit_of

Change: TypeAlias = Literal["started", "replaced", "kept", "none"]


class AgentPart(Struct, frozen=True, kw_only=True):
    """What became of the agent."""

    change: Annotated[Change, Meta(description="`none`: none runs, and none was to be started")]
    process: Annotated[int | None, Meta(description="its process")] = None
    version: Annotated[str | None, Meta(description="its version")] = None
    socket: Annotated[str, Meta(description="where it listens")]
    log: Annotated[str | None, Meta(description="its log, unless a service manager has it")] = None
    unit: Annotated[str | None, Meta(description="the service of systemd that runs it")] = None
    waited_ms: Annotated[
        float | None, Meta(description="of one that was replaced: for how long calls have waited, at most")
    ] = None


def found_agent(place: Place) -> Running | None:
    """The agent that answers. Raises if what answers is none, or one that must not be replaced."""
    try:
        found = running(place)
    except Silent as error:
        who = silent(error, place)
        raise CommandFailed(f"the agent does not answer: {who.why}", who.advice, code=who.code) from None
    except AgentError as error:
        raise CommandFailed(
            str(error), "stop it with `netloom down`, and try again", code="agent-strange"
        ) from None
    if found is not None:
        require_same_state(place, found.info, "; nothing was changed")
    return found


def is_of_another(info: Info) -> bool:
    """Versions that were never released have one number."""
    from ..networks.table import TABLE

    return (info.version, info.table) != (__version__, TABLE.comment)


def in_background(args: argparse.Namespace, place: Place, found: Running | None) -> AgentPart:
    """An agent that belongs to nobody. One that a service manager runs is kept: that is who replaces it."""
    if args.no_agent:
        return part("none" if found is None else "kept", place, found)
    if found is None:
        found = await_other(place, args.timeout)
    if found is None:
        return part("started", place, start(place, args.conf_dir, args.timeout).agent)
    if not is_of_another(found.info) or unit_of(process_of(found)):
        return part("kept", place, found)
    agent, waited = start(place, args.conf_dir, args.timeout, take_over=True)
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
