"""Who is here: versions of netloom and of what it stands on, and of runtimes that are installed."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from ... import __version__
from .member import Asked, Found, Member

# Each says its version and does nothing else.
_PROGRAMS = (
    "containerd", "crio", "podman", "dockerd", "nerdctl", "runc", "crun", "kubelet", "cnitool", "nft", "ip",
    "iptables", "systemctl",
)  # fmt: skip
_OPTIONS = {"ip": ("-V",)}
_ELSEWHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE = 3.0
_LIBRARY = "libnftables"


def versions(_asked: Asked) -> Iterator[Found]:
    yield Member(
        name="versions.json",
        about="versions of netloom, Python, the kernel, the distribution, runtimes",
        document={
            "netloom": __version__,
            "installation": os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
            "python": platform.python_version(),
            "executable": sys.executable,
            "msgspec": _msgspec(),
            "sqlite": sqlite3.sqlite_version,
            "kernel": platform.release(),
            "kernel_version": platform.version(),
            "machine": platform.machine(),
            "distribution": _distribution(),
            "libnftables": _library(),
            "programs": {name: version for name in _PROGRAMS if (version := _version_of(name))},
        },
    )


def _msgspec() -> str:
    import msgspec

    return msgspec.__version__


def _distribution() -> dict[str, str]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return {}
    return {name: release[name] for name in ("ID", "VERSION_ID", "PRETTY_NAME") if name in release}


def _library() -> str:
    """The file that the dynamic linker takes; its name ends with the version."""
    from ...kernel import KernelError, Namespace

    try:
        with Namespace.own() as here:
            here.nft.run("")
    except KernelError as error:
        return str(error)
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        paths = (line.split(maxsplit=5)[-1].strip() for line in maps if _LIBRARY in line)
        return next((os.path.realpath(path) for path in paths), "")


def _version_of(program: str) -> str:
    """The first line that it says, or why it says none; empty if it is not there."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_ELSEWHERE}")
    if path is None:
        return ""
    try:
        done: subprocess.CompletedProcess[Any] = subprocess.run(
            [path, *_OPTIONS.get(program, ("--version",))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.SubprocessError) as cause:
        return f"{path}: {cause}"
    said = done.stdout.decode(errors="replace").strip().splitlines()
    return said[0][:200] if said else f"{path}: said nothing"
