"""A containerd of the test's own, and its `ctr run --cni` against a network that the test chooses.

`ctr` reads the first configuration in /etc/cni/net.d and looks for plugins in fixed places. Each
`ctr run` is in a mount namespace of its own, where the test's directories are mounted over them;
nothing has to be undone. It attaches the container, and detaches it when the container has ended,
but only if it has waited for that: with `--detach` there would never be a DEL.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

from .commands import CommandFailed, eventually, output
from .enclosure import Enclosure
from .rootfs import busybox_root

_CONFIGURATIONS = "/etc/cni/net.d"
# The second place is Debian's; a place that is not there is not looked at.
_PLUGINS = ("/opt/cni/bin", "/usr/lib/cni")
_PATH = ("--env", "PATH=/bin")
_MOUNT_AND_RUN = """
set -e
confs=$1 plugins=$2; shift 2
mount --bind "$confs" {configurations}
for place in {places}; do
    if [ -d "$place" ]; then mount --bind "$plugins" "$place"; fi
done
exec "$@"
""".format(configurations=_CONFIGURATIONS, places=" ".join(_PLUGINS))

_CONFIG = """
version = 2
root = "{root}"
state = "{run}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{run}/socket"
[plugins."io.containerd.internal.v1.opt"]
path = "{root}/opt"
"""


# Attempts at a command that printed nothing.
_EXECS = 5


class Containerd:
    """A containerd whose containers join the first network of `conf_dir`.

    `environment` reaches the plugins, which look for each other in all of `plugin_dirs`.
    """

    def __init__(
        self,
        plugin_dirs: Sequence[Path],
        conf_dir: Path,
        base: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._enclosure = Enclosure(base)
        self._conf_dir = conf_dir
        self._base = base
        self._root = busybox_root(base / "rootfs")
        self._plugins = base / "plugins"
        self._plugins.mkdir()
        # Copies: the directories themselves may be what is mounted over.
        for directory in reversed(plugin_dirs):
            shutil.copytree(directory, self._plugins, dirs_exist_ok=True)
        self._environment = {**os.environ, **environment, **self._enclosure.mark}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._detached: list[str] = []
        self._execs = itertools.count()
        self._daemon = self._start_daemon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, name: str, command: Sequence[str]) -> None:
        """Runs a container until it is removed; gives back control when it runs."""
        ctr = self._run_command("--rm", name, command)
        log = self._log(name)
        with log.open("wb") as said:
            self._running[name] = process = subprocess.Popen(
                ctr,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        runs = eventually(
            lambda: process.poll() is not None or self.tasks().get(name) == "RUNNING", within=30
        )
        if not runs or process.poll() is not None:
            self.remove(name)
            raise CommandFailed(f"{' '.join(ctr)}: exit code {process.returncode}: {log.read_text().strip()}")

    def run_detached(self, name: str, command: Sequence[str]) -> None:
        """Runs a container that nobody waits for: there is no DEL when it ends."""
        self._detached.append(name)
        output(self._run_command("--detach", name, command), self._environment)

    def exec(self, name: str, command: Sequence[str]) -> str:
        """What a command prints. On a busy machine, `ctr` may end before that has come through."""
        for _ in range(_EXECS):
            said = self._output("task", "exec", "--exec-id", f"exec-{next(self._execs)}", name, *command)
            if said:
                return said
        return ""

    def tasks(self) -> dict[str, str]:
        """Every container that has a process, and that process's state."""
        lines = [line.split() for line in self._output("task", "ls").splitlines()[1:]]
        return {line[0]: line[-1] for line in lines}

    def remove(self, name: str) -> None:
        """Ends a container and waits for the `ctr run` that detaches it."""
        if name in self._detached:
            self._detached.remove(name)
        else:
            process = self._running.pop(name)
            if process.poll() is None:
                self._unless_gone("task", "kill", "--signal", "KILL", name)
                process.wait(30)
        # A `ctr run` that could not attach its container leaves it behind, created and not started.
        self._unless_gone("task", "rm", "--force", name)
        self._unless_gone("container", "rm", name)

    def close(self) -> None:
        try:
            for name in [*self._running, *self._detached]:
                self.remove(name)
        finally:
            self._daemon.terminate()
            self._daemon.wait(30)
            self._enclosure.end()

    def _start_daemon(self) -> subprocess.Popen[bytes]:
        config = self._base / "containerd.toml"
        config.write_text(_CONFIG.format(root=self._base / "containerd", run=self._enclosure.short_dir))
        log = self._log("containerd")
        with log.open("wb") as said:
            daemon = subprocess.Popen(
                ["containerd", "--config", str(config)], env=self._environment, stdout=said, stderr=said
            )
        ready = eventually(lambda: daemon.poll() is not None or self._answers(), within=30)
        if not ready or daemon.poll() is not None:
            daemon.kill()
            daemon.wait()
            self._enclosure.end()
            raise CommandFailed(f"containerd did not start: {log.read_text().strip()}")
        return daemon

    def _answers(self) -> bool:
        try:
            self._output("version")
        except CommandFailed:
            return False
        return True

    def _ctr(self, *words: str) -> list[str]:
        socket = self._enclosure.short_dir / "socket"
        return ["ctr", "--address", str(socket), "--namespace", self._enclosure.name, *words]

    def _run_command(self, option: str, name: str, command: Sequence[str]) -> list[str]:
        mounts = ["unshare", "--mount", "sh", "-c", _MOUNT_AND_RUN, "sh"]
        ctr = self._ctr("run", "--cni", option, *_PATH, "--rootfs", str(self._root), name, *command)
        return [*mounts, str(self._conf_dir), str(self._plugins), *ctr]

    def _output(self, *words: str) -> str:
        return output(self._ctr(*words), self._environment)

    def _unless_gone(self, *words: str) -> None:
        try:
            self._output(*words)
        except CommandFailed as failure:
            if "not found" not in str(failure):
                raise

    def _log(self, name: str) -> Path:
        return self._base / f"{name}.log"
