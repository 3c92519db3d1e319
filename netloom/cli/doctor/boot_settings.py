"""Settings of the kernel that files have: written at every boot, and whenever somebody loads them again."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ...api.findings import Finding
from .lines import lines

# What counts most first; of two files of a name, one counts.
_DIRECTORIES = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
_LAST = "/etc/sysctl.conf"
# Two names of one setting.
_SAME = {"net.ipv4.conf.all.forwarding": "net.ipv4.ip_forward"}


def path_of(name: str) -> str:
    """Where a setting is. In its name, as `sysctl` takes it, a slash stands for a dot."""
    return f"/proc/sys/{name.translate(str.maketrans('./', '/.'))}"


def undone_at_boot(needed: Iterable[str]) -> Iterator[Finding]:
    """Settings that have to be 1, and that a file sets to 0."""
    last: dict[str, tuple[str, str]] = {}
    for path in _files():
        for name, value in _assignments(path):
            for it in needed:
                if fnmatchcase(it, _SAME.get(name, name)):
                    last[it] = (value, path)
    for name, (value, path) in last.items():
        if value == "0":
            yield Finding(
                code="sysctl-at-boot",
                severity="warning",
                subject=path,
                text=f"{path} sets {name} to 0: at boot, and whenever somebody loads it again, the host does "
                "not forward until the agent notices",
                next="remove that line: no file counts after it"
                if path == _LAST
                else f"remove that line, or write `{name} = 1` into a file of /etc/sysctl.d that sorts after "
                "it",
            )


def _files() -> list[str]:
    """As systemd and procps read them: by name, wherever they are."""
    found = {
        os.path.basename(path): path
        for directory in reversed(_DIRECTORIES)
        for path in glob.glob(f"{directory}/*.conf")
    }
    return [*(found[name] for name in sorted(found)), *([_LAST] if os.path.exists(_LAST) else [])]


def _assignments(path: str) -> Iterator[tuple[str, str]]:
    for line in lines(path):
        if "=" in line:
            name, _, value = line.partition("=")
            yield name.strip().lstrip("-").replace("/", "."), value.strip()
