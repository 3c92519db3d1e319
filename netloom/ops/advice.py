"""Advice on the next step: for commands that need root, and for errors of netloom's plugin."""

from __future__ import annotations

import os
import re
import shlex
import sys

from ..cni import CNIError
from .errors import OperationFailed


def require_root(what: str) -> None:
    """Raises `OperationFailed` without root. `what` is the part of the command that needs it."""
    if os.geteuid() != 0:
        raise OperationFailed(f"permission denied: {what} needs root", as_root(), code="needs-root")


# Variables that locate the node's files, and that sudo drops unless it is told to keep them.
_PLACES = ("NETLOOM_STATE_DIR", "NETLOOM_SOCKET", "NETCONFPATH", "CNI_PATH")


def as_root() -> str:
    """Advice to run the same command as root."""
    kept = ",".join(it for it in _PLACES if os.environ.get(it))
    sudo = ["sudo", *([f"--preserve-env={kept}"] if kept else [])]
    return f"run it as root: `{shlex.join([*sudo, 'netloom', *sys.argv[1:]])}`"


OWN_PLUGIN = "netloom"

_ADVICE: dict[int, str] = {
    2: "remove that key from the network's configuration; `netloom cni validate` checks it",
    3: "attach it first, with `netloom cni add`; `netloom ls --wide` lists what is attached",
    11: "try again in a moment; `netloom status` shows what the agent is doing",
    50: "`netloom status` shows what is wrong with the agent, the network or the host",
    100: "`netloom doctor` lists what this kernel supports and what it lacks",
    101: "request another address, or detach the container that has it; `netloom explain ADDRESS` shows "
    "since when",
    102: "remove what the message names if it is not needed, or choose another interface name or address; "
    "`netloom doctor` lists links that are not in the journal",
    103: "a running agent restores what is missing within a minute: check again then; `netloom cni del` and "
    "`netloom cni add` repair every other difference",
    105: "use another port, or delete the container that has it; `netloom ports` lists all ports",
    104: "detach it first with `netloom cni del`; `netloom ls --wide` shows where it is attached",
}

_NOTHING_TO_ADD = ""
# Replaced by the complete command.
_AS_ROOT = "run it as root"
_LACKING = re.compile("remove the pool from the network")
_ANOTHER_POOL = (
    "detach a container, or add a pool to the network: `netloom status` shows how full the pools are, and "
    "the complete command"
)

# Of each code, the first whose pattern the error's text matches.
_CAUSES: dict[int, tuple[tuple[re.Pattern[str], str], ...]] = {
    5: ((re.compile("removed or replaced"), _NOTHING_TO_ADD),),
    11: (
        (re.compile("root only"), _AS_ROOT),
        (re.compile("was not asked"), _NOTHING_TO_ADD),
        (
            re.compile("cannot be reached"),
            "start the agent with `netloom up`, and try again; `netloom status` shows whether one runs",
        ),
        (
            re.compile("did not answer"),
            "`netloom status` shows whether the agent is busy or stuck, and what to do about it",
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
    """Advice on an error of netloom's plugin; None for other errors, empty if the error says enough."""
    if error.plugin != OWN_PLUGIN:
        return None
    causes, said = _CAUSES.get(error.code, ()), str(error)
    advice = next((advice for words, advice in causes if words.search(said)), _ADVICE.get(error.code))
    commands = set(_COMMAND.findall(advice or ""))
    if advice == _AS_ROOT:
        return as_root()
    return _NOTHING_TO_ADD if commands and commands <= set(_COMMAND.findall(said)) else advice
