#!/usr/bin/env python3
"""wire: a CNI plugin that ties a container to the host with a veth pair.

Addresses come from an IPAM plugin. The container reaches the host and, through it, whatever the
host routes. Configuration:

    {"type": "wire", "mtu": 1500, "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}
"""

from __future__ import annotations

import hashlib
import socket
import subprocess
from contextlib import suppress
from ipaddress import ip_interface

from msgspec import Struct
from msgspec.structs import replace

from netloom.cni.plugin import CNIError, Interface, Plugin, Request, Result, Route, inside

plugin = Plugin("wire", about="CNI wire plugin: a veth pair between a container and the host")


class Ipam(Struct):
    type: str


class Config(Struct):
    ipam: Ipam
    mtu: int = 1500


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CNIError(f"ip {' '.join(words)}: {done.stderr.strip()}", code=100)
    return done.stdout


def host_end(request: Request) -> str:
    """The host's end has a name of its own for every attachment; interface names are short."""
    key = f"{request.network}\0{request.container_id}\0{request.ifname}"
    return f"wire{hashlib.sha256(key.encode()).hexdigest()[:11]}"


@plugin.add
def add(request: Request) -> Result:
    config = request.config_as(Config)
    with inside(request.netns):
        if request.ifname in (name for _, name in socket.if_nameindex()):
            raise CNIError(f"{request.ifname} exists already in {request.netns}", code=102)
    # Whatever fails in this block, the address goes back to the IPAM plugin.
    with request.delegate(config.ipam.type).added() as granted:
        result = granted.as_version("1.1.0")
        assert isinstance(result, Result)
        host, mtu = host_end(request), str(config.mtu)
        # The container's end is born in its namespace; moving it there would cost ten times as much.
        ip("link", "add", host, "mtu", mtu, "type", "veth",
           "peer", "name", request.ifname, "mtu", mtu, "netns", request.netns)  # fmt: skip
        try:
            return configure(request, result, host, config.mtu)
        except BaseException:
            ip("link", "del", host)
            raise


def configure(request: Request, result: Result, host: str, mtu: int) -> Result:
    ip("link", "set", host, "up")
    addresses = [ip_interface(granted.address) for granted in result.ips]
    with inside(request.netns):
        ip("link", "set", request.ifname, "up")
        for address in addresses:
            ip("address", "add", f"{address.ip}/{address.max_prefixlen}", "dev", request.ifname, "nodad")
            ip(f"-{address.version}", "route", "add", "default", "dev", request.ifname)
        mac = ip("-brief", "link", "show", "dev", request.ifname).split()[2]
    for address in addresses:
        ip("route", "add", f"{address.ip}/{address.max_prefixlen}", "dev", host)
    return replace(
        result,
        interfaces=(Interface(host, mtu=mtu), Interface(request.ifname, mac, mtu, request.netns)),
        ips=tuple(replace(granted, interface=1, gateway="") for granted in result.ips),
        routes=tuple(Route("0.0.0.0/0" if it.version == 4 else "::/0") for it in addresses),
    )


@plugin.check
def check(request: Request) -> None:
    request.delegate(request.config_as(Config).ipam.type).check()
    expected = request.prev_result
    if not isinstance(expected, Result):
        raise CNIError("CHECK needs the result of ADD", code=7)
    ip("link", "show", "dev", host_end(request))
    with inside(request.netns):
        present = ip("-oneline", "address", "show", "dev", request.ifname)
    for address in expected.ips:
        if f" {ip_interface(address.address).ip}/" not in present:
            raise CNIError(f"{request.ifname} has lost its address {address.address}", code=101)


@plugin.delete
def delete(request: Request) -> None:
    """Both ends go with one of them. The namespace may be gone already, and the link with it."""
    request.delegate(request.config_as(Config).ipam.type).delete()
    with suppress(CNIError):
        ip("link", "del", host_end(request))


@plugin.status
def status(request: Request) -> None:
    request.delegate(request.config_as(Config).ipam.type).status()


@plugin.gc
def gc(request: Request) -> None:
    request.delegate(request.config_as(Config).ipam.type).gc()


if __name__ == "__main__":
    plugin.main()
