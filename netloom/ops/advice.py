"""What to do next: about a refusal that root would not get, and about errors of netloom's plugin."""

from __future__ import annotations

import os
import re
import shlex
import sys

from ..cni import CNIError
from .errors import OperationFailed


def require_root(what: str) -> None:
    """`what` the command does that needs it, as the middle of a sentence."""
    if os.geteuid() != 0:
        raise OperationFailed(f"permission denied: {what} needs root", as_root(), code="needs-root")


# What sudo does not pass on unless it is told to, and where the node's files are.
_PLACES = ("NETLOOM_STATE_DIR", "NETLOOM_SOCKET", "NETCONFPATH", "CNI_PATH")


def as_root() -> str:
    """The advice to run this very command as root."""
    kept = ",".join(it for it in _PLACES if os.environ.get(it))
    sudo = ["sudo", *([f"--preserve-env={kept}"] if kept else [])]
    return f"run it as root: `{shlex.join([*sudo, 'netloom', *sys.argv[1:]])}`"


OWN_PLUGIN = "netloom"

_ADVICE: dict[int, str] = {
    2: "take that key out of the network's configuration; `netloom cni validate` checks it",
    3: "attach it first, with `netloom cni add`; `netloom ls --wide` lists what is attached",
    11: "try again in a moment; `netloom status` shows what the agent is doing",
    50: "`netloom status` tells what is wrong with the agent, the network or the host",
    100: "`netloom doctor` lists what this kernel can do, and what it lacks",
    101: "ask for another address, or detach who holds it; `netloom explain ADDRESS` tells since when",
    102: "remove what the message names, if nobody needs it, or choose another interface name or address; "
    "`netloom doctor` names links that are not in the journal",
    103: "a running agent puts back what is missing within a minute: check once more then; whatever still "
    "differs is right again after `netloom cni del` and `netloom cni add`",
    105: "take another port, or delete who holds it; `netloom ports` lists them",
    104: "detach it first with `netloom cni del`; `netloom ls --wide` shows where it is attached",
}

_NOTHING_TO_ADD = ""
# In whose place the whole command is told.
_AS_ROOT = "run it as root"
_LACKING = re.compile("remove the pool from the network")
_ANOTHER_POOL = (
    "detach something, or give the network another pool: `netloom status` shows how full they are, and the "
    "whole command"
)

# The first whose words the error has.
_CAUSES: dict[int, tuple[tuple[re.Pattern[str], str], ...]] = {
    5: ((re.compile("removed or replaced"), _NOTHING_TO_ADD),),
    11: (
        (re.compile("root only"), _AS_ROOT),
        (re.compile("was not asked"), _NOTHING_TO_ADD),
        (
            re.compile("cannot be reached"),
            "start the agent with `netloom up`, and try again; `netloom status` tells whether one runs",
        ),
        (
            re.compile("did not answer"),
            "`netloom status` tells whether the agent is busy or stuck, and what to do about it",
        ),
        (re.compile("address is left.* is ready in"), f"wait until addresses have rested, {_ANOTHER_POOL}"),
        (re.compile("address is left"), _ANOTHER_POOL),
    ),
    50: ((_LACKING, _NOTHING_TO_ADD),),
    100: ((_LACKING, _NOTHING_TO_ADD),),
    101: ((re.compile("detach (who|the container that) holds it"), _NOTHING_TO_ADD),),
}
_COMMAND = re.compile(r"`netloom[^`]*`")


def agent_advice(error: CNIError) -> str | None:
    """None if this is not the place to know; empty if the error says it all."""
    if error.plugin != OWN_PLUGIN:
        return None
    causes, said = _CAUSES.get(error.code, ()), str(error)
    advice = next((advice for words, advice in causes if words.search(said)), _ADVICE.get(error.code))
    commands = set(_COMMAND.findall(advice or ""))
    if advice == _AS_ROOT:
        return as_root()
    return _NOTHING_TO_ADD if commands and commands <= set(_COMMAND.findall(said)) else advice
