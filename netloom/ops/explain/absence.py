"""Why the journal has nothing on a name: no runtime asked, or asked another network, or no agent ran.

It says which networks runtimes of this machine load, as the first place to check. It also finds orphaned
links, as after a journal was lost: a link's name follows from its attachment, so a container's full name is
enough while its network is configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ...api.client import AgentError, Connection, NotRunning
from ...api.findings import Finding, remedy_of
from ...api.paths import Place
from ...api.times import shown
from ...cni import AttachmentKey, CNIError
from ...cni.load import LISTS, SINGLE_PLUGINS, config_files
from ...journal import Ledger, empty, search
from ...kernel import Namespace
from ...kernel.values import shown_ip
from ...networks.names import host_link_of, names_of
from ..cni_environment import container_id
from ..doctor.runtimes import elsewhere, of_runtimes
from ..findings import networks as network_findings
from ..findings.networks import none_configured
from ..findings.node import not_answering
from ..node.namespaces import last_sign
from ..node.orphans import findings_of, in_order, orphans_at
from ..runtimes import plugin_places
from ..runtimes.runtimes import runtimes
from .explanation import Absence, Configuration, Explanation, Outage
from .names import similar_to

# Names that runtimes give to interfaces: podman and containerd, and Multus.
_INTERFACES = (*(f"eth{number}" for number in range(8)), *(f"net{number}" for number in range(1, 8)))
_TYPE = "netloom"
_OUTAGES = 5
_NO_FILES = (
    "`netloom up` makes a network that runtimes find. If one is configured elsewhere, give that directory "
    "with --conf-dir; check that the runtime reads that directory, and that it has CNI enabled."
)
# Seconds. A healthy agent answers within a few milliseconds, and a person waits.
_PATIENCE = 0.1


def explain_absence(place: Place, word: str, ledger: Ledger | None) -> Explanation:
    agent, is_down = _agent(place.socket)
    found = Absence(
        agent=agent,
        outages=[] if ledger is None else _outages(ledger, place.socket, is_down),
        configurations=_configurations(place.conf_dir),
        runtimes=runtimes(),
        similar=similar_to(word, ledger),
    )
    since = None if ledger is None else search.first_logged(ledger)
    lost = [] if ledger is None else search.gaps(ledger)
    return Explanation(
        asked=word,
        kind="unknown",
        name=word,
        summary=_summary(word, ledger, since, found, lost),
        absence=found,
        findings=list(_findings(place, word, found, since, lost)),
        since=since,
    )


def _agent(socket: str) -> tuple[str, bool]:
    """Returns why no agent answers, empty if one does; and whether none runs."""
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
    """Lists files in the order of containerd and CRI-O, which use the first by name, whatever its ending."""
    try:
        paths = config_files(directory, LISTS + SINGLE_PLUGINS)
    except CNIError as error:
        return [Configuration(directory, "", [], False, str(error))]
    return [_configuration(path) for path in paths]


def _configuration(path: str) -> Configuration:
    try:
        network = network_findings.load(path)
    except CNIError as error:
        return Configuration(path, "", [], False, str(error))
    types = [plugin.type for plugin in network.plugins]
    return Configuration(path, network.name, types, _TYPE in types, "")


def _summary(
    word: str, ledger: Ledger | None, since: float | None, found: Absence, lost: Sequence[search.Gap]
) -> str:
    if ledger is None:
        return f"nothing is known about {word!r}: this machine has no journal of netloom"
    known = "the log of operations is empty" if since is None else f"the log begins at {shown(since)}"
    similar = f"; did you mean {' or '.join(found.similar)}?" if found.similar else ""
    missing = f", and {_missing(lost)}" if lost else ""
    return f"no ADD for {word!r} is in the log: {known}{missing}{similar}"


def _missing(lost: Sequence[search.Gap]) -> str:
    spans = ", ".join(f"{it.operations} between {shown(it.began)} and {shown(it.ended)}" for it in lost)
    return f"operations are missing that a full or broken disk did not store: {spans}"


def of_agent(place: Place) -> Iterable[Finding]:
    """Says that no agent answers, if none does."""
    return _of_agent(_agent(place.socket)[0], place)


def _of_agent(problem: str, place: Place) -> Iterable[Finding]:
    if problem:
        text = f"{problem}: requests fail with code 11"
        yield replace(not_answering("agent-not-running", text, place.socket), severity="warning")


def _findings(
    place: Place, word: str, found: Absence, since: float | None, lost: Sequence[search.Gap]
) -> Iterable[Finding]:
    yield _never(word, found, since, lost)
    yield from _of_agent(found.agent, place)
    yield from plugin_places.of_installed(place.state_dir)
    yield from _of_files(place.conf_dir, found.configurations)
    reported = of_runtimes(place)
    yield from reported
    for one in found.runtimes:
        if one.note and not any(it.subject == one.name for it in reported):
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
    without = f"; {_without(found.outages)}: requests of that time are in no log" if found.outages else ""
    missing = f"; {_missing(lost)}" if lost else ""
    return Finding(
        code="never-asked",
        subject=word,
        text=f"no ADD for {word!r} was seen{seen}; {loads}{without}{missing}",
        next=_NO_FILES if first is None else remedy_of("never-asked"),
    )


def _without(outages: Sequence[Outage]) -> str:
    """Describes outages. Of an agent that was killed, only the bounds of its end are known."""
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
        yield from network_findings.of_first_file(directory)
    elif files[0] not in ours:
        yield from network_findings.of_files_before(ours[0].path)


def explain_orphan(
    word: str, ledger: Ledger | None, host: Namespace, networks: Iterable[str]
) -> Explanation | None:
    """Returns None if the host has no such link."""
    orphans = orphans_at(host, lambda ask: ask(ledger or empty()))
    link = host_link_of(word) or word
    found = {it: orphans[it] for it in (link, *_links_of(word, networks)) if it in orphans}
    if not found:
        return None
    ips = in_order(ip for of_one in found.values() for ip in of_one)
    addresses = f" with {', '.join(map(shown_ip, ips))}" if ips else ""
    what = "is a link" if link in found else f"has the link {', '.join(found)}"
    return Explanation(
        asked=word,
        kind="unknown",
        name=word,
        summary=f"{word} {what}{addresses}, and the journal does not have it: it was attached before the "
        "journal was lost, or replaced by an older copy",
        findings=list(findings_of(found)),
    )


def _links_of(word: str, networks: Iterable[str]) -> Iterator[str]:
    named = tuple(word.split("/"))
    if len(named) == 3:
        yield names_of(AttachmentKey(*named)).host_link
    elif len(named) == 2:
        yield from (names_of(AttachmentKey(*named, it)).host_link for it in _INTERFACES)
    # Attached by hand, a container is named after its namespace.
    path = word if word.startswith("/") else f"/run/netns/{word}"
    for network in networks:
        for container in (word, container_id(path)):
            for interface in _INTERFACES:
                yield names_of(AttachmentKey(network, container, interface)).host_link
