"""Errors for the person at the terminal: what failed, where, what to do next; as JSON, and as exit status."""

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

Code: TypeAlias = Annotated[str, Meta(description="a word, of which `netloom explain` tells")]
Sentence: TypeAlias = Annotated[str, Meta(description="what failed, in a sentence")]
Next: TypeAlias = Annotated[str, Meta(description="what to do about it")]
Notes: TypeAlias = Annotated[
    tuple[str, ...], Meta(description="what is worth knowing besides, such as a clean-up that failed, too")
]
See: TypeAlias = Annotated[str, Meta(description="the command that tells more; empty: none does")]
Warnings: TypeAlias = Annotated[tuple[str, ...], Meta(description="what would have been said before it")]


class OfCommand(Struct, frozen=True, kw_only=True):
    """A command could not do what it is for, or was called in a way that cannot work (`usage`)."""

    code: Code
    error: Sentence
    said: Annotated[
        tuple[str, ...], Meta(description="lines of whoever knows more, such as a log's last")
    ] = ()
    next: Next
    see: See = ""
    warnings: Warnings = ()


class FailedAttachment(Struct, frozen=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """By what a plugin knows it."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container's ID, as the plugins were told")]
    ifname: Annotated[str, Meta(description="the interface in it")]


class OfPlugin(Struct, frozen=True, kw_only=True):
    """An error of CNI: of a plugin, or of the runtime's side that calls it."""

    code: Annotated[int, Meta(description="CNI's number; from 100 on, each plugin's own")]
    error: Sentence
    msg: Annotated[str, Meta(description="the plugin's own sentence")]
    details: Annotated[str, Meta(description="what it has added to that")]
    notes: Notes = ()
    plugin: Annotated[str | None, Meta(description="its type; null: it is of no plugin")]
    attachment: Annotated[FailedAttachment | None, Meta(description="whose; null: of none in particular")]
    stderr: Annotated[str, Meta(description="what the plugin has printed there")]
    next: Next
    see: See = ""
    warnings: Warnings = ()


# Its exit status, what programs get, and lines for people, which `report` makes safe for a terminal.
_Explained: TypeAlias = "tuple[int, OfCommand | OfPlugin | OfKernel, list[str]]"

# The first entry that an error is an instance of: its exit status and what to do next.
_ADVICE: tuple[tuple[type[CNIError], int, str], ...] = (
    (
        NoConfigsFound,
        CONFIGURATION,
        "`netloom up` makes this machine a node, with a network; if you have networks elsewhere, set "
        "NETCONFPATH to their directory",
    ),
    (NetworkNotFound, CONFIGURATION, "`netloom cni validate` lists the networks that are there"),
    (PluginNotFound, CONFIGURATION, "set CNI_PATH to the directories of your plugins, separated by colons"),
    (InvalidConfig, CONFIGURATION, "mend the configuration; `netloom cni validate` checks it"),
    (AttachmentBusy, DEADLINE, "wait for the other operation, or give more time with --timeout"),
    (DeadlineExceeded, DEADLINE, "look at why the plugin hangs, or give more time with --timeout"),
    (CheckNotSupported, FAILED, "raise the network's cniVersion to 0.4.0 or later"),
    (IncompatibleVersion, FAILED, "`netloom cni version PLUGIN` shows what a plugin speaks"),
    (
        UnsupportedField,
        FAILED,
        "take what the message names out of the configuration; the plugin's documentation has what it takes",
    ),
    (InvalidEnvironment, FAILED, "mend the value that the message names"),
    (InvalidNetns, FAILED, "give the path of the container's namespace, such as /run/netns/NAME"),
    (IOFailure, FAILED, "look at the path that the message names: its permissions, and space on its disk"),
    (DecodingFailure, FAILED, "run the plugin by hand and look at what it prints"),
    (TryAgainLater, FAILED, "try again in a moment"),
    (NotAvailable, FAILED, "make the plugin ready: it says that it could not attach anything now"),
    (LimitedConnectivity, FAILED, "make the plugin ready: attached containers may be cut off, too"),
)


_STATUS: dict[Kind, int] = {"failed": FAILED, "configuration": CONFIGURATION, "deadline": DEADLINE}

# Our own plugin waits for nobody but its agent.
_NO_ANSWER = (
    "`netloom status` tells whether the agent is busy, stopped or stuck; or give more time with --timeout"
)

# What each plugin numbers as it likes.
_OWN_CODES = 100

# What plugins say in common cases, and what to do about it.
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"already exists|file exists|has been allocated to", re.IGNORECASE),
        "it may be attached already: `netloom cni attachments` shows it, `netloom cni del` detaches it",
    ),
    (
        re.compile(r"netns.*no such file or directory", re.IGNORECASE),
        "make the namespace first (`ip netns add NAME`), and give its path, /run/netns/NAME",
    ),
    (re.compile(r"unknown args"), "take it out of CNI_ARGS, or let it pass with IgnoreUnknown=1 beside it"),
    (re.compile(r"operation not permitted|permission denied", re.IGNORECASE), "run it as root"),
    (
        re.compile(r"ModuleNotFoundError"),
        "the plugin's first line names a Python that lacks a module it needs",
    ),
)


def warn(args: argparse.Namespace, text: str) -> None:
    """Says something that is no error. With `--json`, it becomes part of an error, if one follows."""
    if getattr(args, "json", False):
        args.warnings = [*getattr(args, "warnings", []), text]
    else:
        complain(f"warning: {printable(text)}")


def report(error: Exception, args: argparse.Namespace) -> int:
    """Says it on stderr; the exit status."""
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
    """Numbers from 100 on are each plugin's own."""
    if not isinstance(document, OfPlugin):
        return True
    return document.code < _OWN_CODES or document.plugin in (None, OWN_PLUGIN)


def _explained_by_kernel(error: Exception) -> _Explained | None:
    """Commands that have nothing to do with the kernel do not pay for its module."""
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
    """For a word that several have: the command as it was called, with another word in its place."""
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
    return FAILED, "the message is the plugin's own; its documentation tells more" if hint is None else hint


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
    """The error in a line or a few. What a plugin left on stderr is shown below, not quoted in it."""
    if error.stderr and isinstance(error, PluginDied):
        last = error.stderr.strip().splitlines()[-1:] or [""]
        text = f"the plugin failed without an answer ({error.ending}); it said: {shortened(last[0], 500)}"
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
