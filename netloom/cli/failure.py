"""Reports errors: what failed, where, and the next step; as text or JSON, with an exit status."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta, Struct, structs, to_builtins

from ..api.text import encodable, printable
from ..cni import (
    AttachmentBusy,
    CheckNotSupported,
    CNIError,
    DeadlineExceeded,
    DecodingFailure,
    Failures,
    IncompatibleVersion,
    InvalidConfig,
    InvalidEnvironment,
    InvalidNetns,
    IOFailure,
    LimitedConnectivity,
    NetworkNotFound,
    NoConfigsFound,
    NotAvailable,
    PluginDied,
    PluginNotFound,
    TryAgainLater,
    UnsupportedField,
)
from ..cni.names import shortened
from ..cni.wire import encode_in_order
from ..ops.advice import OWN_PLUGIN, agent_advice
from ..ops.errors import Advised, Kind, OperationFailed, UsageError
from .exit_status import CONFIGURATION, DEADLINE, FAILED, USAGE
from .terminal.output import complain

if TYPE_CHECKING:
    from .kernel_failure import OfKernel

Code: TypeAlias = Annotated[str, Meta(description="error code, which `netloom explain` explains")]
Sentence: TypeAlias = Annotated[str, Meta(description="what failed, and why")]
Next: TypeAlias = Annotated[str, Meta(description="the next step")]
Notes: TypeAlias = Annotated[
    tuple[str, ...], Meta(description="additional notes, such as a clean-up that also failed")
]
See: TypeAlias = Annotated[str, Meta(description="command that explains the error; empty if there is none")]
Warnings: TypeAlias = Annotated[tuple[str, ...], Meta(description="warnings before the error")]


class OfCommand(Struct, frozen=True, kw_only=True):
    """A command failed, or its arguments are wrong (`usage`)."""

    code: Code
    error: Sentence
    said: Annotated[
        tuple[str, ...], Meta(description="lines of another source, such as the last ones of a log")
    ] = ()
    next: Next
    see: See = ""
    warnings: Warnings = ()


class FailedAttachment(Struct, frozen=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """The attachment of a plugin's error."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container's ID, as passed to the plugins")]
    ifname: Annotated[str, Meta(description="the container's interface")]


class OfPlugin(Struct, frozen=True, kw_only=True):
    """A CNI error, from a plugin or from the runtime that calls it."""

    code: Annotated[int, Meta(description="CNI error code; codes from 100 on are defined by each plugin")]
    error: Sentence
    msg: Annotated[str, Meta(description="the plugin's message")]
    details: Annotated[str, Meta(description="the plugin's details")]
    notes: Notes = ()
    plugin: Annotated[str | None, Meta(description="the plugin's type; null if no plugin failed")]
    attachment: Annotated[
        FailedAttachment | None, Meta(description="the attachment; null if the error concerns none")
    ]
    stderr: Annotated[str, Meta(description="the plugin's output on stderr")]
    next: Next
    see: See = ""
    warnings: Warnings = ()


# Exit status, JSON document, and lines for people, which `report` makes safe for a terminal.
_Explained: TypeAlias = "tuple[int, OfCommand | OfPlugin | OfKernel, list[str]]"

# The first entry that an error is an instance of: its exit status and what to do next.
_ADVICE: tuple[tuple[type[CNIError], int, str], ...] = (
    (
        NoConfigsFound,
        CONFIGURATION,
        "`netloom up` sets up this node with a network; if your networks are in another directory, set "
        "NETCONFPATH to it",
    ),
    (NetworkNotFound, CONFIGURATION, "`netloom cni validate` lists the configured networks"),
    (PluginNotFound, CONFIGURATION, "set CNI_PATH to the directories of your plugins, separated by colons"),
    (InvalidConfig, CONFIGURATION, "correct the configuration; `netloom cni validate` checks it"),
    (AttachmentBusy, DEADLINE, "wait for the other operation, or raise --timeout"),
    (DeadlineExceeded, DEADLINE, "find out why the plugin hangs, or raise --timeout"),
    (CheckNotSupported, FAILED, "raise the network's cniVersion to 0.4.0 or later"),
    (IncompatibleVersion, FAILED, "`netloom cni version PLUGIN` shows the versions that a plugin supports"),
    (
        UnsupportedField,
        FAILED,
        "remove what the message names from the configuration; the plugin's documentation lists its keys",
    ),
    (InvalidEnvironment, FAILED, "correct the value that the message names"),
    (InvalidNetns, FAILED, "pass the path of the container's namespace, such as /run/netns/NAME"),
    (IOFailure, FAILED, "check the path that the message names: its permissions, and free space on its disk"),
    (DecodingFailure, FAILED, "run the plugin by hand and check its output"),
    (TryAgainLater, FAILED, "try again in a moment"),
    (NotAvailable, FAILED, "fix what the plugin reports: it is not ready for an ADD"),
    (
        LimitedConnectivity,
        FAILED,
        "fix what the plugin reports: attached containers may also have limited connectivity",
    ),
)


_STATUS: dict[Kind, int] = {"failed": FAILED, "configuration": CONFIGURATION, "deadline": DEADLINE}

# netloom's plugin waits only for its agent.
_NO_ANSWER = "`netloom status` shows whether the agent is busy, stopped or stuck; or raise --timeout"

# Codes from here on are defined by each plugin.
_OWN_CODES = 100

# Common messages of other plugins, and the next step for each.
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"already exists|file exists|has been allocated to", re.IGNORECASE),
        "it may already be attached: `netloom cni attachments` shows it, `netloom cni del` detaches it",
    ),
    (
        re.compile(r"netns.*no such file or directory", re.IGNORECASE),
        "create the namespace first (`ip netns add NAME`), and pass its path, /run/netns/NAME",
    ),
    (re.compile(r"unknown args"), "remove it from CNI_ARGS, or add IgnoreUnknown=1 to them"),
    (re.compile(r"operation not permitted|permission denied", re.IGNORECASE), "run it as root"),
    (
        re.compile(r"ModuleNotFoundError"),
        "use a Python that has the module: the first line of the plugin's file names one that lacks it",
    ),
)


def warn(args: argparse.Namespace, text: str) -> None:
    """Prints a warning. With `--json`, keeps it for the error document, if an error follows."""
    if getattr(args, "json", False):
        args.warnings = [*getattr(args, "warnings", []), text]
    else:
        complain(f"warning: {printable(text)}")


def report(error: Exception, args: argparse.Namespace) -> int:
    """Prints the error on stderr and returns the exit status."""
    explained: _Explained | None = None
    if isinstance(error, UsageError):
        explained = _called_wrongly(error, args)
    elif isinstance(error, OperationFailed):
        explained = _failed(error)
    elif isinstance(error, CNIError | Advised):
        explained = _explained(error)
    elif "netloom.kernel" in sys.modules:
        explained = _explained_by_kernel(error)
    if explained is None:
        raise error
    status, document, lines = explained
    see = f"netloom explain {document.code}" if _has_page(document) else ""
    if getattr(args, "json", False):
        document = structs.replace(document, see=see, warnings=tuple(getattr(args, "warnings", ())))
        complain(encode_in_order(encodable(to_builtins(document))).decode())
    else:
        is_said = any(see in line for line in lines)
        complain(*map(printable, lines), *([f"more:  {see}"] if see and not is_said else []))
    return status


def _has_page(document: OfCommand | OfPlugin | OfKernel) -> bool:
    """Whether `netloom explain` knows the code. It does not know the own codes of other plugins."""
    if not isinstance(document, OfPlugin):
        return True
    return document.code < _OWN_CODES or document.plugin in (None, OWN_PLUGIN)


def _explained_by_kernel(error: Exception) -> _Explained | None:
    """Imports the module late, since most commands do not need it."""
    from .kernel_failure import explained

    return explained(error)


def _called_wrongly(error: UsageError, args: argparse.Namespace) -> _Explained:
    advice = _repeated(error, args) or error.advice or f"`{args.command} --help` shows how it is called"
    return (
        USAGE,
        OfCommand(code=error.code, error=str(error), next=advice),
        [f"error: {error}", f"next:  {advice}"],
    )


def _repeated(error: UsageError, args: argparse.Namespace) -> str:
    """For an ambiguous name: the command as it was called, with each match in place of the name."""
    if error.code != "ambiguous-name":
        return ""
    from ..api.text import for_shell
    from ..ops.errors import AmbiguousName

    assert isinstance(error, AmbiguousName)
    called = list(getattr(args, "called", ()))
    places = [number for number, it in enumerate(called) if it.strip() == error.word]
    before, after = (called[: places[-1]], called[places[-1] + 1 :]) if places else (called, [])
    return error.advice_with(lambda it: " ".join([args.command, *map(for_shell, [*before, it, *after])]))


def _failed(error: OperationFailed) -> _Explained:
    document = OfCommand(code=error.code, error=str(error), said=error.said, next=error.advice)
    lines = [f"error: {error}", *(f"said:  {shortened(line, 500)}" for line in error.said)]
    return _STATUS[error.kind], document, [*lines, f"next:  {error.advice}"]


def _explained(raised: CNIError | Advised) -> _Explained:
    error = raised.error if isinstance(raised, Advised) else raised
    status, advice = _judge(error)
    if isinstance(raised, Advised):
        advice = raised.advice
    return status, _document(error, advice), _lines(error, advice)


def _judge(error: CNIError) -> tuple[int, str]:
    if isinstance(error, Failures):
        return _judge(error.errors[0])
    said = f"{error}\n{error.stderr}"
    hint = agent_advice(error)
    if hint is None:
        hint = next((advice for words, advice in _HINTS if words.search(said)), None)
    if isinstance(error, DeadlineExceeded) and error.plugin == OWN_PLUGIN:
        return DEADLINE, _NO_ANSWER
    if isinstance(error, PluginNotFound) and error.plugin == OWN_PLUGIN:
        from ..ops.runtimes.plugin_places import advice_on_missing

        return CONFIGURATION, advice_on_missing()
    for kind, status, advice in _ADVICE:
        if isinstance(error, kind):
            return status, advice if hint is None or status != FAILED else hint
    return FAILED, "the message is the plugin's own; see its documentation" if hint is None else hint


def _lines(error: CNIError, advice: str) -> list[str]:
    where = f"code {error.code}"
    if error.plugin:
        where += f", plugin {shortened(error.plugin)}"
    if error.attachment:
        where += f", attachment {'/'.join(map(shortened, error.attachment))}"
    said = error.stderr.strip().splitlines()[-10:]
    lines = [f"error: {headline(error)}", f"where: {where}"]
    lines += [f"also:  {note}" for note in getattr(error, "__notes__", ())]
    lines += [f"said:  {shortened(line, 500)}" for line in said]
    return [*lines, *([f"next:  {advice}"] if advice else [])]


def headline(error: CNIError) -> str:
    """Returns the error in a few lines, without the plugin's stderr, which is shown separately."""
    if error.stderr and isinstance(error, PluginDied):
        last = error.stderr.strip().splitlines()[-1:] or [""]
        text = (
            f"the plugin failed without a result ({error.ending}); its last output: {shortened(last[0], 500)}"
        )
        return f"{error.context}: {text}" if error.context else text
    return shortened(str(error), 4000)


def _document(error: CNIError, advice: str) -> OfPlugin:
    return OfPlugin(
        code=error.code,
        error=str(error),
        msg=error.msg,
        details=error.details,
        notes=tuple(getattr(error, "__notes__", ())),
        plugin=error.plugin,
        attachment=FailedAttachment(*error.attachment) if error.attachment else None,
        stderr=error.stderr,
        next=advice,
    )
