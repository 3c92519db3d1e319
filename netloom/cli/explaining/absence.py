"""Why nothing is known of a container: nobody asked, or asked another network, or no agent was there.

What runtimes would load is told as it is on this machine, so that the first place to look is named.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence

from ...agent.client import AgentError, Connection, NotRunning
from ...catalogue import ENTRIES, entry
from ...cni import CNIError, NetworkConfig
from ...cni.config import network_from_plugin
from ...cni.load import LISTS, SINGLE_PLUGINS, config_files, load_network_file, load_plugin_file
from ...findings import Finding
from ...journal import Ledger, search
from ..moments import shown
from ..runtimes import Runtime, runtimes
from .explanation import Absence, Configuration, Explanation, Outage

_TYPE = "netloom"
_OUTAGES = 5
_SIMILAR = 5
# Of names that are compared letter by letter: the latest.
_MOST = 500
_ALIKE = 0.6
# A beginning that both have, of which somebody may have copied the rest wrong.
_COMMON = 4
# An agent that is well answers within a few milliseconds, and the person waits.
_PATIENCE = 0.1


def explain_absence(args: argparse.Namespace, word: str, ledger: Ledger | None) -> Explanation:
    agent = _agent(args.socket)
    found = Absence(
        agent=agent,
        outages=[] if ledger is None else _outages(ledger, bool(agent)),
        configurations=_configurations(args.conf_dir),
        runtimes=runtimes(),
        similar=_similar(word, ledger),
    )
    since = None if ledger is None else search.first_logged(ledger)
    return Explanation(
        asked=word,
        kind="unknown",
        name=word,
        summary=_summary(word, ledger, since, found),
        absence=found,
        findings=list(_findings(args, word, found, since)),
        since=since,
    )


def _agent(socket: str) -> str:
    try:
        with Connection(socket, _PATIENCE):
            return ""
    except AgentError as error:
        return str(error) if isinstance(error, NotRunning) else f"{error}, or is busy"


def _outages(ledger: Ledger, is_down: bool) -> list[Outage]:
    found = [it for it in search.outages(ledger) if it.ended is not None or is_down]
    return [Outage(it.began, it.ended) for it in reversed(found[-_OUTAGES:])]


def _configurations(directory: str) -> list[Configuration]:
    """In the order of containerd and CRI-O, which take the first file by name, whatever its ending."""
    try:
        paths = config_files(directory, LISTS + SINGLE_PLUGINS)
    except CNIError as error:
        return [Configuration(directory, "", [], False, str(error))]
    return [_configuration(path) for path in paths]


def _configuration(path: str) -> Configuration:
    try:
        network = _loaded(path)
    except CNIError as error:
        return Configuration(path, "", [], False, str(error))
    types = [plugin.type for plugin in network.plugins]
    return Configuration(path, network.name, types, _TYPE in types, "")


def _loaded(path: str) -> NetworkConfig:
    if path.endswith(LISTS):
        return load_network_file(path)
    return network_from_plugin(load_plugin_file(path))


def _similar(word: str, ledger: Ledger | None) -> list[str]:
    """Names of what is or was attached, and codes, that look like the word."""
    from difflib import get_close_matches

    containers: dict[str, None] = {}
    names: dict[str, None] = {}
    for it in [] if ledger is None else search.alike(ledger, word):
        containers[it.container_id] = None
        if it.pod:
            names["/".join(filter(None, (it.namespace, it.pod)))] = names[it.pod] = None
        names[os.path.basename(it.netns)] = None
    near = [it for it in names if it and abs(len(it) - len(word)) <= len(word) // 2 + 1]
    found = get_close_matches(word, [*near[:_MOST], *ENTRIES], _SIMILAR, _ALIKE)
    if len(word) >= _COMMON:
        found += _with_common_beginning(word, containers)
    return list(dict.fromkeys(found))[:_SIMILAR]


def _with_common_beginning(word: str, names: Iterable[str]) -> list[str]:
    """Those that have most of it."""
    lengths = {it: _common(word, it) for it in names}
    longest = max(lengths.values(), default=0)
    return [it for it, length in lengths.items() if length == longest] if longest >= _COMMON else []


def _common(one: str, other: str) -> int:
    """How many letters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _summary(word: str, ledger: Ledger | None, since: float | None, found: Absence) -> str:
    if ledger is None:
        return f"nothing is known of {word!r}: this machine has no journal of netloom"
    known = "the log of operations is empty" if since is None else f"the log begins at {shown(since)}"
    similar = f"; did you mean {' or '.join(found.similar)}?" if found.similar else ""
    return f"no ADD for {word!r} was ever seen: {known}{similar}"


def _findings(args: argparse.Namespace, word: str, found: Absence, since: float | None) -> Iterable[Finding]:
    yield _never(word, found, since)
    if found.agent:
        yield _finding(
            "agent-not-running", f"{found.agent}: what is asked now fails with code 11", args.socket
        )
    yield from _of_files(args.conf_dir, found.configurations)
    yield from (it for one in found.runtimes for it in _of_runtime(one, args.conf_dir))


def _never(word: str, found: Absence, since: float | None) -> Finding:
    seen = "" if since is None else f" since {shown(since)}, where the log begins"
    first = found.configurations[0] if found.configurations else None
    if first is None:
        loads = "runtimes find no network at all"
    elif first.error:
        loads = f"the first file that runtimes find is {first.path}, which cannot be used: {first.error}"
    else:
        what = f"network {first.network!r} with {', '.join(first.plugins)}"
        loads = f"the first file that runtimes find is {first.path} ({what})"
    out = [f"{shown(it.began)} to {'now' if it.ended is None else shown(it.ended)}" for it in found.outages]
    without = f"; no agent ran from {', '.join(out)}, and what was asked then is in no log" if out else ""
    return _finding("never-asked", f"no ADD for {word!r} was seen{seen}; {loads}{without}", word)


def _of_files(directory: str, files: Sequence[Configuration]) -> Iterable[Finding]:
    ours = [it for it in files if it.ours]
    if not ours:
        yield _finding("network-none", f"no file in {directory} is a network of netloom", directory)
    elif files[0] not in ours:
        first = files[0]
        text = f"{first.path} comes before {ours[0].path}, and containerd and CRI-O take the first"
        yield _finding("network-shadowed", text, first.path)


def _of_runtime(it: Runtime, directory: str) -> Iterable[Finding]:
    if it.conf_dir and os.path.realpath(it.conf_dir) != os.path.realpath(directory):
        text = f"{it.name} looks for networks in {it.conf_dir}, as {it.path or 'it does by default'} says"
        yield _finding(
            "runtime-elsewhere",
            text if it.path else f"{it.name} looks for networks in {it.conf_dir}",
            it.name,
        )
    if it.note:
        yield _finding("runtime-elsewhere", f"{it.name}: {it.note}", it.name)


def _finding(code: str, text: str, subject: str) -> Finding:
    page = entry(code)
    severity = "error" if code == "never-asked" else "warning"
    return Finding(
        code=code,
        text=text,
        next="" if page is None else page.remedy,
        subject=subject,
        severity=severity,  # type: ignore[arg-type]
    )
