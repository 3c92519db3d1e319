"""Why nothing is known of a container: nobody asked, or asked another network, or no agent was there.

What runtimes would load is told as it is on this machine, so that the first place to look is named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ...api.client import AgentError, Connection, NotRunning
from ...api.findings import Finding, remedy_of
from ...cni import CNIError
from ...cni.load import LISTS, SINGLE_PLUGINS, config_files
from ...journal import Ledger, search
from ...ops.health.agent import not_answering
from ...ops.health.networks import none_configured
from ...ops.node.heartbeat import last_sign
from .. import network_order, plugin_places
from ..doctor.runtimes import elsewhere, of_runtimes
from ..moments import shown
from ..runtimes import runtimes
from .explanation import Absence, Configuration, Explanation, Outage
from .similar import similar_to

_TYPE = "netloom"
_OUTAGES = 5
_NO_FILES = (
    "`netloom up` makes a network that runtimes find. If one is configured elsewhere, give that directory "
    "with --conf-dir; and see that the runtime looks there, and that CNI is switched on in it."
)
# An agent that is well answers within a few milliseconds, and the person waits.
_PATIENCE = 0.1


def explain_absence(args: argparse.Namespace, word: str, ledger: Ledger | None) -> Explanation:
    agent, is_down = _agent(args.socket)
    found = Absence(
        agent=agent,
        outages=[] if ledger is None else _outages(ledger, args.socket, is_down),
        configurations=_configurations(args.conf_dir),
        runtimes=runtimes(),
        similar=similar_to(args, word, ledger),
    )
    since = None if ledger is None else search.first_logged(ledger)
    lost = [] if ledger is None else search.gaps(ledger)
    return Explanation(
        asked=word,
        kind="unknown",
        name=word,
        summary=_summary(word, ledger, since, found, lost),
        absence=found,
        findings=list(_findings(args, word, found, since, lost)),
        since=since,
    )


def _agent(socket: str) -> tuple[str, bool]:
    """Why none answers, if none does; and whether nobody is there."""
    try:
        with Connection(socket, _PATIENCE):
            return "", False
    except NotRunning as error:
        return str(error), True
    except AgentError as error:
        return f"{error}, or is busy", False


def _outages(ledger: Ledger, socket: str, is_down: bool) -> list[Outage]:
    found = [it for it in search.outages(ledger, is_down=is_down) if it.ended is not None or is_down]
    if found and found[-1].ended is None and not found[-1].stopped:
        found[-1] = found[-1]._replace(began=max(found[-1].began, last_sign(socket) or 0.0))
    return [Outage(*it) for it in reversed(found[-_OUTAGES:])]


def _configurations(directory: str) -> list[Configuration]:
    """In the order of containerd and CRI-O, which take the first file by name, whatever its ending."""
    try:
        paths = config_files(directory, LISTS + SINGLE_PLUGINS)
    except CNIError as error:
        return [Configuration(directory, "", [], False, str(error))]
    return [_configuration(path) for path in paths]


def _configuration(path: str) -> Configuration:
    try:
        network = network_order.load(path)
    except CNIError as error:
        return Configuration(path, "", [], False, str(error))
    types = [plugin.type for plugin in network.plugins]
    return Configuration(path, network.name, types, _TYPE in types, "")


def _summary(
    word: str, ledger: Ledger | None, since: float | None, found: Absence, lost: Sequence[search.Gap]
) -> str:
    if ledger is None:
        return f"nothing is known of {word!r}: this machine has no journal of netloom"
    known = "the log of operations is empty" if since is None else f"the log begins at {shown(since)}"
    similar = f"; did you mean {' or '.join(found.similar)}?" if found.similar else ""
    missing = f", and {_missing(lost)}" if lost else ""
    return f"no ADD for {word!r} is in the log: {known}{missing}{similar}"


def _missing(lost: Sequence[search.Gap]) -> str:
    spans = ", ".join(f"{it.operations} between {shown(it.began)} and {shown(it.ended)}" for it in lost)
    return f"operations are missing that a full or broken disk did not take: {spans}"


def _findings(
    args: argparse.Namespace, word: str, found: Absence, since: float | None, lost: Sequence[search.Gap]
) -> Iterable[Finding]:
    yield _never(word, found, since, lost)
    if found.agent:
        text = f"{found.agent}: what is asked now fails with code 11"
        yield replace(not_answering("agent-not-running", text, args.socket), severity="warning")
    yield from plugin_places.of_installed(args.state_dir)
    yield from _of_files(args.conf_dir, found.configurations)
    told = of_runtimes(args)
    yield from told
    for one in found.runtimes:
        if one.note and not any(it.subject == one.name for it in told):
            yield elsewhere(one.name, f"{one.name}: {one.note}", one.remedy or remedy_of("runtime-elsewhere"))


def _never(word: str, found: Absence, since: float | None, lost: Sequence[search.Gap]) -> Finding:
    seen = "" if since is None else f" since {shown(since)}, where the log begins"
    first = found.configurations[0] if found.configurations else None
    if first is None:
        loads = "runtimes find no network at all"
    elif first.error:
        loads = f"the first file that runtimes find is {first.path}, which cannot be used: {first.error}"
    else:
        what = f"network {first.network!r} with {', '.join(first.plugins)}"
        loads = f"the first file that runtimes find is {first.path} ({what})"
    without = f"; {_without(found.outages)}: what was asked meanwhile is in no log" if found.outages else ""
    missing = f"; {_missing(lost)}" if lost else ""
    return Finding(
        code="never-asked",
        subject=word,
        text=f"no ADD for {word!r} was seen{seen}; {loads}{without}{missing}",
        next=_NO_FILES if first is None else remedy_of("never-asked"),
    )


def _without(outages: Sequence[Outage]) -> str:
    """Not more than is known: one that was killed has not said when."""
    spans = [(shown(it.began), _until(it)) for it in outages if it.stopped]
    stopped = [
        f"for a moment at {began}" if began == ended else f"from {began} to {ended}" for began, ended in spans
    ]
    killed = [
        f"between {shown(it.began)}, its last heartbeat, and {_until(it)}" for it in outages if not it.stopped
    ]
    parts = [
        f"no agent ran {', '.join(stopped)}" if stopped else "",
        f"an agent did not shut down cleanly, and ended {', another '.join(killed)}" if killed else "",
    ]
    return "; ".join(filter(None, parts))


def _until(it: Outage) -> str:
    return "now" if it.ended is None else shown(it.ended)


def _of_files(directory: str, files: Sequence[Configuration]) -> Iterable[Finding]:
    ours = [it for it in files if it.ours]
    if not ours:
        yield none_configured(directory)
    elif files[0].error:
        yield from network_order.of_first_file(directory)
    elif files[0] not in ours:
        yield from network_order.of_files_before(ours[0].path)
