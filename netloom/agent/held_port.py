"""Host ports as the journal has them. Whoever only reads a configuration need not load a journal for it."""

from __future__ import annotations

from ..journal import Port
from ..kernel.values import packed_ip, shown_ip
from ..modes.wanted import HostPort


def port_of(it: HostPort) -> Port:
    ip = packed_ip(it.ip)
    return Port(
        protocol=it.protocol,
        host_port=it.host_port,
        host_ip=packed_ip(it.host_ip) if it.host_ip else bytes(len(ip)),
        ip=ip,
        port=it.port,
    )


def host_port_of(it: Port) -> HostPort:
    return HostPort(
        protocol=it.protocol,  # type: ignore[arg-type]
        host_port=it.host_port,
        ip=shown_ip(it.ip),
        port=it.port,
        host_ip=shown_ip(it.host_ip) if any(it.host_ip) else "",
    )
