"""Kernel objects: how much they add to the time of the kernel itself, and of peers.

Namespaces are created, and attachments removed, outside the measured time.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Generator
from itertools import count
from typing import Any

from netloom.kernel import (
    Address,
    Namespace,
    NftElement,
    NftTable,
    Object,
    Plan,
    Route,
    Scope,
    Up,
    Veth,
    apply,
    remove,
)
from netloom.kernel.dataplane import Dataplane
from netloom.kernel.netlink import address, link, message, route
from netloom.kernel.netlink.message import ACK, CREATE, EXCLUSIVE, REQUEST
from netloom.kernel.objects.route import PROTOCOL
from netloom.kernel.values import packed_ip

from .measure import Bar, Comparison, Item, Unmeasurable, milliseconds
from .place import Place

_MAC, _PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
_MTU = 1450
_NODAD = 0x02
_numbers = count(1)


def comparisons(place: Place) -> Generator[Item, None, None]:
    if place.obstacle:
        for name in ("plan", "plan_pyroute2", "plan_ip_batch", "remove", "remove_64", "nft_100", "nft_50000"):
            yield Unmeasurable(f"kernel.{name}", "changes to the kernel", reason=place.obstacle)
        return
    with Namespace.own() as host:
        yield _against_raw(host)
        yield _against_pyroute2(host)
        yield _against_ip(host)
        with Dataplane() as dataplane:
            yield _through_dataplane(host, dataplane)
            yield _removal(host, dataplane)
            yield _removal_together(host, dataplane)
        for size in (100, 50_000):
            yield _nft(host, size)


class _Attachment:
    """One veth with both families, as a plan."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.number = number
        self.link = f"nl{number}"
        self.ipv4 = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self.ipv6 = f"fd00::{number:x}"

    def plan(self) -> Plan:
        objects: tuple[Object, ...] = (
            Veth(self.link, "eth0", mac=_MAC, peer_mac=_PEER_MAC, mtu=_MTU),
            Up("lo", stay=True, on="attachment"),
            Up(self.link),
            Up("eth0", on="attachment"),
            Address("eth0", f"{self.ipv4}/32", on="attachment"),
            Address("eth0", f"{self.ipv6}/128", on="attachment"),
            Route("0.0.0.0/0", link="eth0", via="169.254.1.1", onlink=True, on="attachment"),
            Route("::/0", link="eth0", via="fe80::1", onlink=True, on="attachment"),
            Route(f"{self.ipv4}/32", link=self.link),
            Route(f"{self.ipv6}/128", link=self.link),
        )
        return Plan(objects)  # type: ignore[arg-type]


def _ours(host: Namespace) -> float:
    attachment = _Attachment()
    with Namespace.new() as pod:
        took = milliseconds(lambda: apply(attachment.plan(), Scope(host, pod)))
        remove(attachment.plan(), Scope(host, pod))
    return took


_OURS = "ours: build the objects of a veth attachment with both families (10), open its namespace, apply them"


class _Raw:
    """The same messages, built in advance. The link indexes are chosen, so that they are known."""

    def __init__(self, attachment: _Attachment, pod: Namespace) -> None:
        self.index, peer = 1_000_000 + 2 * attachment.number, 1_000_001 + 2 * attachment.number
        sequence = count(1)
        ipv4, ipv6 = packed_ip(attachment.ipv4), packed_ip(attachment.ipv6)

        def request(kind: int, flags: int, payload: bytes) -> bytes:
            return message.build(kind, flags | REQUEST | ACK, next(sequence), payload)

        def new(kind: int, payload: bytes) -> bytes:
            return request(kind, CREATE | EXCLUSIVE, payload)

        def onward(gateway: str) -> bytes:
            hop = route.RouteHop(peer, packed_ip(gateway), 1, True)
            family = socket.AF_INET6 if ":" in gateway else socket.AF_INET
            size = 16 if ":" in gateway else 4
            return new(route.NEW, route.build(family, bytes(size), 0, hops=[hop], protocol=PROTOCOL))

        def home(family: int, packed: bytes, scope: int) -> bytes:
            hops = [route.RouteHop(self.index, None)]
            bits = len(packed) * 8
            return new(
                route.NEW, route.build(family, packed, bits, hops=hops, scope=scope, protocol=PROTOCOL)
            )

        near = link.properties(name=attachment.link, mac=_MAC, mtu=_MTU)
        far = link.properties(name="eth0", mac=_PEER_MAC, mtu=_MTU)
        data = link.veth_peer(far, pod.fileno())
        # The peer's index is in the header inside the nest, after two attribute headers.
        data = data[:8] + peer.to_bytes(4, "little") + data[12:]
        creation = link.create("veth", near, data)
        creation = creation[:4] + self.index.to_bytes(4, "little") + creation[8:]
        self.creation = new(link.NEW, creation)
        self.inside = [
            request(link.SET, 0, link.change(1, up=True)),
            request(link.SET, 0, link.change(peer, up=True)),
            new(address.NEW, address.build(peer, socket.AF_INET, ipv4, 32)),
            new(address.NEW, address.build(peer, socket.AF_INET6, ipv6, 128, flags=_NODAD)),
            onward("169.254.1.1"),
            onward("fe80::1"),
        ]
        self.up = request(link.SET, 0, link.change(self.index, up=True))
        self.outside = [
            home(socket.AF_INET, ipv4, route.LINK_SCOPE),
            home(socket.AF_INET6, ipv6, route.UNIVERSE),
        ]


_libc = ctypes.CDLL(None)
_CLONE_NEWNET = 0x40000000


def _raw(host: Namespace, own: socket.socket) -> float:
    attachment = _Attachment()
    with Namespace.new() as pod:
        raw = _Raw(attachment, pod)
        home, away = host.fileno(), pod.fileno()
        buffer = bytearray(8192)

        def send(to: socket.socket, data: bytes) -> None:
            to.send(data)
            size = to.recv_into(buffer)
            if size < 20 or buffer[16:20] != b"\0\0\0\0":
                number = -int.from_bytes(buffer[16:20], "little", signed=True)
                raise OSError(number, os.strerror(number))

        def everything() -> None:
            send(own, raw.creation)
            _libc.setns(away, _CLONE_NEWNET)
            inside = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            _libc.setns(home, _CLONE_NEWNET)
            send(inside, raw.inside[0])
            send(own, raw.up)
            for data in raw.inside[1:]:
                send(inside, data)
            for data in raw.outside:
                send(own, data)
            inside.close()

        took = milliseconds(everything)
        host.route.change(link.DELETE, 0, link.by_index(raw.index))
    return took


def _against_raw(host: Namespace) -> Comparison:
    own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    return Comparison(
        name="kernel.plan",
        what=f"{_OURS}; peer: the same ten messages built beforehand and sent on bare sockets",
        ours=lambda: _ours(host),
        peer=lambda: _raw(host, own),
        rounds=200,
        bar=Bar("ours / peer", 2),
    )


def _against_pyroute2(host: Namespace) -> Comparison | Unmeasurable:
    name, what = "kernel.plan_pyroute2", f"{_OURS}; peer: pyroute2, with a long-lived socket for the host"
    try:
        import pyroute2
    except ImportError:
        return Unmeasurable(name, what, reason="pyroute2 is not installed: `make setup` installs it")
    outside: Any = pyroute2.IPRoute()

    def peer() -> float:
        attachment = _Attachment()
        with _named_namespace() as (netns, _):
            took = milliseconds(lambda: _with_pyroute2(pyroute2, outside, attachment, netns))
            outside.link("del", ifname=attachment.link)
        return took

    return Comparison(name=name, what=what, ours=lambda: _ours(host), peer=peer, rounds=60)


def _with_pyroute2(pyroute2: Any, outside: Any, attachment: _Attachment, netns: str) -> None:
    outside.link(
        "add",
        kind="veth",
        ifname=attachment.link,
        address=_MAC,
        mtu=_MTU,
        peer={"ifname": "eth0", "address": _PEER_MAC, "mtu": _MTU, "net_ns_fd": netns},
    )
    index = outside.link_lookup(ifname=attachment.link)[0]
    with pyroute2.NetNS(netns, flags=0) as inside:
        peer = inside.link_lookup(ifname="eth0")[0]
        inside.link("set", index=1, state="up")
        outside.link("set", index=index, state="up")
        inside.link("set", index=peer, state="up")
        inside.addr("add", index=peer, address=attachment.ipv4, prefixlen=32)
        inside.addr("add", index=peer, address=attachment.ipv6, prefixlen=128, flags=_NODAD)
        inside.route("add", dst="0.0.0.0/0", oif=peer, gateway="169.254.1.1", flags=4)
        inside.route("add", family=socket.AF_INET6, dst="::/0", oif=peer, gateway="fe80::1", flags=4)
    outside.route("add", dst=f"{attachment.ipv4}/32", oif=index, scope=253)
    outside.route("add", family=socket.AF_INET6, dst=f"{attachment.ipv6}/128", oif=index)


class _named_namespace:  # noqa: N801 (used like a function)
    """A namespace that tools find by name, for a block."""

    def __enter__(self) -> tuple[str, str]:
        self.name = f"bench{next(_numbers)}"
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        return self.name, f"/run/netns/{self.name}"

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=True)


def _against_ip(host: Namespace) -> Comparison:
    def peer() -> float:
        attachment = _Attachment()
        with _named_namespace() as (netns, _):
            outside = (
                f"link add {attachment.link} address {_MAC} mtu {_MTU} type veth "
                f"peer name eth0 netns {netns} address {_PEER_MAC} mtu {_MTU}\n"
                f"link set {attachment.link} up\n"
                f"route add {attachment.ipv4}/32 dev {attachment.link}\n"
                f"route add {attachment.ipv6}/128 dev {attachment.link}\n"
            )
            inside = (
                "link set lo up\nlink set eth0 up\n"
                f"addr add {attachment.ipv4}/32 dev eth0\n"
                f"addr add {attachment.ipv6}/128 dev eth0 nodad\n"
                "route add default via 169.254.1.1 dev eth0 onlink\n"
                "route add default via fe80::1 dev eth0 onlink\n"
            )

            def batches() -> None:
                for words, commands in ((["ip"], outside), (["ip", "-n", netns], inside)):
                    subprocess.run([*words, "-batch", "-"], input=commands.encode(), check=True)

            took = milliseconds(batches)
            subprocess.run(["ip", "link", "del", attachment.link], check=True)
        return took

    return Comparison(
        name="kernel.plan_ip_batch",
        what=f"{_OURS}; peer: two `ip -batch` processes, for the host and for the namespace",
        ours=lambda: _ours(host),
        peer=peer,
        rounds=60,
    )


def _through_dataplane(host: Namespace, dataplane: Dataplane) -> Comparison:
    def ours() -> float:
        attachment = _Attachment()
        with Namespace.new() as pod:
            took = milliseconds(lambda: dataplane.apply(attachment.plan(), pod).result(10))
            dataplane.remove(attachment.plan(), pod).result(10)
        return took

    return Comparison(
        name="kernel.plan_dataplane",
        what="ours: the same plan applied by the dataplane's thread, waited for from another one; "
        "peer: applied in place",
        ours=ours,
        peer=lambda: _ours(host),
        rounds=200,
    )


class _Pair:
    """A veth whose peer is in a namespace of its own."""

    def __init__(self, host: Namespace) -> None:
        self.pod = Namespace.new()
        number = next(_numbers)
        self.plan = Plan((Veth(f"nl{number}", "eth0", mac=_MAC, peer_mac=_PEER_MAC), Up(f"nl{number}")))
        apply(self.plan, Scope(host, self.pod))
        self.index = host.route.index(f"nl{number}")


def _removal(host: Namespace, dataplane: Dataplane) -> Comparison:
    def ours() -> float:
        pair = _Pair(host)
        took = milliseconds(lambda: dataplane.remove(pair.plan, pair.pod).result(10))
        pair.pod.close()
        _settle()
        return took

    def peer() -> float:
        pair = _Pair(host)
        took = milliseconds(lambda: host.route.change(link.DELETE, 0, link.by_index(pair.index)))
        pair.pod.close()
        _settle()
        return took

    return Comparison(
        name="kernel.remove",
        what="ours: a plan with one veth removed through the dataplane, until the link is gone; "
        "peer: one RTM_DELLINK, until it is acknowledged",
        ours=ours,
        peer=peer,
        rounds=100,
        bar=Bar("ours / peer", 0.15),
    )


def _settle() -> None:
    """Waits for the kernel to destroy namespaces of earlier rounds, which hold its locks meanwhile."""
    time.sleep(0.03)


def _removal_together(host: Namespace, dataplane: Dataplane) -> Comparison:
    links = 64

    def ours() -> float:
        pairs = [_Pair(host) for _ in range(links)]

        def removal() -> None:
            requests = [dataplane.remove(pair.plan, pair.pod) for pair in pairs]
            for request in requests:
                request.result(10)

        took = milliseconds(removal)
        for pair in pairs:
            pair.pod.close()
        _settle()
        return took

    def peer() -> float:
        pairs = [_Pair(host) for _ in range(links)]

        def removal() -> None:
            for pair in pairs:
                host.route.change(link.DELETE, 0, link.by_index(pair.index))

        took = milliseconds(removal)
        for pair in pairs:
            pair.pod.close()
        _settle()
        return took

    return Comparison(
        name="kernel.remove_64",
        what=f"ours: {links} plans with one veth each, asked to be removed at the same time, "
        "until all links are gone; peer: as many RTM_DELLINKs, one after the other, each acknowledged",
        ours=ours,
        peer=peer,
        rounds=8,
        warmup=1,
        bar=Bar("ours / peer", 0.05),
    )


_BODY = """
set sources { type ipv4_addr . ifname; }
map ports { type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service; }
map chains { type ifname : verdict; }
"""


def _nft(host: Namespace, size: int) -> Comparison:
    name = f"bench{size}"
    scope = Scope(host)
    apply(Plan((NftTable("inet", name, _BODY),)), scope)
    for start in range(0, size, 5000):
        numbers = range(start, min(start + 5000, size))
        for table_set, entry in (
            ("sources", '"10.{0}.{1}.{2}" . "nl{3}"'),
            ("ports", '"tcp" . "10.{0}.{1}.{2}" . "80" : "10.0.0.1" . "8080"'),
            ("chains", '"nl{3}" : accept'),
        ):
            listed = ", ".join(entry.format(n >> 16, n >> 8 & 255, n & 255, n) for n in numbers)
            host.nft.run(f"add element inet {name} {table_set} {{ {listed} }}")

    def fresh() -> tuple[str, str]:
        number = next(_numbers)
        return f"192.0.{number >> 8 & 255}.{number & 255}", f"x{number}"

    def elements(ip: str, interface: str) -> Plan:
        return Plan(
            (
                NftElement("inet", name, "sources", (ip, interface)),
                NftElement("inet", name, "ports", ("tcp", ip, "80"), ("10.0.0.1", "8080")),
                NftElement("inet", name, "chains", (interface,), verdict="accept"),
            )
        )

    def ours() -> float:
        plan = elements(*fresh())
        took = milliseconds(lambda: apply(plan, scope))
        remove(plan, scope)
        return took

    def peer() -> float:
        ip, interface = fresh()
        commands = (
            f'create element inet {name} sources {{ {ip} . "{interface}" }}\n'
            f"create element inet {name} ports {{ tcp . {ip} . 80 : 10.0.0.1 . 8080 }}\n"
            f'create element inet {name} chains {{ "{interface}" : accept }}\n'
        )
        took = milliseconds(lambda: subprocess.run(["nft", "-f", "-"], input=commands.encode(), check=True))
        remove(elements(ip, interface), scope)
        return took

    return Comparison(
        name=f"kernel.nft_{size}",
        what=f"ours: three elements in one transaction in process, with {size} in each of the three sets; "
        "peer: exec of `nft -f -` with the same transaction",
        ours=ours,
        peer=peer,
        rounds=60,
    )
