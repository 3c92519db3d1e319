"""Asks the agent to do something; whatever keeps it from that is an error with its page."""

from __future__ import annotations

import argparse

from ..api.client import AgentError, Connection, NotRunning, Silent, UnknownQuestion
from .agent_presence import presence, silent
from .agent_process import Place
from .failure import CommandFailed
from .privileges import require_root
from .status import DEADLINE, FAILED


def ask(args: argparse.Namespace, question: str, arguments: bytes = b"", *, timeout: float) -> bytes:
    """The answer to a question that changes something. Raises `CommandFailed` if there is none.

    The answer may take long. Whether anybody is there to give it is known at once, and is asked first.
    """
    require_root("asking the agent")
    place = Place(args.state_dir, args.socket)
    _require_presence(place)
    try:
        with Connection(place.socket, timeout) as connection:
            return connection.ask(question, arguments)
    except NotRunning:
        found = presence(place)
        raise CommandFailed(
            f"{found.why or f'no agent answers at {place.socket}'}; nothing was done",
            found.advice or "try again: one has just been started",
            code="agent-not-running" if found.process is None else "agent-elsewhere",
        ) from None
    except Silent as error:
        found = silent(error, place)
        raise CommandFailed(
            f"{found.why}; nothing came within {timeout:g} s, and what was asked may still be done",
            found.advice,
            code=found.code,
            status=DEADLINE,
        ) from None
    except AgentError as error:
        raise _refused(error, question, place) from None


def _require_presence(place: Place) -> None:
    found = presence(place)
    if found.agent is None:
        raise CommandFailed(
            f"{found.why}; nothing was done",
            found.advice,
            code=found.code,
            status=DEADLINE if found.code in ("agent-halted", "agent-silent") else FAILED,
        )


def _refused(error: AgentError, question: str, place: Place) -> CommandFailed:
    if isinstance(error, UnknownQuestion):
        return CommandFailed(
            f"the agent at {place.socket} does not know how to {question}: it is of an earlier version",
            "`netloom up` hands over to this version, without a failed call",
            code="agent-outdated",
        )
    return CommandFailed(
        str(error), "look at the agent's log; `netloom status` tells more", code="agent-refused"
    )
