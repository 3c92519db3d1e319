"""A node in a namespace of its own: a real agent, the real plugin, containers that are namespaces.

The agent is a process that can be killed; the plugin is the static one, run as a runtime runs it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from netloom.api.findings import Finding
from netloom.api.protocol import LENGTH, Head, encode
from netloom.ipam import PoolConfig, parse_pools
from netloom.journal import Ledger, in_memory, read_only
from netloom.kernel import Namespace
from netloom.ops.audit import audit

from ..lanes import ROOT
from ..stdin import ready

PLUGIN = ROOT / "netloom" / "_plugin" / "netloom"
NETLOOM = Path(sys.executable).parent / "netloom"

PATIENCE = 20.0
# How long the plugin waits for an answer to DEL. Then it leaves it to be done later, and succeeds.
DEL_DEADLINE = 1.5

POOLS: tuple[dict[str, Any], ...] = ({"cidr": "10.9.0.0/16"}, {"cidr": "fd09::/64"})


def eventually(holds: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether it holds within some time."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Outcome(NamedTuple):
    """What a plugin's process ended with."""

    status: int
    output: bytes
    errors: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.output) if self.output.strip() else None

    @property
    def code(self) -> int:
        """0, or the code of the error that it printed."""
        return 0 if self.status == 0 else int(self.document["code"])

    @property
    def message(self) -> str:
        """The error that it printed, with its details."""
        return f"{self.document['msg']}; {self.document.get('details', '')}"

    @property
    def addresses(self) -> list[str]:
        return [ip["address"].split("/")[0] for ip in self.document["ips"]]


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """With all of its threads: each ends first what it has asked of the kernel."""
    try:
        found = [it.read_text() for it in Path(f"/proc/{process.pid}/task").glob("*/status")]
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
        return False
    return found != [] and all("\nState:\tT" in it for it in found)


def received(connection: socket.socket) -> Outcome:
    """A reply, to its end."""
    reply = b""
    while chunk := connection.recv(1 << 16):
        reply += chunk
    assert len(reply) >= LENGTH.size + 1, "the agent hung up"
    return Outcome(reply[LENGTH.size], reply[LENGTH.size + 1 :], b"")


class Node:
    """A host. `directory` holds its state and its socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state_dir = directory / "state"
        self.socket = directory / "run" / "agent.sock"
        self.namespace = Namespace.new("the node's namespace")
        self.agent: subprocess.Popen[bytes] | None = None
        self._containers: list[str] = []
        self.inside("ip", "link", "set", "lo", "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            # It may have been stopped (SIGSTOP) by a test.
            os.kill(self.agent.pid, signal.SIGCONT)
            self.kill()
        for name in self._containers:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self.namespace.close()

    # Processes.

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {"NETLOOM_SOCKET": str(self.socket), "NETLOOM_STATE_DIR": str(self.state_dir)}
        return {**os.environ, **own, **(extra or {})}

    def command(self, *words: str) -> list[str]:
        """A command line that runs in the node's namespace."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.namespace.fileno()}", *words]

    def inside(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(self.command(*words), check=check, capture_output=True, text=True)
        return done.stdout

    def start(
        self,
        *options: str,
        environment: Mapping[str, str] | None = None,
        ready: bool = True,
        patience: float = 15,
        through: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts an agent, and waits until it answers (or has ended, if `ready` is off: do not wait).

        `through` is a command that becomes the one that it is given.
        """
        with open(self.directory / "agent.log", "ab") as log:
            self.agent = subprocess.Popen(
                self.command(*through, str(NETLOOM), "agent", *options),
                env=self.environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if ready:
            deadline = time.monotonic() + patience
            while not self.answers():
                assert self.agent.poll() is None, f"the agent ended: {self.log()[-2000:]}"
                assert time.monotonic() < deadline, f"the agent is not ready: {self.log()[-2000:]}"
                time.sleep(0.01)
        return self.agent

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
            return True

    def kill(self) -> None:
        """SIGKILL, as the kernel does it when memory runs out."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait(10)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The agent does nothing meanwhile."""
        assert self.agent is not None
        agent = self.agent
        agent.send_signal(signal.SIGSTOP)
        try:
            assert eventually(lambda: is_stopped(agent))
            yield
        finally:
            agent.send_signal(signal.SIGCONT)

    def wait(self, timeout: float = 10) -> int:
        assert self.agent is not None
        return self.agent.wait(timeout)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.agent is not None
        self.agent.terminate()
        return self.agent.wait(15)

    def log(self) -> str:
        return (self.directory / "agent.log").read_text()

    # Containers.

    def container(self, name: str | None = None) -> str:
        """A new network namespace; its name is the container's ID."""
        name = name or f"c{os.getpid()}-{id(self):x}-{len(self._containers)}"
        subprocess.run(["ip", "netns", "add", name], check=True)
        self._containers.append(name)
        return name

    def remove_container(self, name: str) -> None:
        subprocess.run(["ip", "netns", "del", name], check=True)
        self._containers.remove(name)

    def in_container(self, name: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["ip", "netns", "exec", name, *words], check=check, capture_output=True, text=True
        )

    def popen_in(self, name: str, *words: str) -> subprocess.Popen[str]:
        """Starts a command in a container without waiting for it."""
        return subprocess.Popen(
            ["ip", "netns", "exec", name, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ping(self, name: str, address: str) -> bool:
        """Whether an answer comes; it is asked for again and again."""
        command = ["ping", "-n", "-c", "1", "-i", "0.2", "-w", "5", address]
        return self.in_container(name, *command, check=False).returncode == 0

    # The plugin.

    def config(self, name: str = "net", version: str = "1.1.0", **keys: object) -> bytes:
        return json.dumps(
            {"cniVersion": version, "name": name, "type": "netloom", "pools": POOLS, **keys}
        ).encode()

    def config_with(self, keys: Mapping[str, object], name: str = "net") -> bytes:
        """A config with keys that are no identifiers, such as those of GC."""
        return json.dumps({**json.loads(self.config(name)), **keys}).encode()

    def cni_environment(
        self, verb: str, container: str, ifname: str = "eth0", **variables: str
    ) -> dict[str, str]:
        own = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": container,
            "CNI_NETNS": f"/run/netns/{container}" if container else "",
            "CNI_IFNAME": ifname,
            "CNI_PATH": str(PLUGIN.parent),
        }
        return {**own, **variables}

    def plugin(
        self,
        verb: str,
        container: str = "",
        config: bytes | None = None,
        *,
        ifname: str = "eth0",
        **variables: str,
    ) -> Outcome:
        """Runs the static plugin to its end. Variables that are empty strings are set, and empty."""
        with ready(self.config() if config is None else config) as stdin:
            done = subprocess.run(
                self.command(str(PLUGIN)),
                stdin=stdin,
                env=self.environment(self.cni_environment(verb, container, ifname, **variables)),
                capture_output=True,
                timeout=90,
            )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def add(self, container: str, config: bytes | None = None, **variables: str) -> Outcome:
        done = self.plugin("ADD", container, config, **variables)
        assert done.status == 0, done.output
        return done

    def delete(self, container: str, config: bytes | None = None, **variables: str) -> Outcome:
        done = self.deleted(container, config, **variables)
        assert done.status == 0, done.output
        return done

    def deleted(self, container: str, config: bytes | None = None, **variables: str) -> Outcome:
        """However DEL ends. Waits until it is done if the agent is at work and only was too slow for it."""
        began = time.monotonic()
        done = self.plugin("DEL", container, config, **variables)
        if time.monotonic() - began >= DEL_DEADLINE:
            eventually(lambda: not self._is_at_work() or self.intents() == [])
        return done

    def _is_at_work(self) -> bool:
        return self.agent is not None and self.agent.poll() is None and not is_stopped(self.agent)

    def begin(
        self, verb: str, container: str, config: bytes | None = None, **variables: str
    ) -> subprocess.Popen[bytes]:
        """Starts the plugin without waiting for it."""
        with ready(self.config() if config is None else config) as stdin:
            return subprocess.Popen(
                self.command(str(PLUGIN)),
                env=self.environment(self.cni_environment(verb, container, **variables)),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def ask(
        self,
        verb: str,
        container: str,
        config: bytes | None = None,
        *,
        ifname: str = "eth0",
        netns: bool = True,
        **variables: str,
    ) -> Outcome:
        """The same request without the plugin's process: for thousands of them."""
        with self.sent(verb, container, config, ifname=ifname, netns=netns, **variables) as connection:
            return received(connection)

    def sent(
        self,
        verb: str,
        container: str,
        config: bytes | None = None,
        *,
        ifname: str = "eth0",
        netns: bool = True,
        **variables: str,
    ) -> socket.socket:
        """The connection of a request that is on its way; its answer was not received yet."""
        environment = self.cni_environment(verb, container, ifname, **variables)
        head = Head(protocol=1, environment=environment, sent=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        frame = encode(head, self.config() if config is None else config)
        descriptors: Sequence[int] = []
        if netns and os.path.exists(environment["CNI_NETNS"]):
            descriptors = [os.open(environment["CNI_NETNS"], os.O_RDONLY | os.O_CLOEXEC)]
        try:
            connection = self.connect()
            try:
                sent = (
                    socket.send_fds(connection, [frame], descriptors)
                    if descriptors
                    else connection.send(frame)
                )
                if sent < len(frame):
                    connection.sendall(frame[sent:])
            except BaseException:
                connection.close()
                raise
            return connection
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(60)
        try:
            connection.connect(str(self.socket))
        except BaseException:
            connection.close()
            raise
        return connection

    def call(self, frame: bytes, descriptors: Sequence[int] = ()) -> Outcome:
        """Any bytes to the agent, with any descriptors; what it says to them."""
        with self.connect() as connection:
            if descriptors:
                socket.send_fds(connection, [frame], descriptors)
            else:
                connection.sendall(frame)
            return received(connection)

    # What the node knows.

    def info(self) -> dict[str, Any]:
        """What the agent says of itself."""
        answer = self.call(encode(Head(protocol=1, question="info")))
        assert answer.status == 0, answer.output
        said: dict[str, Any] = answer.document
        return said

    def counted(self, counter: str) -> int:
        return int(self.info()["counters"].get(counter, 0))

    def intents(self) -> list[str]:
        """The names of the files of DELs that wait."""
        directory = self.socket.parent / "intents"
        return sorted(os.listdir(directory)) if directory.exists() else []

    def ledger(self) -> Ledger:
        """A copy of the journal as it is now."""
        connection = read_only(str(self.state_dir / "journal.db"))
        try:
            return in_memory(connection)
        finally:
            connection.close()

    def audit(self, pools: Sequence[Mapping[str, Any]] = POOLS) -> list[Finding]:
        """What journal, pools and kernel do not agree on. Nothing, if all is well."""
        parsed = parse_pools([PoolConfig(**pool) for pool in pools])
        return audit(self.ledger(), self.namespace, parsed)

    def links(self) -> list[str]:
        """The host's ends of attachments."""
        listed = json.loads(self.inside("ip", "-j", "link"))
        return [link["ifname"] for link in listed if link["ifname"].startswith("loom")]

    def link_of(self, container: str) -> str:
        """The host's end of a container's attachment."""
        return self.ledger().of_container(container)[0].host_link

    def descriptors(self) -> int:
        assert self.agent is not None
        return len(os.listdir(f"/proc/{self._agent_pid()}/fd"))

    def memory(self) -> int:
        """The agent's resident memory, in bytes."""
        with open(f"/proc/{self._agent_pid()}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _agent_pid(self) -> int:
        # nsenter replaces itself by the command.
        assert self.agent is not None
        return self.agent.pid
