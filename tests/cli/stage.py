"""What the command's tests work with: networks, plugins that are shell scripts, and the command itself.

Every run of the command goes through `Stage`, and none may end in a traceback.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

NETLOOM = str(Path(sys.executable).with_name("netloom"))
PATIENCE = 60.0
MOMENT = 10.0

RESULT: dict[str, Any] = {
    "cniVersion": "1.1.0",
    "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/web"}],
    "ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 0}],
    "routes": [{"dst": "0.0.0.0/0"}],
    "dns": {"nameservers": ["10.1.2.1"]},
}

# Keeps what it was told, and answers as a plugin should. Builtins only: a process costs a millisecond.
_RECORDING = """\
IFS= read -r config || true
printf '%s\\n' "$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_NETNS" "$CNI_IFNAME" "$CNI_ARGS" "$CNI_PATH" \\
    "$config" >> {log}
case $CNI_COMMAND in
    VERSION) echo '{{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}}' ;;
    ADD) printf '%s\\n' {result} ;;
esac
"""
_RECORDED = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH")

# Starts a helper, says the helper's number, and never answers.
_HANGING = """\
sleep 1000 &
echo "$!" > {fifo}
wait
"""


class Outcome(NamedTuple):
    """How a run of the command ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> dict[str, Any]:
        """The error object that `--json` gives, which is all that stderr holds."""
        error: dict[str, Any] = json.loads(self.stderr)
        return error

    @property
    def said(self) -> dict[str, str]:
        """The error as a person sees it: `error`, `where` and `next`, each a line."""
        lines = (line.partition(":") for line in self.stderr.splitlines())
        return {label: text.strip() for label, _, text in lines}


class Call(NamedTuple):
    """What a plugin was told."""

    env: Mapping[str, str]
    config: dict[str, Any]

    @property
    def verb(self) -> str:
        return self.env["CNI_COMMAND"]


class Stage:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.networks = directory / "net.d"
        self.plugins = directory / "bin"
        self.cache = directory / "cache"
        self.log = directory / "calls"
        self.log.touch()
        for made in (self.networks, self.plugins):
            made.mkdir()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CNI_", "CAP_ARGS", "NETCONFPATH", "PYTHON", "COLUMNS", "LINES"))
        }
        self.env = {**inherited, "NETCONFPATH": str(self.networks), "CNI_PATH": str(self.plugins)}

    def plugin(self, name: str, script: str) -> str:
        """A plugin that is a shell script."""
        path = self.plugins / name
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        return name

    def recording_plugin(self, name: str = "recording", result: object = RESULT) -> str:
        log, answer = shlex.quote(str(self.log)), shlex.quote(json.dumps(result))
        return self.plugin(name, _RECORDING.format(log=log, result=answer))

    def network(self, name: str, *plugins: str | dict[str, Any], version: str = "1.1.0", **keys: Any) -> str:
        entries = [{"type": it} if isinstance(it, str) else it for it in plugins]
        document = {"cniVersion": version, "name": name, "plugins": entries, **keys}
        (self.networks / f"{len(os.listdir(self.networks)):02}.conflist").write_text(json.dumps(document))
        return name

    def recorded_network(self, name: str = "mynet") -> str:
        """A network of one plugin that answers well; `calls` knows what it was told."""
        return self.network(name, self.recording_plugin())

    @property
    def calls(self) -> list[Call]:
        lines = self.log.read_text().splitlines()
        size = len(_RECORDED) + 1
        return [
            Call(dict(zip(_RECORDED, lines[start:], strict=False)), json.loads(lines[start + size - 1]))
            for start in range(0, len(lines), size)
        ]

    @property
    def verbs(self) -> list[str]:
        return [call.verb for call in self.calls]

    def run(
        self,
        *words: str | bytes,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        prefix: Iterable[str] = (),
    ) -> Outcome:
        """Runs the command, its output going to pipes."""
        done = subprocess.run(
            [*prefix, NETLOOM, *words],
            env={**self.env, **(env or {})},
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            cwd=cwd or self.directory,
            capture_output=True,
            timeout=PATIENCE,
        )
        return _outcome(done.returncode, done.stdout, done.stderr)

    def cni(self, verb: str, *words: str | bytes, **options: Any) -> Outcome:
        """A verb of `netloom cni` that takes a cache directory; here it is the stage's own."""
        return self.run("cni", verb, *words, "--cache-dir", str(self.cache), **options)

    def start(
        self, *words: str, stdout: int = subprocess.PIPE, prefix: Iterable[str] = ()
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*prefix, NETLOOM, *words],
            env=self.env,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def shell(self, script: str) -> Outcome:
        """Runs a bash script in which `netloom` is the command."""
        path = f"{os.path.dirname(NETLOOM)}:{self.env['PATH']}"
        done = subprocess.run(
            ["bash", "-c", script],
            env={**self.env, "PATH": path},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
        return _outcome(done.returncode, done.stdout, done.stderr)

    def on_a_terminal(self, *words: str, prefix: Iterable[str] = (), columns: int = 0) -> Outcome:
        """Runs the command with a terminal as its standard output; without `columns`, of unknown width."""
        terminal, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (24 if columns else 0, columns))
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # or every newline would come with a carriage return
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        try:
            process = self.start(*words, stdout=theirs, prefix=prefix)
        finally:
            os.close(theirs)
        shown = b""
        while chunk := _read_terminal(terminal):
            shown += chunk
        os.close(terminal)
        _, stderr = process.communicate(timeout=PATIENCE)
        return _outcome(process.returncode, shown, stderr)


class HangingPlugin:
    """A plugin that never answers, and its helper in the background."""

    def __init__(self, stage: Stage, name: str = "hanging", script: str = _HANGING) -> None:
        fifo = stage.directory / f"{name}.fifo"
        os.mkfifo(fifo)
        self._fifo = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self.name = stage.plugin(name, script.format(fifo=shlex.quote(str(fifo))))
        self._helper = -1

    def wait_until_it_hangs(self) -> None:
        """Returns when a run of the plugin has begun to hang."""
        ready, _, _ = select.select([self._fifo], [], [], PATIENCE)
        assert ready, "the plugin was not started"
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._helper = os.pidfd_open(int(os.read(self._fifo, 64)))

    def helper_ended(self) -> bool:
        """Whether the helper of that run has ended, or does so in a moment."""
        if self._helper < 0:
            return True
        poller = select.poll()
        poller.register(self._helper, select.POLLIN)
        return bool(poller.poll(MOMENT * 1000))

    def close(self) -> None:
        if self._helper >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._helper, signal.SIGKILL)  # the plugin waits for it and ends
        for fd in (self._fifo, self._helper):
            if fd >= 0:
                os.close(fd)


def _outcome(status: int, stdout: bytes, stderr: bytes) -> Outcome:
    said = stderr.decode()
    for ugly in ("Traceback", "Exception ignored"):
        assert ugly not in said, said
    return Outcome(status, stdout.decode(), said)


def _read_terminal(terminal: int) -> bytes:
    ready, _, _ = select.select([terminal], [], [], PATIENCE)
    assert ready, "nothing came to the terminal"
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # the other end is closed
            return b""
        raise
