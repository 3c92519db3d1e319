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
    """Calls an RPC that changes something, and returns its answer. Raises `OperationFailed` without one.

    The answer may take long. So the function first checks that an agent answers at all.
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
            found.advice or "try again: an agent has just been started",
            code="agent-not-running" if found.process is None else "agent-elsewhere",
        ) from None
    except Silent as error:
        found = silent(error, place)
        raise OperationFailed(
            f"{found.why}; no answer came within {timeout:g} s, and the request may still be carried out",
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
            f"the agent at {place.socket} does not support `{question}`: it has an earlier version",
            "`netloom up` replaces it with this version; no call fails meanwhile",
            code="agent-outdated",
        )
    return OperationFailed(
        str(error), "look at the agent's log; `netloom status` shows more", code="agent-refused"
    )


# A healthy agent takes a round trip and a commit; the user waits this long for any other.
_PATIENCE = 1.0


def settle(socket: str) -> str:
    """Makes the agent write its log. Returns why the log may lack the latest operations; else empty."""
    try:
        connection = Connection(socket, _PATIENCE)
    except AgentError:
        return ""  # no agent has more, or none can be asked
    try:
        with connection:
            connection.ask("settle")
    except UnknownRPC:
        return ""  # one of an earlier version writes its log within a moment
    except AgentError as error:
        return f"{error}: the latest operations may be missing here"
    return ""


def unwritten(socket: str) -> list[Operation]:
    """Operations that the agent keeps in memory since the disk is full; empty if it cannot be asked."""
    import msgspec

    from ...journal import Operation

    try:
        with Connection(socket, _PATIENCE) as connection:
            return msgspec.json.decode(connection.ask("unwritten"), type=list[Operation])
    except (AgentError, msgspec.MsgspecError):
        return []
