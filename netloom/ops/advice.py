"""Advice on the next step: for commands that need root, and for errors of netloom's plugin."""

from __future__ import annotations

import os
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

# Of these errors, the details say what is wrong. Those of all others are the next step.
_ALSO_WITH_DETAILS = frozenset({2, 3, 102, 103, 104})
# Codes of a plugin that the agent does not answer, as it answers root only: for ADD, and for DEL.
_UNANSWERED = frozenset({11, 5})


def agent_advice(error: CNIError) -> str | None:
    """Returns the next step after an error of netloom's plugin, empty if the error names it itself.

    None if the error is another plugin's, or has a code of the specification that says enough.
    """
    if error.plugin != OWN_PLUGIN:
        return None
    if error.code in _UNANSWERED and os.geteuid() != 0:
        return as_root()
    if error.details and error.code not in _ALSO_WITH_DETAILS:
        return ""
    return _ADVICE.get(error.code)
