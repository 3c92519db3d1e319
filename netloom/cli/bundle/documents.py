"""What netloom's own commands say, asked as a program asks them.

Each is a process: one that hangs is ended, and none can take the others with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from ..tree import TREE, Command, resolve
from .member import Asked, Found, Member, Trouble

_COMMANDS: tuple[tuple[str, str], ...] = (
    ("status", "how the node is"),
    ("ls", "what is attached"),
    ("pools", "pools, and how full they are"),
    ("ports", "ports of the host"),
    ("doctor", "what is wrong with the node"),
    ("cni validate", "networks, and what is wrong with them"),
    ("cni attachments", "what the cache of results knows"),
    ("journal verify", "whether the journal is whole"),
)
_PATIENCE = 15.0
_running: set[subprocess.Popen[bytes]] = set()


def documents() -> list[tuple[str, Callable[[Asked], Iterator[Found]]]]:
    """Of each command that there is."""
    return [(_name(words), _source(words, about)) for words, about in _COMMANDS if _is_there(words)]


def _is_there(words: str) -> bool:
    path, command, _ = resolve(words.split())
    return isinstance(command, Command) and " ".join(path) == words and words.split()[0] in TREE


def _name(words: str) -> str:
    return f"node/{words.replace(' ', '-')}.json"


def _source(words: str, about: str) -> Callable[[Asked], Iterator[Found]]:
    def ask(asked: Asked) -> Iterator[Found]:
        yield _asked(words.split(), f"{about}: `netloom {words}`", asked)

    return ask


def _asked(words: Sequence[str], about: str, asked: Asked) -> Found:
    name = _name(" ".join(words))
    environment = {
        **os.environ,
        "NETLOOM_STATE_DIR": asked.state_dir,
        "NETLOOM_SOCKET": asked.socket,
        "NETCONFPATH": asked.conf_dir,
    }
    cache = ["--cache-dir", asked.cache_dir] if words[-1] == "attachments" else []
    command = [sys.executable, "-P", "-m", "netloom.cli.main", *words, "--json", *cache]
    begun = time.monotonic()
    try:
        status, output, errors = _run(command, environment)
    except subprocess.TimeoutExpired:
        return Trouble(name, about, f"gave no answer within {time.monotonic() - begun:.0f} s, and was ended")
    except OSError as cause:
        return Trouble(name, about, f"could not be run: {cause.strerror}")
    said = errors.decode(errors="replace").strip()
    try:
        document = msgspec.json.decode(output)
    except msgspec.MsgspecError:
        return Trouble(name, about, _told(said) or f"ended with status {status}, and printed no JSON")
    return Member(name=name, about=about, document=document, error=_told(said))


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """In a group of its own: whatever it has started ends with it."""
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
        output, errors = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        _end(process)
        raise
    finally:
        _running.discard(process)
    return process.returncode, output, errors


def end_running() -> None:
    """Those that nobody waits for any more."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _told(errors: str) -> str:
    """The error of a command that gave one, which is JSON; else its last line."""
    try:
        return str(msgspec.json.decode(errors, type=dict[str, object]).get("error", ""))
    except (msgspec.MsgspecError, ValueError):
        return errors.splitlines()[-1][:500] if errors else ""
