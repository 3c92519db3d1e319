"""A machine that systemd has booted: the distribution's own, as process 1 of namespaces of its own.

Its root is this machine's, under an overlay in memory: whatever it writes is gone with it. It knows no units
but those that a service needs, and those that a test brings.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ..fixtures.cli import NETLOOM, Outcome
from ..lanes import ROOT

SYSTEMD = Path("/lib/systemd/systemd")
PATIENCE = 60

# Runs in the new namespaces, and becomes systemd.
_BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs {directory}
mkdir {directory}/upper {directory}/work {directory}/root
mount -t overlay -o lowerdir=/,upperdir={directory}/upper,workdir={directory}/work overlay {directory}/root
cd {directory}/root
mount -t proc proc proc
mount --rbind /sys sys
umount -R sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs var/lib
mkdir -p .{checkout}
mount --bind {checkout} .{checkout}  # wherever it is
mount -t tmpfs -o mode=755 tmpfs etc/systemd/system
mkdir -p run/systemd/system run/units run/old
for it in sysinit basic sockets multi-user shutdown network timers paths slices; do
    printf '[Unit]\\nDescription=%s\\nDefaultDependencies=no\\n' $it >run/units/$it.target
done
printf 'Wants=sockets.target\\nAfter=sysinit.target sockets.target\\nRequires=sysinit.target\\n' \
    >>run/units/basic.target
printf 'Requires=basic.target\\nAfter=basic.target\\nAllowIsolate=yes\\n' >>run/units/multi-user.target
for it in systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket; do
    cp lib/systemd/system/$it run/units/
done
printf 'Wants=systemd-journald.socket systemd-journald.service\\n' >>run/units/sysinit.target
mount -t tmpfs tmpfs var/log
pivot_root . run/old
umount -l run/old
mount --make-rshared /  # as systemd does it where it is not in a container
ip link set lo up
ip address add 192.0.2.1/32 dev lo
export container=netloom-test SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/units
exec {systemd} --system --unit=multi-user.target --show-status=no --log-target=null
"""


def why_not_booted() -> str | None:
    """What is missing to boot one here."""
    if os.geteuid() != 0:
        return "needs root"
    return None if SYSTEMD.exists() else "needs the package systemd"


def _unified() -> Path:
    """Where control groups of the second version are."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(point)
    raise FileNotFoundError("no cgroup2 is mounted")


class Booted:
    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="booted-"))
        self._cgroup = _unified() / f"netloom-test-{os.getpid()}-{id(self):x}"
        self._cgroup.mkdir()
        script = _BOOT.format(directory=self._directory, systemd=SYSTEMD, checkout=ROOT)
        # The shell enters the group before the namespace is made: the machine sees it as the root of all.
        enter = f'echo $$ >{self._cgroup}/cgroup.procs; exec "$@"'
        self._process = subprocess.Popen(
            ["sh", "-c", enter, "sh", "unshare", "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup",
             "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self._init = self._awaited_init()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """With process 1, all of the machine ends."""
        self._process.kill()
        self._process.communicate()
        deadline = time.monotonic() + PATIENCE
        while (self._cgroup / "cgroup.events").read_text().splitlines()[0] != "populated 0":
            assert time.monotonic() < deadline, "the machine lives on"
            time.sleep(0.02)
        for directory, _, _ in os.walk(self._cgroup, topdown=False):
            os.rmdir(directory)
        shutil.rmtree(self._directory)

    def _awaited_init(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while True:
            children = (
                Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            )
            if children:
                self._init = int(children[0])
                if self.run("systemctl", "is-active", "multi-user.target").stdout.strip() == "active":
                    return self._init
            assert self._process.poll() is None, self._process.communicate()[1].decode()
            assert time.monotonic() < deadline, "systemd did not boot"
            time.sleep(0.05)

    # What is done on it.

    def run(self, *words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Outcome:
        done = subprocess.run(
            ["nsenter", "--target", str(self._init), "--all", *words],
            env={"PATH": os.environ["PATH"], **_marks(), **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["nsenter", "--target", str(self._init), "--all", *words],
            env={"PATH": os.environ["PATH"], **_marks(), **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def netloom(self, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
        return self.run(str(NETLOOM), *words, env=env)

    def brought_up(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        done = self.netloom("up", "--json", *words, env=env)
        assert done.status == 0, done.stderr
        return json.loads(done.stdout)

    def shown(self, unit: str, *properties: str) -> dict[str, str]:
        named = [it for name in properties for it in ("--property", name)]
        lines = self.run("systemctl", "show", *named, unit).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    def log(self, unit: str = "netloom.service") -> str:
        return self.run("journalctl", "--unit", unit, "--output", "cat", "--no-pager").stdout

    def exists(self, path: str) -> bool:
        return self.run("test", "-e", path).status == 0

    def container(self, name: str) -> str:
        assert self.run("ip", "netns", "add", name).status == 0
        return name

    def cni(self, verb: str, container: str) -> Outcome:
        return self.netloom("cni", verb, "netloom", f"/run/netns/{container}")


def _marks() -> dict[str, str]:
    """By which the run finds processes that a test has left."""
    with suppress(KeyError):
        return {"NETLOOM_TEST_RUN": os.environ["NETLOOM_TEST_RUN"]}
    return {}
