"""Machines around a node, who answers on them, and who asks: all with sockets in namespaces.

`outside` shares a wire with the node, and so does `beyond` on the node's other side, so that the node is the
router between the two. Neither knows a way to the pools: an answer that comes back is proof that the node
translated what asked.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from netloom.api.findings import Finding
from netloom.kernel import Namespace

from .stage import POOLS, Node, Outcome

TCP, UDP, SCTP = "tcp", "udp", "sctp"
IPV4, IPV6 = "IPv4", "IPv6"

_FAMILIES = {IPV4: socket.AF_INET, IPV6: socket.AF_INET6}
_EVERYWHERE = {IPV4: "0.0.0.0", IPV6: "::"}
_KINDS = {
    TCP: (socket.SOCK_STREAM, 0),
    UDP: (socket.SOCK_DGRAM, 0),
    SCTP: (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
}
LOOPBACK = {IPV4: "127.0.0.1", IPV6: "::1"}

_numbers = itertools.count()

# Of the node, on either wire, and of the machines there.
NODE = {IPV4: "192.0.2.1", IPV6: "2001:db8::1"}
NODE_TO_BEYOND = {IPV4: "198.51.100.1", IPV6: "2001:db8:1::1"}
OUTSIDE = {IPV4: "192.0.2.2", IPV6: "2001:db8::2"}
BEYOND = {IPV4: "198.51.100.2", IPV6: "2001:db8:1::2"}

# Long enough for a machine that is busy; only what is lost takes as long.
_PATIENCE = 2.0


class Answer(NamedTuple):
    """Who answered, and whom it took for the one that asked."""

    who: str
    saw: str


def family_of(address: str) -> str:
    return IPV6 if ":" in address else IPV4


def socket_at(place: Namespace, protocol: str, family: str) -> socket.socket:
    kind, number = _KINDS[protocol]
    with place.entered():
        made = socket.socket(_FAMILIES[family], kind, number)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.settimeout(_PATIENCE)
    return made


def ask(
    place: Namespace,
    protocol: str,
    address: str,
    port: int,
    *,
    source: str = "",
    patience: float = _PATIENCE,
) -> Answer:
    """One question from a place. `ConnectionRefusedError` or `TimeoutError`, if nobody answers."""
    with socket_at(place, protocol, family_of(address)) as asking:
        asking.settimeout(patience)
        if source:
            asking.bind((source, 0))
        asking.connect((address, port))
        asking.send(b"who?")
        return _read(asking.recv(200))


def is_refused(place: Namespace, protocol: str, address: str, port: int) -> bool:
    """Whether whoever asks is told at once that nobody is there."""
    try:
        ask(place, protocol, address, port)
    except ConnectionRefusedError:
        return True
    return False


def _read(said: bytes) -> Answer:
    who, saw = said.decode().split()
    return Answer(who, saw)


class Answering:
    """Somebody who tells everybody who asks a port who it is, in both families, until it is closed."""

    def __init__(
        self,
        place: Namespace,
        who: str,
        *ports: int,
        protocols: Sequence[str] = (TCP, UDP),
        families: Sequence[str] = (IPV4, IPV6),
        at: str = "",
    ) -> None:
        self._who = who
        self._selector = selectors.DefaultSelector()
        self._wake, waking = socket.socketpair()
        self._sockets = [self._wake, waking]
        self._selector.register(waking, selectors.EVENT_READ, None)
        for port in ports:
            for protocol in protocols:
                for family in [family_of(at)] if at else families:
                    self._listen(place, protocol, family, at or _EVERYWHERE[family], port)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _listen(self, place: Namespace, protocol: str, family: str, address: str, port: int) -> None:
        made = socket_at(place, protocol, family)
        self._sockets.append(made)
        if family == IPV6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        if protocol != UDP:
            made.listen(64)
        self._selector.register(made, selectors.EVENT_READ, protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._wake.send(b".")
        self._thread.join()
        self._selector.close()
        for it in self._sockets:
            it.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                listening = key.fileobj
                assert isinstance(listening, socket.socket)
                if key.data == UDP:
                    self._answer_datagram(listening)
                else:
                    self._answer_connection(listening)

    def _answer_datagram(self, listening: socket.socket) -> None:
        _, peer = listening.recvfrom(200)
        # Its container may lose its link meanwhile.
        with suppress(OSError):
            listening.sendto(f"{self._who} {peer[0]}".encode(), peer)

    def _answer_connection(self, listening: socket.socket) -> None:
        connection, peer = listening.accept()
        with connection:
            connection.settimeout(_PATIENCE)
            # Whoever hung up before it asked is nobody's concern.
            with suppress(OSError):
                if connection.recv(200):
                    connection.sendall(f"{self._who} {peer[0]}".encode())


def send_on_the_wire(place: Namespace, link: str, packet: bytes, *, to: str) -> None:
    """An IPv4 packet with anything in it, past the sender's own stack, to a MAC."""
    with place.entered():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    with raw:
        raw.sendto(packet, (link, 0x0800, 0, 0, bytes.fromhex(to.replace(":", ""))))


class Sender:
    """Sends datagrams from one socket, every few milliseconds, and knows who answered last."""

    def __init__(self, place: Namespace, address: str, port: int) -> None:
        self._socket = socket_at(place, UDP, family_of(address))
        self._target = (address, port)
        self._answers: list[tuple[float, str]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def _send(self) -> None:
        self._socket.settimeout(0.005)
        while not self._stop.is_set():
            try:
                self._socket.sendto(b"who?", self._target)
                self._answers.append((time.monotonic(), _read(self._socket.recv(200)).who))
            except TimeoutError:
                continue
            except OSError:  # no way there, for a moment
                continue
            time.sleep(0.002)

    def hears(self, who: str, within: float) -> bool:
        """Whether soon only that one answers, and goes on to."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            since = time.monotonic() - 0.1
            latest = {it for at, it in self._answers if at > since}
            if latest == {who}:
                return True
            time.sleep(0.01)
        return False


class Town:
    """A node, and a machine on either side of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.outside = Namespace.new("outside")
        self.beyond = Namespace.new("beyond")
        self._wire("out0", NODE, self.outside, OUTSIDE)
        self._wire("bey0", NODE_TO_BEYOND, self.beyond, BEYOND)
        run_in(self.outside, "ip", "route", "add", "198.51.100.0/24", "via", NODE[IPV4])
        run_in(self.outside, "ip", "-6", "route", "add", "2001:db8:1::/64", "via", NODE[IPV6])
        run_in(self.beyond, "ip", "route", "add", "192.0.2.0/24", "via", NODE_TO_BEYOND[IPV4])
        run_in(self.beyond, "ip", "-6", "route", "add", "2001:db8::/64", "via", NODE_TO_BEYOND[IPV6])

    def _wire(self, name: str, near: dict[str, str], there: Namespace, far: dict[str, str]) -> None:
        """Both ends know each other for ever: nothing that fills the machine's one table of neighbours, in
        whichever namespace, keeps the first packet from its way.
        """
        path = f"/proc/{os.getpid()}/fd/{there.fileno()}"
        ours, theirs = ("address", "02:00:00:00:00:01"), ("address", "02:00:00:00:00:02")
        peer = ("peer", "name", "eth0", *theirs, "netns", path)
        self.node.inside("ip", "link", "add", name, *ours, "type", "veth", *peer)
        ends = ((self.node.namespace, name, near, far, theirs), (there, "eth0", far, near, ours))
        for place, link, addresses, others, (_, mac) in ends:
            run_in(place, "ip", "addr", "add", f"{addresses[IPV4]}/24", "dev", link)
            run_in(place, "ip", "addr", "add", f"{addresses[IPV6]}/64", "dev", link, "nodad")
            run_in(place, "ip", "link", "set", link, "up")
            for other in others.values():
                run_in(place, "ip", "neigh", "add", other, "lladdr", mac, "dev", link, "nud", "permanent")
        run_in(there, "ip", "link", "set", "lo", "up")

    @property
    def host(self) -> Namespace:
        return self.node.namespace

    def close(self) -> None:
        self.outside.close()
        self.beyond.close()

    def know_pools(self) -> None:
        """Outside learns the way to the pools."""
        run_in(self.outside, "ip", "route", "replace", "10.0.0.0/8", "via", NODE[IPV4])
        run_in(self.outside, "ip", "-6", "route", "replace", "fd00::/8", "via", NODE[IPV6])

    def forget_pools(self) -> None:
        for words in (("ip", "route", "del", "10.0.0.0/8"), ("ip", "-6", "route", "del", "fd00::/8")):
            run_in(self.outside, *words, check=False)


def run_in(place: Namespace, *words: str, check: bool = True) -> str:
    command = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{place.fileno()}", *words]
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout


@contextmanager
def new_town() -> Iterator[Town]:
    """Without an agent."""
    with tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory, Node(Path(directory)) as node:
        town = Town(node)
        try:
            yield town
        finally:
            town.close()


def mapped(*ports: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Keys of a configuration, of which the runtime says these port mappings."""
    return {"runtimeConfig": {"portMappings": ports}, **more}


def port(host: int, container: int = 80, protocol: str = TCP, **more: str) -> dict[str, Any]:
    return {"hostPort": host, "containerPort": container, "protocol": protocol, **more}


class Attached(NamedTuple):
    """A container with one interface."""

    town: Town
    name: str
    config: bytes
    added: Outcome
    place: Namespace

    @property
    def addresses(self) -> dict[str, str]:
        return dict(zip((IPV4, IPV6), self.added.addresses, strict=True))

    def answering(self, *ports: int, who: str = "", protocols: Sequence[str] = (TCP, UDP)) -> Answering:
        return Answering(self.place, who or self.name, *(ports or (80,)), protocols=protocols)

    def check(self) -> Outcome:
        config = {**json.loads(self.config), "prevResult": self.added.document}
        return self.town.node.plugin("CHECK", self.name, json.dumps(config).encode())

    def delete(self) -> None:
        self.town.node.delete(self.name, self.config)


def new_container(town: Town, name: str = "") -> str:
    """Of a name that none had before, if it is given none."""
    return town.node.container(name or f"c{os.getpid()}-{next(_numbers)}")


def attach(town: Town, name: str = "", network: str = "net", **keys: Any) -> Attached:
    """A new container, attached to a network with these keys."""
    node = town.node
    container = new_container(town, name)
    config = node.config(network, **keys)
    added = node.ask("ADD", container, config)
    assert added.status == 0, added.output
    return Attached(town, container, config, added, Namespace.open(f"/run/netns/{container}"))


def unsound(node: Node) -> list[Finding]:
    """What an audit finds that does not count the IPv4 pool address by address: that takes a while."""
    return node.audit(POOLS[1:])


def leftovers(node: Node) -> list[str]:
    """What is there of attachments: in the table, among the links and queues, in the journal."""
    listed = json.loads(node.inside("nft", "-j", "list", "table", "inet", "netloom"))["nftables"]
    found = []
    # What the guard has counted goes by itself, some time after the link.
    for item in (it for it in listed if it.get("set", {}).get("name") != "dropped"):
        for kind in ("set", "map"):
            found += [f"{item[kind]['name']}: {it}" for it in item.get(kind, {}).get("elem", ())]
            if kind in item and item[kind]["name"].startswith(("leave-", "apart-")):
                found.append(f"{kind} {item[kind]['name']}")
        if item.get("chain", {}).get("name", "").startswith(("leave-", "apart-")):
            found.append(f"chain {item['chain']['name']}")
    links = json.loads(node.inside("ip", "-j", "link"))
    found += [f"link {it['ifname']}" for it in links if it["ifname"].startswith(("loom", "lque"))]
    queues = json.loads(node.inside("tc", "-j", "qdisc"))
    found += [f"qdisc of {it['dev']}" for it in queues if it["dev"].startswith(("loom", "lque"))]
    found += [f"port {it}" for it in node.ledger().ports()]
    return found + [f"attachment {place.key}" for place in node.ledger().places()]


def detach_all(town: Town) -> None:
    """What is attached is sound; all of it is deleted, and nothing is left."""
    node = town.node
    found = unsound(node)
    for place in node.ledger().places():
        config = node.config(place.key.network)
        done = node.ask("DEL", place.key.container_id, config, ifname=place.key.ifname)
        assert done.status == 0, done.output
    left = leftovers(node)
    assert left == [], left
    assert found == [], found
