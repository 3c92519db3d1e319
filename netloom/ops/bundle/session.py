"""One run of `netloom bundle`: ask all sources, remove secrets, pack the archive, write it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import __version__
from ...api.paths import Place
from ..errors import OperationFailed, UsageError
from .anonymise import Pseudonyms, names_in, names_of_field, names_of_host
from .archive import (
    NAME,
    ArchiveMember,
    Asked,
    Bundle,
    Exists,
    Found,
    Gathered,
    Manifest,
    Member,
    MissingMember,
    Part,
    encodable,
    fitted,
    lines_of,
    packed,
    what_is_at,
    write,
)
from .machine import addresses, firewall, links, machine, neighbours, routes, rules, settings, versions
from .node import journal, logs, metrics, networks
from .node import names_of as names_in_journal
from .redaction import Secrets, learn_secrets

Source: TypeAlias = Callable[[Asked], Iterator[Found]]

# Longer than any timeout within a source.
_PATIENCE = 20.0
_COMMAND_PATIENCE = 15.0
_ABOUT = "could not be collected"
_running: set[subprocess.Popen[bytes]] = set()


class CommandDocument(NamedTuple):
    """A command that prints JSON; `name` is the name of its member in the archive."""

    name: str
    about: str
    command: tuple[str, ...]


def sources(documents: Sequence[CommandDocument]) -> list[tuple[str, Source]]:
    """All sources, by the names of their members. The most important come first, and are cut last."""
    return [
        ("versions.json", versions),
        *((it.name, _document(it)) for it in documents),
        ("networks/", networks),
        ("journal/", journal),
        ("log/", logs),
        ("kernel/machine.json", machine),
        ("kernel/sysctl.json", settings),
        ("kernel/nft-netloom.txt", firewall),
        ("kernel/links.jsonl", links),
        ("kernel/addresses.jsonl", addresses),
        ("kernel/rules.jsonl", rules),
        ("kernel/routes.jsonl", routes),
        ("kernel/neighbours.jsonl", neighbours),
        ("metrics.txt", metrics),
    ]


def gather(
    asked: Asked, wanted: Sequence[tuple[str, Source]], deadline: float, tell: Callable[[str], object]
) -> tuple[list[Gathered], bool]:
    """All members, and whether every source answered in time."""
    gathered: list[Gathered] = []
    in_time = True
    for name, source in wanted:
        tell(f"collecting {name}")
        left = deadline - time.monotonic()
        if left <= 0:
            gathered.append(Gathered(MissingMember(name, _ABOUT, "no time left for it"), 0.0))
            in_time = False
            continue
        found, ended, lasted = _ask_source(asked, name, source, min(left, _PATIENCE))
        in_time &= ended
        gathered += [Gathered(encodable(it), lasted / max(len(found), 1)) for it in found]
    return gathered, in_time


def _ask_source(asked: Asked, name: str, source: Source, patience: float) -> tuple[list[Found], bool, float]:
    """Asks a source in a thread. A thread that does not end in time is abandoned."""
    found: list[Found] = []
    failed: list[str] = []

    def run() -> None:
        try:
            found.extend(source(asked))  # keeps members from before an error
        except Exception as error:  # the other sources are asked all the same
            failed.append(f"{type(error).__name__}: {error}")

    begun = time.monotonic()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience)
    lasted = (time.monotonic() - begun) * 1000
    result = list(found)
    if thread.is_alive():
        result.append(MissingMember(name, _ABOUT, f"did not answer within {patience:.0f} s"))
        return result, False, lasted
    result += [MissingMember(name, _ABOUT, text) for text in failed]
    return result, True, lasted


def _document(wanted: CommandDocument) -> Source:
    def ask(asked: Asked) -> Iterator[Found]:
        yield _ask_command(wanted, asked)

    return ask


def _ask_command(wanted: CommandDocument, asked: Asked) -> Found:
    name, about, command = wanted
    environment = {
        **os.environ,
        "NETLOOM_STATE_DIR": asked.state_dir,
        "NETLOOM_SOCKET": asked.socket,
        "NETCONFPATH": asked.conf_dir,
    }
    begun = time.monotonic()
    try:
        status, output, errors = _run(command, environment)
    except subprocess.TimeoutExpired:
        return MissingMember(
            name, about, f"did not answer within {time.monotonic() - begun:.0f} s, and was stopped"
        )
    except OSError as cause:
        return MissingMember(name, about, f"could not be run: {cause.strerror}")
    said = errors.decode(errors="replace").strip()
    try:
        document = msgspec.json.decode(output)
    except msgspec.MsgspecError:
        return MissingMember(
            name, about, _error_of(said) or f"ended with status {status}, and printed no JSON"
        )
    return Member(name=name, about=about, document=document, error=_error_of(said))


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Runs a command in its own process group, so that all processes that it started end with it."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    _running.add(process)
    try:
        output, errors = process.communicate(timeout=_COMMAND_PATIENCE)
    except subprocess.TimeoutExpired:
        _end(process)
        raise
    finally:
        _running.discard(process)
    return process.returncode, output, errors


def end_running() -> None:
    """Kills commands that nothing waits for any more."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _error_of(errors: str) -> str:
    """The message of a command's error in JSON; else the last line."""
    try:
        return str(msgspec.json.decode(errors, type=dict[str, object]).get("error", ""))
    except (msgspec.MsgspecError, ValueError):
        return errors.splitlines()[-1][:500] if errors else ""


_DIRECTORY = "netloom-bundle"
_UNKNOWN_HOST = "node"
_NAMES = 50


class BundleOptions(Struct, frozen=True, kw_only=True):
    """`file` is the archive's path; by default, a name of host and date in the current directory.

    `documents` are commands whose output is part of the archive.
    """

    place: Place
    cache_dir: str
    timeout: float
    max_size: int
    operations: int
    file: str | None = None
    force: bool = False
    anonymous: bool = False
    documents: tuple[CommandDocument, ...] = ()


def run(options: BundleOptions, tell: Callable[[str], object]) -> Bundle:
    """Makes the archive. Calls `tell` with each step."""
    deadline = time.monotonic() + options.timeout
    place = options.place
    asked = Asked(place.state_dir, place.socket, place.conf_dir, options.cache_dir, options.operations)
    made = time.time()
    host = _UNKNOWN_HOST if options.anonymous else socket.gethostname()
    path = _path(options, host, made)
    cleaner = Cleaner(anonymous=options.anonymous)
    cleaner.learn(asked)
    try:
        gathered, in_time = gather(asked, sources(options.documents), deadline, tell)
    finally:
        end_running()
    tell("packing")
    cleaner.learn(asked, gathered)
    manifest = Manifest(
        netloom=__version__,
        made=made,
        host=host,
        anonymous=options.anonymous,
        in_time=in_time,
        parts=(),
    )
    manifest, content = members(entries(gathered, cleaner), manifest, options.max_size)
    archive = packed(_DIRECTORY, content, made)
    path = _written(path, archive, force=options.force, may_rename=options.file is None)
    return Bundle(path=path, size=len(archive), manifest=manifest)


def _path(options: BundleOptions, host: str, made: float) -> str:
    """The archive's path. Refuses one that cannot be written, before any work is done."""
    if options.file is None:
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(made))
        name = f"netloom-{re.sub('[^A-Za-z0-9.-]', '_', host)}-{when}.tar.gz"
    else:
        name = options.file
    try:
        path = os.path.abspath(name)
    except OSError as cause:
        raise _unwritable(name, cause) from None
    if os.path.realpath(path).startswith(os.path.realpath(options.place.journal)):
        raise UsageError(f"{path} is the journal itself", "give another FILE")
    what = what_is_at(path)
    if what is not None and not os.path.isdir(path):
        raise _exists(path, what)
    if options.file is not None and not options.force and os.path.lexists(path):
        raise _exists(path)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        what = "is a directory" if os.path.isdir(path) else "is in a directory that does not exist"
        raise OperationFailed(f"{path} {what}", "give the path of a file", code="bundle-unwritable")
    return path


def _written(path: str, archive: bytes, *, force: bool, may_rename: bool) -> str:
    """Writes the archive and returns its path. A default name gets a number if the same second used it."""
    stem, what = path.removesuffix(".tar.gz"), None
    for number in range(1, _NAMES if may_rename else 2):
        chosen = path if number == 1 else f"{stem}-{number}.tar.gz"
        try:
            write(chosen, archive, force=force)
            return chosen
        except Exists as error:
            what = error.what
        except OSError as cause:
            raise _unwritable(chosen, cause) from None
    raise _exists(path, what)


def _exists(path: str, what: str | None = None) -> OperationFailed:
    if what is not None:
        return OperationFailed(
            f"{path} is {what}, which is never replaced; nothing was written",
            "give the path of a file",
            code="bundle-exists",
        )
    return OperationFailed(f"{path} already exists", "give another name, or --force", code="bundle-exists")


def _unwritable(path: str, cause: OSError) -> OperationFailed:
    return OperationFailed(
        f"cannot write {path}: {cause.strerror}",
        "check the directory: its permissions, and free space on its disk; or give another FILE",
        code="bundle-unwritable",
    )


# Bytes for the manifest and the archive's own structure.
_FRAME = 4096


class Cleaner:
    """Removes secrets from texts and documents, and replaces names if `anonymous`.

    It must know all secrets and names before it cleans anything. New ones may appear while sources are asked,
    so `learn` is called before that and after.
    """

    def __init__(self, *, anonymous: bool) -> None:
        self._secrets = Secrets()
        self._pseudonyms = Pseudonyms() if anonymous else None

    def learn(self, asked: Asked, gathered: Sequence[Gathered] = ()) -> None:
        learn_secrets(asked, self._secrets)
        for it in gathered:
            self._learn_secrets_of(it)
        if self._pseudonyms is None:
            return
        for name in names_of_host():
            self._pseudonyms.learn(*name)
        for column, value in names_in_journal(asked):
            for name in names_of_field(column, value):
                self._pseudonyms.learn(*name)
        for it in gathered:
            with suppress(RecursionError):
                for name in names_in(it):
                    self._pseudonyms.learn(*name)

    def _learn_secrets_of(self, it: Gathered) -> None:
        found = it.found
        if isinstance(found, MissingMember) or found.is_ours:
            return
        with suppress(RecursionError):
            self._secrets.learn_from(found.document)
        self._secrets.learn_from_text(found.text or "")

    def text(self, text: str, *, is_ours: bool = True) -> str:
        text = self._secrets.text(text, is_ours=is_ours)
        return text if self._pseudonyms is None else self._pseudonyms.text(text)

    def document(self, value: object, *, is_ours: bool) -> object:
        value = self._secrets.document(value, is_ours=is_ours)
        return value if self._pseudonyms is None else self._pseudonyms.document(value)


def entries(gathered: Sequence[Gathered], cleaner: Cleaner) -> list[ArchiveMember]:
    made: dict[str, ArchiveMember] = {}
    for it in gathered:
        entry = _entry(it, cleaner)
        # Pseudonyms may give two files one name; and a source may fail after it gave a member.
        name = entry.part.name
        number = 2
        while name in made:
            name = f"{entry.part.name}.{number}"
            number += 1
        made[name] = entry._replace(part=replace(entry.part, name=name))
    return list(made.values())


def _entry(it: Gathered, cleaner: Cleaner) -> ArchiveMember:
    found = it.found
    part = Part(
        name=cleaner.text(found.name),
        about=found.about,
        error=cleaner.text(found.error),
        milliseconds=round(it.milliseconds, 1),
    )
    if isinstance(found, MissingMember):
        return ArchiveMember(part, None, False)
    try:
        content = _content(found, cleaner)
    except RecursionError:
        return ArchiveMember(replace(part, error="it is nested too deeply to remove secrets"), None, False)
    return ArchiveMember(replace(part, size=len(content), cut=found.cut), content, found.newest_last)


def _content(found: Member, cleaner: Cleaner) -> bytes:
    if found.text is not None:
        return cleaner.text(found.text, is_ours=found.is_ours).encode(errors="backslashreplace")
    if found.rows is not None:
        rows = cleaner.document(found.rows, is_ours=found.is_ours)
        assert isinstance(rows, list)
        return lines_of(rows).encode()
    document = cleaner.document(found.document, is_ours=found.is_ours)
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def members(
    listed: Sequence[ArchiveMember], manifest: Manifest, max_size: int
) -> tuple[Manifest, list[tuple[str, bytes]]]:
    """The manifest with all parts, and the archive's files, of which the manifest is the first."""
    listed = fitted(listed, max_size - _FRAME - 100 * len(listed))
    whole = replace(manifest, parts=tuple(entry.part for entry in listed))
    head = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    content = [(entry.part.name, entry.content) for entry in listed if entry.content is not None]
    return whole, [(NAME, head), *content]
