"""How all that a container runtime starts is ended.

Podman and containerd leave parents that outlive the command which started them (conmon, the shim).
They are found by an environment variable, the containers themselves by their cgroup, and both are
ended by their process id.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import uuid
from pathlib import Path

from .commands import eventually, output

_CGROUPS = Path("/sys/fs/cgroup")
_MARK = "NETLOOM_ENCLOSURE"


class Enclosure:
    """A name, a cgroup and a short directory for one runtime, and an end to all that is in them."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.name = f"netloom-{uuid.uuid4().hex[:8]}"
        self.mark = {_MARK: self.name}
        # Sockets' paths must be short, which a test's own directory is not; /run is the run's own.
        self.short_dir = Path("/run") / self.name
        self.short_dir.mkdir()

    def end(self) -> None:
        """Ends every process, after a moment for those that are just ending by themselves."""
        if not eventually(lambda: not self.processes(), within=10):
            for process in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            assert eventually(lambda: not self.processes(), within=30), f"alive: {self.processes()}"
        for cgroup in self._cgroups():
            cgroup.rmdir()
        for mount in self._mounts():
            output(["umount", "--lazy", mount])
        shutil.rmtree(self.short_dir)

    def processes(self) -> set[int]:
        found: set[int] = set()
        for cgroup in self._cgroups():
            with contextlib.suppress(OSError):
                found.update(map(int, (cgroup / "cgroup.procs").read_text().split()))
        mark = f"{_MARK}={self.name}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.add(int(process.name))
        return found

    def _cgroups(self) -> list[Path]:
        """Its cgroups in every hierarchy, children first."""
        tops = [*_CGROUPS.glob(self.name), *_CGROUPS.glob(f"*/{self.name}")]
        return [Path(directory) for top in tops for directory, _, _ in os.walk(top, topdown=False)]

    def _mounts(self) -> list[str]:
        """Mounts below its directories, the latest first."""
        points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        below = (f"{self._base}/", f"{self.short_dir}/")
        return [point for point in reversed(points) if point.startswith(below)]
