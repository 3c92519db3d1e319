"""A machine to install netloom on: this one's files, none of its compilers, and nothing of netloom.

Its root is an overlay over the real one, with everything that is written kept aside; so whatever appears
anywhere below / is seen. Network, mounts and processes are its own, and end with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

PYTHON = Path(sys.executable).resolve()
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of netloom, and of every other user of CNI: a machine that has never seen one.
_NEVER_SEEN = ("/etc/cni", "/opt/cni", "/var/lib/cni", "/var/lib/netloom")
_COMPILERS = ("cc", "c99", "gcc", "musl-gcc", "clang", "tcc")
_PATIENCE = 120.0
# Of its first process: its root, its namespaces, what was written there, and what lies below it.
_HANDLES = ("root", "ns/mnt", "ns/net", "ns/pid", "fd/3", "fd/4")

# As process 1 it takes in what others leave behind; it ends, and everything with it, when its stdin does.
_INIT = """
set -eu
base=$1
mount -t tmpfs tmpfs "$base"
mkdir "$base/real" "$base/written" "$base/work" "$base/root"
mount --bind -o ro / "$base/real"
options="lowerdir=$base/real,upperdir=$base/written,workdir=$base/work"
mount -t overlay overlay -o "$options" "$base/root"
exec 3<"$base/written" 4<"$base/real"
read -r process _ </proc/self/stat  # before /proc is that of the machine
cd "$base/root"
mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
ip link set lo up
ip address add 192.0.2.1/32 dev lo
ip address add 2001:db8::1/128 dev lo nodad
exec chroot . /bin/bash -c 'touch /run/clean-machine; echo "$1"; while read -r _; do :; done' init "$process"
"""


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


class CleanMachine:
    def __init__(self) -> None:
        self._base = tempfile.mkdtemp(prefix="clean-", dir="/run")
        namespaces = ("--mount", "--net", "--pid", "--fork", "--kill-child")
        self._init = subprocess.Popen(
            ["unshare", *namespaces, "/bin/bash", "-c", _INIT, "init", self._base],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._init.stdout is not None
        process = self._init.stdout.readline().strip()
        assert process, "the machine did not start"
        # By descriptors, not by its number, which another process may get: a command that came into the
        # real root by mistake would do there what it should do here.
        self._open = {it: os.open(f"/proc/{process}/{it}", os.O_RDONLY) for it in _HANDLES}
        assert not os.path.samestat(os.fstat(self._open["root"]), os.stat("/"))
        assert self.path("/run/clean-machine").exists()
        self._see_python()
        self.remove(*_NEVER_SEEN)
        self.remove(*(f"{directory}/{it}" for it in _COMPILERS for directory in PATH.split(":")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        for stream in (self._init.stdin, self._init.stdout):
            assert stream is not None
            stream.close()
        self._init.wait(20)
        os.rmdir(self._base)

    def _handle(self, what: str) -> str:
        return f"/proc/{os.getpid()}/fd/{self._open[what]}"

    def _see_python(self) -> None:
        """It may be on another file system than the root."""
        if not self.path(str(PYTHON)).exists():
            shutil.copytree(sys.base_prefix, self.path(sys.base_prefix), symlinks=True, dirs_exist_ok=True)

    # Commands.

    def run(self, *words: str, env: Mapping[str, str] | None = None, check: bool = True) -> Done:
        """With an environment that has nothing but a PATH, and what is given."""
        variables = [f"{key}={value}" for key, value in {"PATH": PATH, **(env or {})}.items()]
        done = subprocess.run(
            [*self._inside(), "env", "-i", "--chdir=/", *variables, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def _inside(self) -> list[str]:
        places = {"mount": "ns/mnt", "net": "ns/net", "pid": "ns/pid", "root": "root"}
        return ["nsenter", *(f"--{it}={self._handle(handle)}" for it, handle in places.items())]

    # Files.

    def path(self, inside: str) -> Path:
        """How a path of the machine is called from outside."""
        return Path(f"{self._handle('root')}{inside}")

    def put(self, source: Path, inside: str) -> None:
        self.path(inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, self.path(inside))

    def remove(self, *paths: str) -> None:
        self.run("rm", "-rf", *paths)

    # What there is.

    def everything(self) -> dict[str, str]:
        """All that could be left behind, each with what it is like."""
        return {**self.files(), **self.state(), **self.settings(), **self.processes()}

    def files(self) -> dict[str, str]:
        """Every file and directory that is not as in the real root."""
        real = self._handle("fd/4")
        written = (it for it in _listed(self._handle("fd/3")) if it[1] != _like(f"{real}{it[0]}"))
        running = ((f"/run{path}", like) for path, like in _listed(str(self.path("/run"))))
        return {f"file {path}": like for path, like in (*written, *running)}

    def state(self) -> dict[str, str]:
        """Links, addresses, routes, rules and queues of the host, and its firewall."""
        questions = ("link", "address", "rule", "route show table all", "neigh show nud permanent")
        commands = [f"ip -{family} -oneline {it}" for it in questions for family in (4, 6)]
        commands += ["nft list ruleset", "tc qdisc"]
        return {
            f"{command}: {line.strip()}": "" for command in commands for line in self._lines(*command.split())
        }

    def settings(self) -> dict[str, str]:
        lines = self._lines("grep", "-rs", ".", "/proc/sys/net", check=False)  # some cannot be read
        pairs = (line.removeprefix("/proc/sys/").partition(":") for line in lines)
        return {f"sysctl {key}": value for key, _, value in pairs if not key.endswith("_count")}

    def processes(self) -> dict[str, str]:
        found = {}
        for number in filter(str.isdecimal, os.listdir(self.path("/proc"))):
            with suppress(OSError):  # it has ended meanwhile
                found[f"process {number}"] = self.path(f"/proc/{number}/comm").read_text().strip()
        return found

    def _lines(self, *command: str, check: bool = True) -> list[str]:
        return self.run(*command, check=check).stdout.splitlines()


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """What is new, gone, or no more what it was."""
    return {it for it in before.keys() | after.keys() if before.get(it) != after.get(it)}


def _listed(top: str) -> Iterator[tuple[str, str]]:
    for directory, directories, files in os.walk(f"{top}/"):
        directories[:] = [it for it in directories if it != "__pycache__"]
        for name in (*directories, *files):
            path = os.path.join(directory, name)
            yield path.removeprefix(top), _like(path)


def _like(path: str) -> str:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ""
    what = stat.filemode(status.st_mode)
    if stat.S_ISREG(status.st_mode) and status.st_size:  # namespaces look like files, and have no content
        what += f" {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"
    return what
