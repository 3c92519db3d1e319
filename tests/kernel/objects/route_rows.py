"""Routes, rules and settings."""

from __future__ import annotations

from typing import Literal, TypeAlias

from netloom.kernel import (
    Address,
    Hop,
    Route,
    Rule,
    Sysctl,
    Up,
    Veth,
)

from .row import (
    BOTH_UP,
    MAC,
    NET4,
    PAIR_UP,
    ROUTABLE,
    Row,
    conflict,
    gone,
    left,
)

Kind: TypeAlias = Literal["blackhole", "unreachable", "prohibit"]


def _dead_end(kind: Kind, family: str) -> Row:
    ip, network, metric = ("ip", "192.0.2.0/24", 7) if family == "IPv4" else ("ip -6", "2001:db8::/32", 0)
    deleted = f"{ip} route del {kind} {network} table 1000"
    other = f"{ip} route add throw {network} table 1000 metric {metric or 1024}"
    return Row(
        f"{kind} {family} route",
        Route(network, kind=kind, table=1000, metric=metric),
        (gone(deleted), left((deleted, other), "kind")),
    )


DEAD_ENDS: tuple[Kind, ...] = ("blackhole", "unreachable", "prohibit")
ROUTES = (
    Row(
        "IPv4 route to a link",
        Route("10.1.0.2/32", link="nl1"),
        (
            gone("ip route del 10.1.0.2/32"),
            left(("ip route del 10.1.0.2/32", "ip route add 10.1.0.2/32 tos 0x10 dev nl1 proto 78")),
            conflict("ip route replace 10.1.0.2/32 dev nl2 proto 78", "way"),
            conflict("ip route replace blackhole 10.1.0.2/32 proto 78", "kind", "way"),
            left("ip route replace 10.1.0.2/32 dev nl2", "way"),
            left("ip route replace blackhole 10.1.0.2/32", "kind", "way"),
        ),
        setup=BOTH_UP,
    ),
    Row(
        "IPv6 route to a link",
        Route("fd01::2/128", link="nl1"),
        (
            gone("ip -6 route del fd01::2/128"),
            left("ip -6 route replace fd01::2/128 dev nl2", "way"),
            conflict("ip -6 route replace fd01::2/128 dev nl2 proto 78", "way"),
        ),
        setup=BOTH_UP,
    ),
    Row(
        "IPv4 route by way of a gateway",
        Route("10.1.0.0/16", via="10.0.0.2", metric=50, mtu=1300, advmss=1200, source="10.0.0.1"),
        (
            gone("ip route del 10.1.0.0/16 metric 50"),
            left(
                "ip route replace 10.1.0.0/16 via 10.0.0.3 metric 50 mtu 1300 advmss 1200 src 10.0.0.1", "way"
            ),
            left("ip route replace 10.1.0.0/16 via 10.0.0.2 metric 50", "source", "mtu", "advmss"),
            gone(
                "ip route change 10.1.0.0/16 via 10.0.0.2 metric 50 proto 78 "
                "mtu 1200 advmss 1200 src 10.0.0.1",
                "mtu",
            ),
        ),
        setup=ROUTABLE,
    ),
    Row(
        "IPv6 route by way of a gateway",
        Route("fd01::/64", via="FD00::2", metric=50, mtu=1300, advmss=1200, source="FD00::0:1"),
        (
            gone("ip -6 route del fd01::/64 metric 50"),
            left(
                "ip -6 route replace fd01::/64 via fd00::2 dev nl1 metric 50 src fd00::1 "
                "mtu 1200 advmss 1200",
                "mtu",
            ),
        ),
        setup=ROUTABLE,
    ),
    Row(
        "IPv4 default route to a gateway that no address tells of",
        Route("0.0.0.0/0", link="eth0", via="169.254.1.1", onlink=True, on="attachment"),
        (
            gone("ip route del default", where="attachment"),
            left("ip route replace default via 169.254.1.2 dev eth0 onlink", "way", where="attachment"),
        ),
        setup=(*PAIR_UP, Address("eth0", "10.0.0.2/32", on="attachment")),
    ),
    Row(
        "IPv6 default route to a link-local gateway",
        Route("::/0", link="eth0", via="fe80::1", on="attachment"),
        (
            gone("ip -6 route del default", where="attachment"),
            left("ip -6 route replace default via fe80::2 dev eth0", "way", where="attachment"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "IPv6 route to a gateway that no address tells of",
        Route("fd01::/64", link="nl1", via="fd09::1", onlink=True),
        (gone("ip -6 route del fd01::/64"),),
        setup=PAIR_UP,
    ),
    Row(
        "IPv4 route by way of an IPv6 gateway",
        Route("10.1.0.0/16", link="nl1", via="fd00::2"),
        (
            gone("ip route del 10.1.0.0/16"),
            left("ip route replace 10.1.0.0/16 via inet6 fd00::3 dev nl1", "way"),
        ),
        setup=ROUTABLE,
    ),
    Row(
        "IPv4 route of several ways",
        Route("10.1.0.0/16", hops=(Hop("nl1", "10.0.0.2", weight=2), Hop("nl2", "10.0.9.2", onlink=True))),
        (
            gone("ip route del 10.1.0.0/16"),
            left(
                "ip route replace 10.1.0.0/16 "
                "nexthop via 10.0.0.2 dev nl1 nexthop via 10.0.9.2 dev nl2 onlink",
                "way",
            ),
        ),
        setup=(*BOTH_UP, NET4),
    ),
    Row(
        "IPv6 route of several ways",
        Route("fd01::/64", hops=(Hop("nl1", "fd00::2", weight=2), Hop("nl1", "fd00::3"))),
        (
            gone("ip -6 route del fd01::/64"),
            conflict("ip -6 route del fd01::/64 via fd00::3 dev nl1", "way"),
            conflict("ip -6 route append fd01::/64 via fd00::4 dev nl1", "way"),
        ),
        setup=ROUTABLE,
    ),
    Row(
        "local IPv4 route",
        Route("10.1.0.0/16", link="lo", kind="local", table=1000),
        (gone("ip route del local 10.1.0.0/16 table 1000"),),
        setup=(Up("lo"),),
    ),
    Row(
        "local IPv6 route",
        Route("fd01::/64", link="lo", kind="local", table=1000),
        (gone("ip -6 route del local fd01::/64 table 1000"),),
        setup=(Up("lo"),),
    ),
    *(_dead_end(kind, family) for kind in DEAD_ENDS for family in ("IPv4", "IPv6")),
)


_SAME_RULE = "ip rule add pref 1000 from 10.0.0.0/8 to 10.1.0.0/16 fwmark 5 table 100 proto 78"
RULES = (
    Row(
        "IPv4 rule",
        Rule(1000, "ipv4", table=100, source="10.0.0.0/8", destination="10.1.0.0/16", mark=5),
        (
            gone("ip rule del pref 1000"),
            left(("ip rule del pref 1000", "ip rule add pref 1000 from 10.0.0.0/8 table 100")),
            *(
                left(("ip rule del pref 1000", f"{_SAME_RULE} {more}"))
                for more in (
                    "ipproto tcp",
                    "ipproto tcp sport 1-9",
                    "ipproto tcp dport 80",
                    "uidrange 0-9",
                    "tos 0x10",
                    "tun_id 9",
                    "suppress_ifgroup 9",
                )
            ),
        ),
    ),
    Row(
        "IPv6 rule",
        Rule(1000, "ipv6", table=1000, source="fd00::/64", iif="nl1", suppress_prefix=0),
        (
            gone("ip -6 rule del pref 1000"),
            left(("ip -6 rule del pref 1000", "ip -6 rule add pref 1000 from fd00::/64 table 1000")),
        ),
    ),
    Row(
        "inverted IPv4 rule with a masked mark",
        Rule(1000, "ipv4", table=100, mark=0x10, mask=0xF0, oif="nl1", invert=True),
        (gone("ip rule del pref 1000"),),
    ),
    Row(
        "IPv6 rule that rejects",
        Rule(1000, "ipv6", action="prohibit", destination="fd01::/64"),
        (gone("ip -6 rule del pref 1000"),),
    ),
    Row("IPv4 rule that drops", Rule(1000, "ipv4", action="blackhole"), (gone("ip rule del pref 1000"),)),
    Row(
        "IPv4 rule that rejects",
        Rule(1000, "ipv4", action="unreachable", iif="nl1"),
        (gone("ip rule del pref 1000"),),
    ),
)


SETTINGS = (
    Row(
        "sysctl",
        Sysctl("net/ipv4/ip_forward", "1", otherwise="0"),
        (left("sysctl -q -w net.ipv4.ip_forward=0", "value"),),
    ),
    Row(
        "sysctl in the attachment",
        Sysctl("net/ipv6/conf/all/forwarding", "1", otherwise="0", on="attachment"),
        (left("sysctl -q -w net.ipv6.conf.all.forwarding=0", "value", where="attachment"),),
    ),
    Row(
        "sysctl of a link with a dot in its name",
        Sysctl("net/ipv4/conf/nl.7/rp_filter", "2", otherwise="0"),
        (left("sysctl -q -w net/ipv4/conf/nl.7/rp_filter=1", "value"),),
        setup=(Veth("nl.7", "eth0", mac=MAC),),
    ),
    Row(
        "sysctl with several numbers",
        Sysctl("net/ipv4/ping_group_range", "0 100", otherwise="1 0"),
        (left("sysctl -q -w net.ipv4.ping_group_range='0 99'", "value"),),
    ),
    Row(
        "sysctl for good",
        Sysctl("net/ipv4/conf/all/arp_ignore", "1"),
        (left("sysctl -q -w net.ipv4.conf.all.arp_ignore=2", "value"),),
        stays=True,
    ),
)
