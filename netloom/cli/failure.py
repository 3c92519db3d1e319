"""Errors for the person at the terminal: what failed, where, and what to do next."""

from __future__ import annotations

import sys

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
    PluginNotFound,
    TryAgainLater,
)
from ..cni.wire import encode_in_order

FAILED = 1
USAGE = 2
CONFIGURATION = 3
DEADLINE = 124

# The first entry that an error is an instance of: its exit status and what to do next.
_ADVICE: tuple[tuple[type[CNIError], int, str], ...] = (
    (NoConfigsFound, CONFIGURATION, "set NETCONFPATH to the directory of your networks"),
    (NetworkNotFound, CONFIGURATION, "`netloom cni validate` lists the networks that are there"),
    (PluginNotFound, CONFIGURATION, "set CNI_PATH to the directories of your plugins, separated by colons"),
    (InvalidConfig, CONFIGURATION, "mend the configuration; `netloom cni validate` checks it"),
    (AttachmentBusy, DEADLINE, "wait for the other operation, or give more time with --timeout"),
    (DeadlineExceeded, DEADLINE, "look at why the plugin hangs, or give more time with --timeout"),
    (CheckNotSupported, FAILED, "raise the network's cniVersion to 0.4.0 or later"),
    (IncompatibleVersion, FAILED, "`netloom cni version PLUGIN` shows what a plugin speaks"),
    (InvalidEnvironment, FAILED, "mend the value that the message names"),
    (InvalidNetns, FAILED, "give the path of the container's namespace, such as /run/netns/NAME"),
    (IOFailure, FAILED, "look at the path that the message names: its permissions, and space on its disk"),
    (DecodingFailure, FAILED, "run the plugin by hand and look at what it prints"),
    (TryAgainLater, FAILED, "try again in a moment"),
    (NotAvailable, FAILED, "make the plugin ready: it says that it could not attach anything now"),
    (LimitedConnectivity, FAILED, "make the plugin ready: attached containers may be cut off, too"),
)


class UsageError(Exception):
    """The command was called in a way that cannot work: a bad argument or variable."""


def report(error: Exception, *, as_json: bool) -> int:
    """Says it on stderr; the exit status."""
    if isinstance(error, UsageError):
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    if not isinstance(error, CNIError):
        raise error
    status, advice = _judge(error)
    if as_json:
        sys.stderr.write(encode_in_order(_fields(error, advice)).decode() + "\n")
    else:
        print("\n".join(_lines(error, advice)), file=sys.stderr)
    return status


def _judge(error: CNIError) -> tuple[int, str]:
    if isinstance(error, Failures):
        return _judge(error.errors[0])
    for kind, status, advice in _ADVICE:
        if isinstance(error, kind):
            return status, advice
    return FAILED, "the message is the plugin's own; its documentation tells more"


def _lines(error: CNIError, advice: str) -> list[str]:
    where = f"code {error.code}"
    if error.plugin:
        where += f", plugin {error.plugin}"
    if error.attachment:
        where += f", attachment {error.attachment}"
    lines = [f"error: {error}", f"where: {where}"]
    lines += [f"also:  {note}" for note in getattr(error, "__notes__", ())]
    if error.stderr:
        lines += [f"said:  {line}" for line in error.stderr.strip().splitlines()[-10:]]
    return [*lines, f"next:  {advice}"]


def _fields(error: CNIError, advice: str) -> dict[str, object]:
    return {
        "code": error.code,
        "error": str(error),
        "msg": error.msg,
        "details": error.details,
        "plugin": error.plugin,
        "attachment": error.attachment and error.attachment._asdict(),
        "stderr": error.stderr,
        "next": advice,
    }
