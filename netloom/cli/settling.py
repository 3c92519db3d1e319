"""Has the agent write down what it knows, before its log of operations is read.

It writes the log a little later than it answers, and `podman run … || netloom explain …` is quicker than
that. Nothing depends on it: without an agent, or with one that does not know the question, the log is read as
it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..api.client import AgentError, Connection, UnknownQuestion

if TYPE_CHECKING:
    from ..journal import Operation

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
    except UnknownQuestion:
        return ""  # one of an earlier version writes its log within a moment
    except AgentError as error:
        return f"{error}: what happened last may be missing here"
    return ""


def unwritten(socket: str) -> list[Operation]:
    """What the agent has in memory, since the disk does not take it. Nothing, if it cannot be asked."""
    import msgspec

    from ..journal import Operation

    try:
        with Connection(socket, _PATIENCE) as connection:
            return msgspec.json.decode(connection.ask("unwritten"), type=list[Operation])
    except (AgentError, msgspec.MsgspecError):
        return []
