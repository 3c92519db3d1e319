"""Two hosts, each in a network namespace of its own, that do the same work for the same driver.

Ours has an agent behind the static plugin. The reference has the bridge plugin, which runs host-local for the
addresses of both families, and the plugins chained after it. Both keep their state below /var/lib, on a real
disk.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from netloom.api.protocol import LENGTH, Head, encode
from netloom.journal import Ledger, Operation, read_only
from netloom.kernel import Namespace, Plan
from netloom.kernel.objects.link import link_names

from . import spawn
from .containers import path
from .measure import milliseconds
from .place import CHECKOUT

PLUGIN = CHECKOUT / "netloom" / "_plugin" / "netloom"
REFERENCE = CHECKOUT / ".peers" / "plugins" / "bridge"

IFNAME = "eth0"
_PATIENCE = 60.0
_CLIENTS = 16

# The host's address, and its gateway, which does not exist.
ADDRESS, GATEWAY = "192.0.2.1", "192.0.2.254"
_UPLINK = f"""\
link set lo up
link add uplink type veth peer name wire
link set wire up
link set uplink up
address add {ADDRESS}/24 dev uplink
address add 2001:db8::1/64 dev uplink nodad
route add default via {GATEWAY}
route add default via 2001:db8::fe
"""


# The capability arguments of a container's interface, by container and interface name.
Arguments: TypeAlias = Callable[[str, str], Mapping[str, Any]]


def _no_arguments(container: str, ifname: str) -> Mapping[str, Any]:  # noqa: ARG001
    return {}


class Host:
    """The work of a runtime, for any list of plugins. It keeps what ADD answered, for CHECK and DEL.

    `arguments` are the capability arguments of a container's interface: always the same.
    """

    def __init__(
        self,
        plugins: Path,
        network: Mapping[str, Any],
        environment: Mapping[str, str],
        arguments: Arguments = _no_arguments,
    ) -> None:
        self.namespace = Namespace.new("a host of the benchmark")
        self._directory = plugins
        self._network = network
        self._environment = {"PATH": os.environ["PATH"], "CNI_PATH": str(plugins), **environment}
        self.arguments = arguments
        self._results: dict[str, Any] = {}
        self._plug_in()

    def _plug_in(self) -> None:
        """Gives the host an uplink with addresses, like any machine.

        Without an address, the kernel would search all links for one whenever a route is added.
        """
        with self.namespace.entered():
            subprocess.run(["ip", "-batch", "-"], input=_UPLINK, text=True, check=True)

    def run(self, verb: str, container: str) -> float:
        """Runs one request; returns its milliseconds."""
        return self.run_all(verb, [container], 1)

    def run_all(self, verb: str, containers: Sequence[str], at_once: int) -> float:
        """Runs all; returns the milliseconds from the first spawn to the last end."""
        chains = [spawn.Chain(self._calls(verb, container)) for container in containers]
        with self.namespace.entered():
            if len(chains) == 1:
                took = milliseconds(lambda: spawn.follow(chains[0]))
            else:
                took = milliseconds(lambda: spawn.follow_all(chains, at_once))
        if verb == "ADD":
            for container, chain in zip(containers, chains, strict=True):
                result = json.loads(chain.output)
                if len(result["ips"]) != 2:
                    raise RuntimeError(f"{self._directory} gave {container} not an address of both families")
                self._results[container] = result
        elif verb == "DEL":
            for container in containers:
                del self._results[container]
        return took

    def _calls(self, verb: str, container: str) -> Generator[spawn.Call, bytes, None]:
        """The plugins in the order of the verb: DEL runs backwards, and ADD passes results on."""
        before = self._results.get(container)
        variables = self.variables(verb, container)
        plugins: Sequence[Mapping[str, Any]] = self._network["plugins"]
        output = b""
        for plugin in reversed(plugins) if verb == "DEL" else plugins:
            if output and verb == "ADD":
                before = json.loads(output)
            stdin = self.config(plugin, container, IFNAME, before)
            output = yield spawn.Call(str(self._directory / plugin["type"]), stdin, variables)

    def config(self, plugin: Mapping[str, Any], container: str, ifname: str, before: Any = None) -> bytes:
        """Builds the configuration as a runtime does: with capability arguments and the previous result."""
        document = {"cniVersion": self._network["cniVersion"], "name": self._network["name"], **plugin}
        declared = plugin.get("capabilities", {})
        arguments = self.arguments(container, ifname)
        runtime = {key: value for key, value in arguments.items() if declared.get(key)}
        if runtime:
            document["runtimeConfig"] = runtime
        if before:
            document["prevResult"] = before
        return json.dumps(document).encode()

    def write_network(self, directory: Path) -> None:
        """Writes the network where runtimes and commands look for it."""
        (directory / "10-bench.conflist").write_text(json.dumps(self._network))

    def variables(self, verb: str, container: str, ifname: str = IFNAME) -> dict[str, str]:
        return {
            **self._environment,
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": container,
            "CNI_NETNS": path(container),
            "CNI_IFNAME": ifname,
        }

    def address(self, container: str) -> str:
        """Returns its IPv4 address, without the prefix length."""
        addresses: list[str] = [ip["address"] for ip in self._results[container]["ips"]]
        return next(address.partition("/")[0] for address in addresses if ":" not in address)

    def close(self) -> None:
        self.namespace.close()


class ReferenceHost(Host):
    """The bridge plugin in its usual configuration: a gateway, both families, default routes.

    `keys` are additional keys, `chained` are the plugins after it.
    """

    def __init__(
        self,
        name: str,
        *chained: Mapping[str, Any],
        arguments: Arguments = _no_arguments,
        keys: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": "10.8.0.0/16"}], [{"subnet": "fd08::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            "dataDir": f"/var/lib/{name}",
        }
        bridge = {"type": "bridge", "bridge": "bench0", "isGateway": True, "ipam": ipam, **keys}
        network = {"cniVersion": "1.1.0", "name": "bench", "plugins": [bridge, *chained]}
        super().__init__(REFERENCE.parent, network, {}, arguments)


class OurHost(Host):
    """The static plugin and its agent, as installed. `keys` are additional keys of the network."""

    program: Sequence[str] = (str(Path(sys.executable).with_name("netloom")),)

    def __init__(
        self,
        name: str,
        arguments: Arguments = _no_arguments,
        keys: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.socket = f"/run/{name}/agent.sock"
        self.state_dir = f"/var/lib/{name}"
        pools = [{"cidr": "10.9.0.0/16"}, {"cidr": "fd09::/64"}]
        network = {
            "cniVersion": "1.1.0",
            "name": "bench",
            "plugins": [{"type": "netloom", "pools": pools, **keys}],
        }
        super().__init__(PLUGIN.parent, network, {"NETLOOM_SOCKET": self.socket}, arguments)
        self.agent = 0

    def start(self) -> float:
        """Starts the agent; returns the seconds until its first answer."""
        command = [*self.program, "agent", "--state-dir", self.state_dir, "--socket", self.socket]
        # Whatever ends the run, no agent outlives it.
        command = ["/usr/bin/setpriv", "--pdeathsig", "KILL", *command]
        log = (os.POSIX_SPAWN_OPEN, 2, f"{self.state_dir}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        began = time.perf_counter()
        with self.namespace.entered():
            self.agent = os.posix_spawn(command[0], command, os.environ, file_actions=[log])
        while not self._answers():
            ended, _ = os.waitpid(self.agent, os.WNOHANG)
            if ended or time.perf_counter() - began > _PATIENCE:
                said = Path(f"{self.state_dir}.log").read_text()[-2000:]
                raise RuntimeError(f"the agent does not answer: {said}")
            time.sleep(0.002)
        return time.perf_counter() - began

    def _answers(self) -> bool:
        try:
            return ask(self.socket, encode(Head(protocol=1, question="info"))) is not None
        except OSError:
            return False

    def kill(self) -> None:
        """Sends SIGKILL, so that it cannot clean up for the next one."""
        agent, self.agent = self.agent, 0
        if agent:
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)
            os.waitpid(agent, 0)

    def close(self) -> None:
        self.kill()
        super().close()

    def add_many(self, containers: Sequence[str], ifnames: Sequence[str], patience: float) -> bool:
        """Attaches without processes of the plugin: an interface of every name for every container.

        Returns false if that took longer than the limit.
        """
        end = time.monotonic() + patience
        with ThreadPoolExecutor(_CLIENTS) as clients:
            for ifname in ifnames:
                if time.monotonic() > end:
                    return False
                list(clients.map(self._add, containers, repeat(ifname)))
        return True

    def _add(self, container: str, ifname: str) -> None:
        environment = self.variables("ADD", container, ifname)
        head = Head(protocol=1, environment=environment, sent=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        netns = os.open(path(container), os.O_RDONLY | os.O_CLOEXEC)
        try:
            [plugin] = self._network["plugins"]
            reply = ask(self.socket, encode(head, self.config(plugin, container, ifname)), netns)
        finally:
            os.close(netns)
        if reply is None or reply[0] != 0:
            raise RuntimeError(f"no attachment {ifname} of {container}: {reply!r}")

    def megabytes(self) -> float:
        """Returns the agent's resident memory, in millions of bytes."""
        with open(f"/proc/{self.agent}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def operations(self) -> list[Operation]:
        with self._ledger() as ledger:
            return ledger.operations(5000)

    def plan(self, container: str) -> Plan:
        """Returns the recorded plan of an attachment."""
        with self._ledger() as ledger:
            return Plan.decode(ledger.of_container(container)[0].plan)

    def attachments(self) -> int:
        with self._ledger() as ledger:
            return sum(ledger.count().values())

    def links(self) -> int:
        return len(link_names(self.namespace))

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        connection = read_only(f"{self.state_dir}/journal.db")
        try:
            yield Ledger(connection)
        finally:
            connection.close()


def ask(at: str, frame: bytes, netns: int | None = None) -> bytes | None:
    """Returns the status byte and the output; nothing if the agent closed the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(at)
        sent = connection.send(frame) if netns is None else socket.send_fds(connection, [frame], [netns])
        connection.sendall(frame[sent:])
        reply = b""
        while chunk := connection.recv(1 << 16):
            reply += chunk
    return reply[LENGTH.size :] or None
