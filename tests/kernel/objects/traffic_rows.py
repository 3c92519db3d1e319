"""Traffic control and nftables."""

from __future__ import annotations

from netloom.kernel import (
    Ifb,
    Ingress,
    NftChain,
    NftElement,
    NftTable,
    Redirect,
    Shaper,
)

from .row import (
    BOTH_UP,
    MAC,
    PAIR_UP,
    Drift,
    Row,
    conflict,
    gone,
    left,
)

TRAFFIC = (
    Row(
        "ingress hook",
        Ingress("nl1"),
        (
            gone("tc qdisc del dev nl1 ingress"),
            conflict(("tc qdisc del dev nl1 ingress", "tc qdisc add dev nl1 clsact"), "kind"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "hook for both directions",
        Ingress("nl1", "clsact"),
        (
            gone("tc qdisc del dev nl1 clsact"),
            conflict(("tc qdisc del dev nl1 clsact", "tc qdisc add dev nl1 ingress"), "kind"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "redirect by u32",
        Redirect("nl1", "nl2", classifier="u32", priority=7),
        (
            gone("tc filter del dev nl1 ingress prio 7"),
            conflict(
                (
                    "tc filter del dev nl1 ingress prio 7",
                    "tc filter add dev nl1 ingress prio 7 protocol all u32 match u32 0 0 "
                    "action mirred egress redirect dev nl1",
                ),
                "target",
            ),
            conflict(
                (
                    "tc filter del dev nl1 ingress prio 7",
                    "tc filter add dev nl1 ingress prio 7 protocol all u32 match u32 0 0 "
                    "action mirred egress mirror dev nl2",
                ),
                "target",
            ),
        ),
        setup=(*BOTH_UP, Ingress("nl1")),
    ),
    Row(
        "redirect on a hook for both directions",
        Redirect("nl1", "nl2"),
        (gone("tc filter del dev nl1 ingress prio 1"), left("tc qdisc del dev nl1 clsact")),
        setup=(*BOTH_UP, Ingress("nl1", "clsact")),
    ),
    Row(
        "shaper",
        Shaper("nl1", rate=1_250_000, burst=32_768, limit=100_000),
        (
            gone("tc qdisc del dev nl1 root"),
            gone("tc qdisc change dev nl1 root handle 6e6c: tbf rate 8mbit burst 32768 limit 100000", "rate"),
            gone(
                "tc qdisc change dev nl1 root handle 6e6c: tbf rate 10mbit burst 9999 limit 100000", "burst"
            ),
            gone(
                "tc qdisc change dev nl1 root handle 6e6c: tbf rate 10mbit burst 32768 limit 90000", "limit"
            ),
            conflict("tc qdisc replace dev nl1 root handle 1: tbf rate 1mbit burst 9999 limit 9999", "qdisc"),
        ),
        setup=PAIR_UP,
    ),
    Row(
        "shaper of more than 32 bits",
        Shaper("ifb1", rate=5_000_000_000, burst=10_000_000, limit=10_000_000),
        (gone("tc qdisc del dev ifb1 root"),),
        setup=(Ifb("ifb1"),),
    ),
    Row(
        "shaper that is slow",
        Shaper("ifb1", rate=1000, burst=2000, limit=3000),
        (gone("tc qdisc del dev ifb1 root"),),
        setup=(Ifb("ifb1"),),
    ),
)


BODY = """
set pods { type ipv4_addr . ifname; }
set pods6 { type ipv6_addr; }
set macs { type ether_addr; }
map verdicts { type ifname : verdict; }
map ports { type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service; }
map ports6 { type inet_service : ipv6_addr . inet_service; }
map marks { type ipv4_addr : mark; }
chain side { counter drop; }
chain forward { type filter hook forward priority 0; policy accept; iifname vmap @verdicts; }
"""
TABLE = NftTable("inet", "netloom", BODY, beside=("leave-",))
PRIVATE = (
    "ip daddr 10.0.0.0/8 return",
    'ip6 daddr fd00::/8 counter return comment "ours; all"',
    "masquerade",
)


def _element(name: str, set_: str, key: tuple[str, ...], line: str, *drifts: Drift, **of: object) -> Row:
    element = NftElement("inet", "netloom", set_, key, **of)  # type: ignore[arg-type]
    by_hand = gone(f"nft 'delete element inet netloom {set_} {{ {line} }}'")
    return Row(name, element, (by_hand, *drifts), setup=(TABLE,))


NFTABLES = (
    Row(
        "nft table",
        TABLE,
        (
            gone("nft delete table inet netloom"),
            gone("nft add rule inet netloom forward drop", "chain forward"),
            gone("nft flush chain inet netloom side", "chain side"),
            gone("nft add chain inet netloom other", "chain other"),
            gone("nft delete set inet netloom pods6", "set pods6"),
            gone(
                (
                    "nft delete set inet netloom pods6",
                    "nft 'add set inet netloom pods6 { type ipv4_addr; }'",
                ),
                "set pods6",
            ),
            gone("nft 'chain inet netloom forward { policy drop; }'", "chain forward"),
            conflict(("nft delete table inet netloom", "nft add table inet netloom"), "owner"),
        ),
    ),
    Row(
        "nft table of a family, in the attachment",
        NftTable("ip6", "netloom", "chain x { ip6 daddr fd00::1 accept; }", on="attachment"),
        (gone("nft delete table ip6 netloom", where="attachment"),),
    ),
    Row(
        "nft table that sees a bridge",
        NftTable("bridge", "netloom", "chain x { ether saddr 02:00:00:00:00:01 drop; }"),
        (gone("nft flush chain bridge netloom x", "chain x"),),
    ),
    Row(
        "nft table with one for ARP",
        NftTable(
            "inet", "netloom", "set pods { type ipv4_addr; }", arp="chain x { arp operation reply drop; }"
        ),
        (
            gone(("nft delete table inet netloom", "nft delete table arp netloom")),
            gone("nft flush chain arp netloom x", "arp chain x"),
            gone("nft delete set inet netloom pods", "set pods"),
            gone("nft delete table arp netloom", "arp flags", "arp chain x"),
            conflict(("nft delete table arp netloom", "nft add table arp netloom"), "owner"),
        ),
    ),
    Row(
        "nft chain",
        NftChain("inet", "netloom", "leave-1", PRIVATE),
        (
            gone("nft delete chain inet netloom leave-1"),
            left("nft delete table inet netloom"),
            conflict("nft add rule inet netloom leave-1 drop", "rules"),
            conflict("nft insert rule inet netloom leave-1 accept", "rules"),
            conflict("nft flush chain inet netloom leave-1", "rules"),
            conflict("nft 'add set inet netloom leave-1 { type ifname; }'", "members"),
            conflict(
                (
                    "nft delete chain inet netloom leave-1",
                    "nft 'add chain inet netloom leave-1 { type filter hook input priority 0; }'",
                ),
                "rules",
            ),
        ),
        setup=(TABLE,),
    ),
    Row(
        "nft chain with members",
        NftChain(
            "inet",
            "netloom",
            "leave-2",
            ("iifname . ip saddr @leave-2 jump side", "oifname . ip daddr @leave-2 drop", "@th,16,16 7 drop"),
            members="ifname . ipv4_addr",
        ),
        (
            gone(("nft delete chain inet netloom leave-2", "nft delete set inet netloom leave-2")),
            conflict("nft delete chain inet netloom leave-2", "rules"),
            conflict(
                ("nft flush chain inet netloom leave-2", "nft delete set inet netloom leave-2"),
                "rules",
                "members",
            ),
            conflict(
                (
                    "nft flush chain inet netloom leave-2",
                    "nft delete set inet netloom leave-2",
                    "nft 'add set inet netloom leave-2 { type ipv4_addr; }'",
                ),
                "rules",
                "members",
            ),
        ),
        setup=(TABLE,),
    ),
    Row(
        "nft chain of a bridge's table, in the attachment",
        NftChain("bridge", "guard", "c-1", ("ether type arp accept", "drop"), on="attachment"),
        (gone("nft delete chain bridge guard c-1", where="attachment"),),
        setup=(NftTable("bridge", "guard", "", beside=("c-",), on="attachment"),),
    ),
    Row(
        "nft chain without rules",
        NftChain("inet", "netloom", "leave-3", ()),
        (conflict("nft add rule inet netloom leave-3 accept", "rules"),),
        setup=(TABLE,),
    ),
    _element("nft element of a concatenation", "pods", ("10.0.0.2", "nl1"), '10.0.0.2 . "nl1"'),
    _element("nft element of IPv6", "pods6", ("FD00::0:2",), "fd00::2"),
    _element("nft element of a MAC", "macs", (MAC,), MAC),
    _element(
        "nft element with a verdict",
        "verdicts",
        ("nl1",),
        '"nl1"',
        conflict(
            (
                "nft 'delete element inet netloom verdicts { \"nl1\" }'",
                "nft 'add element inet netloom verdicts { \"nl1\" : drop }'",
            ),
            "verdict",
        ),
        verdict="accept",
    ),
    _element(
        "nft element that jumps",
        "verdicts",
        ("nl1",),
        '"nl1"',
        conflict(
            (
                "nft 'delete element inet netloom verdicts { \"nl1\" }'",
                "nft 'add element inet netloom verdicts { \"nl1\" : goto side }'",
            ),
            "verdict",
        ),
        verdict="jump side",
    ),
    _element(
        "nft element with a value of IPv4",
        "ports",
        ("tcp", "10.0.0.2", "80"),
        "tcp . 10.0.0.2 . 80",
        conflict(
            (
                "nft 'delete element inet netloom ports { tcp . 10.0.0.2 . 80 }'",
                "nft 'add element inet netloom ports { tcp . 10.0.0.2 . 80 : 10.0.0.3 . 8080 }'",
            ),
            "value",
        ),
        value=("10.0.0.2", "8080"),
    ),
    _element("nft element with a value of IPv6", "ports6", ("80",), "80", value=("FD00::0:2", "8080")),
    _element("nft element with a mark", "marks", ("10.0.0.2",), "10.0.0.2", value=("0x10",)),
    Row(
        "nft element whose table goes",
        NftElement("inet", "netloom", "pods6", ("fd00::2",)),
        (left("nft delete table inet netloom"),),
        setup=(TABLE,),
    ),
)
