"""Whether the node's agent answers; and of one that does not, whether it runs at all, and what to do.

None that runs is started with `netloom up`. One that runs and is silent is not helped by that.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..agent.client import AgentError, Silent
from .agent_process import Place, Running, holder, is_stopped, log_of, running
from .journal import journal_path

_KEPT = "containers keep their networks until then"


class Presence(NamedTuple):
    """Without `agent`: why, what to do, and the process that should answer, if there is one."""

    agent: Running | None
    why: str = ""
    advice: str = ""
    process: int | None = None


def presence(place: Place) -> Presence:
    try:
        found = running(place)
    except Silent as error:
        return silent(error, place)
    except AgentError as error:
        return Presence(
            None,
            str(error),
            "give the --socket that the agent was started with, or end what listens there",
            holder(place),
        )
    if found is not None:
        return Presence(found)
    process = holder(place)
    if process is None:
        was_a_node = os.path.exists(journal_path(place.state_dir))
        return Presence(
            None,
            f"no agent answers at {place.socket}",
            f"`netloom up` starts an agent; {_KEPT}"
            if was_a_node
            else "`netloom up` makes this machine a node",
        )
    return Presence(
        None,
        f"process {process} has the journal in {place.state_dir}, and does not listen at {place.socket}",
        "wait a moment if it was just started; else give the --socket that it was started with, or stop it "
        "with `netloom down`",
        process,
    )


def silent(error: Silent, place: Place) -> Presence:
    """It listens, and does not answer: stopped, stuck, or very busy."""
    process = error.process or holder(place)
    if process is None:
        return Presence(None, str(error), f"stop it where it was started, and start it again; {_KEPT}")
    if is_stopped(process):
        return Presence(
            None,
            f"process {process} listens at {place.socket}, and is stopped, as by SIGSTOP or a debugger",
            f"`kill -CONT {process}` lets it go on; {_KEPT}",
            process,
        )
    log = log_of(process, place) or "where its service manager keeps it"
    return Presence(
        None,
        f"process {process} listens at {place.socket}, and gives no answer",
        f"if it stays so, look at its log, {log}; `kill -9 {process}` ends it, and `netloom up` starts "
        f"another, which finishes or undoes what this one was doing; {_KEPT}",
        process,
    )
