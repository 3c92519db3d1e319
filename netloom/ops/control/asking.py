"""Calls RPCs of the agent. A failure is an error with its page in the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...api.client import AgentError, Connection, NotRunning, Silent, UnknownRPC
from ...api.paths import Place
from ..advice import require_root
from ..errors import OperationFailed
from .presence import presence, silent

if TYPE_CHECKING:
    from ...journal import Operation


def ask(place: Place, question: str, arguments: bytes = b"", *, timeout: float) -> bytes:
    """The answer to a question that changes something. Raises `OperationFailed` if there is none.

    The answer may take long. Whether anybody is there to give it is known at once, and is asked first.
    """
    require_root("asking the agent")
    place = Place(place.state_dir, place.socket)
    _require_presence(place)
    try:
        with Connection(place.socket, timeout) as connection:
            return connection.ask(question, arguments)
    except NotRunning:
        found = presence(place)
        raise OperationFailed(
            f"{found.why or f'no agent answers at {place.socket}'}; nothing was done",
            found.advice or "try again: one has just been started",
            code="agent-not-running" if found.process is None else "agent-elsewhere",
        ) from None
    except Silent as error:
        found = silent(error, place)
        raise OperationFailed(
            f"{found.why}; nothing came within {timeout:g} s, and what was asked may still be done",
            found.advice,
            code=found.code,
            kind="deadline",
        ) from None
    except AgentError as error:
        raise _refused(error, question, place) from None


def _require_presence(place: Place) -> None:
    found = presence(place)
    if found.agent is None:
        raise OperationFailed(
            f"{found.why}; nothing was done",
            found.advice,
            code=found.code,
            kind="deadline" if found.code in ("agent-halted", "agent-silent") else "failed",
        )


def _refused(error: AgentError, question: str, place: Place) -> OperationFailed:
    if isinstance(error, UnknownRPC):
        return OperationFailed(
            f"the agent at {place.socket} does not know how to {question}: it is of an earlier version",
            "`netloom up` hands over to this version, without a failed call",
            code="agent-outdated",
        )
    return OperationFailed(
        str(error), "look at the agent's log; `netloom status` tells more", code="agent-refused"
    )


# An agent that is well takes a round trip and a commit; the person waits for one that is not.
_PATIENCE = 1.0


def settle(socket: str) -> str:
    """Why the log may lack what happened last; empty: it does not."""
    try:
        connection = Connection(socket, _PATIENCE)
    except AgentError:
        return ""  # nobody is there who would know more, or nobody who can be asked
    try:
        with connection:
            connection.ask("settle")
    except UnknownRPC:
        return ""  # one of an earlier version writes its log within a moment
    except AgentError as error:
        return f"{error}: what happened last may be missing here"
    return ""


def unwritten(socket: str) -> list[Operation]:
    """What the agent has in memory, since the disk does not take it. Nothing, if it cannot be asked."""
    import msgspec

    from ...journal import Operation

    try:
        with Connection(socket, _PATIENCE) as connection:
            return msgspec.json.decode(connection.ask("unwritten"), type=list[Operation])
    except (AgentError, msgspec.MsgspecError):
        return []
