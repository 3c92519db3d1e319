"""Addresses, neighbours and forwarding entries."""

from __future__ import annotations

from netloom.kernel import (
    Address,
    BridgePort,
    Forwarding,
    Neighbour,
    Up,
)

from .row import (
    BOTH_UP,
    BRIDGE,
    OTHER_MAC,
    PAIR_UP,
    PEER_MAC,
    TUNNEL,
    TUNNEL6,
    Row,
    conflict,
    gone,
    left,
)

ADDRESSES = (
    Row(
        "IPv4 address",
        Address("nl1", "10.0.0.2/24"),
        (
            gone("ip addr del 10.0.0.2/24 dev nl1"),
            left(("ip addr del 10.0.0.2/24 dev nl1", "ip addr add 10.0.0.2/25 dev nl1"), "prefix length"),
            left(
                ("ip addr del 10.0.0.2/24 dev nl1", "ip addr add 10.0.0.2/24 dev nl1 noprefixroute"),
                "prefix route",
            ),
            left(
                ("ip addr del 10.0.0.2/24 dev nl1", "ip addr add 10.0.0.2 peer 10.0.0.3/24 dev nl1"), "peer"
            ),
            left("ip addr change 10.0.0.2/24 dev nl1 valid_lft 999 preferred_lft 999", "lifetime"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "IPv4 address without a prefix route",
        Address("nl1", "10.0.0.2/24", prefix_route=False),
        (
            left(
                ("ip addr del 10.0.0.2/24 dev nl1", "ip addr add 10.0.0.2/24 dev nl1"),
                "prefix route",
            ),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "IPv6 address",
        Address("eth0", "FD00:0::2/128", on="attachment"),
        (
            gone("ip addr del fd00::2/128 dev eth0", where="attachment"),
            left(
                ("ip addr del fd00::2/128 dev eth0", "ip addr add fd00::2/64 dev eth0"),
                "prefix length",
                where="attachment",
            ),
            left("ip link set eth0 down", where="attachment"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "IPv6 address that switches IPv6 on",
        Address("nl1", "fd00::2/128", switch_on=True),
        (gone("ip addr del fd00::2/128 dev nl1"),),
        setup=PAIR_UP,
    ),
    Row(
        "IPv6 address without a prefix route",
        Address("nl1", "fd00::2/64", prefix_route=False),
        (
            left(("ip addr del fd00::2/64 dev nl1", "ip addr add fd00::2/64 dev nl1"), "prefix route"),
            left(
                ("ip addr change fd00::2/64 dev nl1 noprefixroute valid_lft 999 preferred_lft 999",),
                "lifetime",
            ),
        ),
        setup=PAIR_UP,
    ),
)


NEIGHBOURS = (
    Row(
        "IPv4 neighbour",
        Neighbour("nl1", "10.0.0.2", PEER_MAC),
        (
            gone("ip neigh del 10.0.0.2 dev nl1"),
            left(f"ip neigh replace 10.0.0.2 lladdr {PEER_MAC} dev nl1 nud stale", "state"),
            conflict(f"ip neigh replace 10.0.0.2 lladdr {OTHER_MAC} dev nl1 nud permanent", "mac"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "IPv6 neighbour",
        Neighbour("nl1", "FD00::0:2", PEER_MAC),
        (
            gone("ip -6 neigh del fd00::2 dev nl1"),
            left(f"ip -6 neigh replace fd00::2 lladdr {OTHER_MAC} dev nl1 nud stale", "mac", "state"),
            conflict(f"ip -6 neigh replace fd00::2 lladdr {OTHER_MAC} dev nl1 nud permanent", "mac"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "IPv4 neighbour that we answer for",
        Neighbour("nl1", "10.0.0.9"),
        (gone("ip neigh del proxy 10.0.0.9 dev nl1"),),
        setup=PAIR_UP,
    ),
    Row(
        "IPv6 neighbour that we answer for",
        Neighbour("eth0", "fd00::9", on="attachment"),
        (gone("ip -6 neigh del proxy fd00::9 dev eth0", where="attachment"),),
        setup=PAIR_UP,
    ),
    Row(
        "MAC behind a port",
        Forwarding("nl1", OTHER_MAC),
        (
            gone(f"bridge fdb del {OTHER_MAC} dev nl1 master"),
            left(f"bridge fdb replace {OTHER_MAC} dev nl2 master static"),
        ),
        setup=(*BOTH_UP, BRIDGE, BridgePort("nl1", "br1"), BridgePort("nl2", "br1")),
    ),
    Row(
        "MAC at a far end over IPv4",
        Forwarding("vx1", OTHER_MAC, via="192.0.2.9"),
        (
            gone(f"bridge fdb del {OTHER_MAC} dev vx1 dst 192.0.2.9"),
            conflict(f"bridge fdb replace {OTHER_MAC} dev vx1 dst 192.0.2.8", "far end"),
            conflict(f"bridge fdb replace {OTHER_MAC} dev vx1 dst 192.0.2.9 port 9999", "port"),
            conflict(f"bridge fdb replace {OTHER_MAC} dev vx1 dst 192.0.2.9 vni 9", "VNI"),
        ),
        setup=(TUNNEL, Up("vx1")),
    ),
    Row(
        "MAC at a far end over IPv6",
        Forwarding("vx1", OTHER_MAC, via="2001:DB8::9"),
        (
            gone(f"bridge fdb del {OTHER_MAC} dev vx1 dst 2001:db8::9"),
            conflict(f"bridge fdb replace {OTHER_MAC} dev vx1 dst 2001:db8::8", "far end"),
        ),
        setup=(TUNNEL6, Up("vx1")),
    ),
    Row(
        "one of several far ends for what is unknown",
        Forwarding("vx1", "00:00:00:00:00:00", via="192.0.2.9"),
        (
            gone("bridge fdb del 00:00:00:00:00:00 dev vx1 dst 192.0.2.9"),
            left(
                (
                    "bridge fdb del 00:00:00:00:00:00 dev vx1 dst 192.0.2.9",
                    "bridge fdb append 00:00:00:00:00:00 dev vx1 dst 192.0.2.9 port 9999",
                )
            ),
        ),
        setup=(TUNNEL, Up("vx1"), Forwarding("vx1", "00:00:00:00:00:00", via="192.0.2.8")),
    ),
    Row(
        "MAC at a far end of a port",
        Forwarding("vx1", OTHER_MAC, via="192.0.2.9"),
        (gone(f"bridge fdb del {OTHER_MAC} dev vx1 dst 192.0.2.9 self"),),
        setup=(TUNNEL, BRIDGE, BridgePort("vx1", "br1"), Forwarding("vx1", OTHER_MAC)),
    ),
)
