"""The node's table in nftables: rules that are laid down once, and sets and maps that attachments fill.

What an attachment needs is elements, so no packet meets more rules because there are more containers. The
rules of one network (what it masquerades, whom it keeps apart) are a chain beside the table, which elements
lead to. Base chains stand behind those of others: what a cluster's proxy or an operator's firewall decides
comes first. Nothing is ever put into a table that is not ours.

By hook, in the order in which packets meet them:

ARP          answers: the host answers for its addresses, and learns nothing
prerouting   guard (raw): a container sends from its own addresses, and is no router
             arriving (dstnat + 5): host ports, for what is addressed to this host
             returning (dstnat + 10): answers to looped are for an address that they can reach from a wire
input        unlooped (110): and here for 127.0.0.1 or ::1 again
output       routers (raw): no router advertisement of the host's reaches a container
             looped (mangle): what is for a host port of the loopback gets a source that can leave it
             own (-95): host ports, for what this host sends to itself
forward      between (filter): networks and containers that are kept apart
postrouting  leaving (srcnat + 5): masquerade; and a source for who calls by the loopback, or itself
             stayed (srcnat + 10): what did not leave the loopback after all has its own source again

The kernel refuses packets from 127.0.0.1 that leave the loopback, and to it that come from elsewhere, unless
`route_localnet` opens it for everybody (CVE-2020-8558). So where it decides about a packet of such a
connection, the packet has an address of the host's, and before and after its own. Whoever else sends to
127.0.0.1 by a wire is refused as ever.

The kernel's tables of neighbours hold 1,024 entries for the whole machine, and an entry is made for
whoever asks for an address of the host. Containers are known to the host by permanent entries, so it need
not learn neighbours from them. A request by ARP gets the sender 0.0.0.0, which is how a host asks that has
no address yet: the kernel answers it and makes no entry. All other ARP is dropped. Of neighbour discovery,
only what comes from a container's own addresses passes. Duplicate address detection ends well without an
answer.

What the guard drops is counted by link, but for what every IPv6 host says to its neighbours by itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from ..kernel import NftChain, NftElement, NftTable, Route
from .names import HOST4, HOST6, PREFIX

LOOPBACK6 = "::1"

# They are the host's: it answers a container that asks for its next hop, also one whose link gets another
# MAC from a plugin behind ours, and so loses what it was told of its neighbours.
OWN_ADDRESSES = (
    Route(f"{HOST4}/32", link="lo", table=255, kind="local"),
    Route(f"{HOST6}/128", link="lo", table=255, kind="local"),
)

# Who may send what: by family, a link and an address.
SOURCES = ("sources4", "sources6")
# Host ports, by family: of all addresses of the host, and of one. Of all means 127.0.0.1, too, and not the
# others of 127.0.0.0/8, where programs of the host listen that are for itself, such as its resolver.
PORTS = ("ports4", "ports6")
PORTS_AT = ("ports4_at", "ports6_at")
# Those that the loopback has: of 127.0.0.1 or ::1, and of one of the others.
LOOPED = ("looped4", "looped6")
LOOPED_AT = "looped4_at"
# Who is masqueraded, and who is kept apart.
LEAVING = ("leaving4", "leaving6")
APART = "apart"
# How many packets of a link the guard has dropped. An element goes so many seconds after the last of them,
# or when the agent sees that its link is gone. No attachment has one in its plan.
DROPPED = "dropped"
KEPT = 86400

# Chains of networks, beside the table.
LEAVE = "leave-"
KEEP_APART = "apart-"
# The chain that says whose the table is.
OWNER = "owner"

TABLE = NftTable(
    "inet",
    "netloom",
    f"""
set sources4 {{ type ifname . ipv4_addr; }}
set sources6 {{ type ifname . ipv6_addr; }}
map ports4 {{ type inet_proto . inet_service : ipv4_addr . inet_service; }}
map ports6 {{ type inet_proto . inet_service : ipv6_addr . inet_service; }}
map ports4_at {{ type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }}
map ports6_at {{ type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; }}
set looped4 {{ type inet_proto . inet_service; }}
set looped4_at {{ type ipv4_addr . inet_proto . inet_service; }}
set looped6 {{ type inet_proto . inet_service; }}
map leaving4 {{ type ipv4_addr : verdict; }}
map leaving6 {{ type ipv6_addr : verdict; }}
map apart {{ type ifname : verdict; }}
set dropped {{ type ifname; size 65535; flags dynamic,timeout; timeout {KEPT}s; }}
chain guard {{
    type filter hook prerouting priority raw; policy accept;
    iifname "{PREFIX}*" jump sender
    iifname != "lo" ip6 saddr {HOST6} drop
}}
chain sender {{
    icmpv6 type {{ nd-router-advert, nd-redirect }} goto refuse
    icmp type redirect goto refuse
    ip6 daddr {{ ::/96, ::ffff:0:0/96 }} goto refuse
    iifname . ip saddr @sources4 return
    iifname . ip6 saddr @sources6 return
    ip6 saddr {{ ::/128, fe80::/10 }} ip6 daddr ff02::/16 goto alone
    goto refuse
}}
chain alone {{
    icmpv6 type mld2-listener-report return
    drop
}}
chain refuse {{
    update @dropped {{ iifname counter }}
    drop
}}
chain routers {{
    type filter hook output priority raw; policy accept;
    oifname "{PREFIX}*" icmpv6 type {{ nd-router-advert, nd-redirect }} drop
}}
chain looped {{
    type route hook output priority mangle; policy accept;
    oifname != "lo" return
    ct direction original ct reply ip daddr {HOST4} ip saddr 127.0.0.0/8 ip saddr set {HOST4}
    ct direction original ct reply ip6 daddr {HOST6} ip6 saddr ::1 ip6 saddr set {HOST6}
    ct status & confirmed != 0 return
    ip saddr 127.0.0.0/8 ip daddr . meta l4proto . th dport @looped4_at ip saddr set {HOST4}
    ip daddr 127.0.0.0/8 ip daddr != 127.0.0.1 return
    ip saddr 127.0.0.0/8 meta l4proto . th dport @looped4 ip saddr set {HOST4}
    ip6 saddr ::1 meta l4proto . th dport @looped6 ip6 saddr set {HOST6}
}}
chain stayed {{
    type filter hook postrouting priority srcnat + 10; policy accept;
    oifname "lo" ip saddr {HOST4} ct original ip saddr 127.0.0.0/8 ip saddr set ct original ip saddr
    oifname "lo" ip6 saddr {HOST6} ct original ip6 saddr ::1 ip6 saddr set ::1
}}
chain returning {{
    type filter hook prerouting priority dstnat + 10; policy accept;
    iifname "{PREFIX}*" ct direction reply ip daddr 127.0.0.0/8 ip daddr set {HOST4}
    iifname "{PREFIX}*" ct direction reply ip6 daddr ::1 ip6 daddr set {HOST6}
}}
chain unlooped {{
    type filter hook input priority 110; policy accept;
    iifname "{PREFIX}*" ct direction reply ip daddr {HOST4} ct original ip saddr 127.0.0.0/8 \
        ip daddr set ct original ip saddr
    iifname "{PREFIX}*" ct direction reply ip6 daddr {HOST6} ct original ip6 saddr ::1 ip6 daddr set ::1
}}
chain arriving {{
    type nat hook prerouting priority dstnat + 5; policy accept;
    ip daddr 127.0.0.0/8 return
    fib daddr type local jump hostports
}}
chain own {{
    type nat hook output priority -95; policy accept;
    fib daddr type local jump hostports
}}
chain hostports {{
    dnat ip to ip daddr . meta l4proto . th dport map @ports4_at
    ip daddr 127.0.0.0/8 ip daddr != 127.0.0.1 return
    meta nfproto ipv4 dnat ip to meta l4proto . th dport map @ports4
    dnat ip6 to ip6 daddr . meta l4proto . th dport map @ports6_at
    meta nfproto ipv6 dnat ip6 to meta l4proto . th dport map @ports6
}}
chain between {{
    type filter hook forward priority filter; policy accept;
    iifname "{PREFIX}*" oifname "{PREFIX}*" jump pairs
}}
chain pairs {{
    ct state established,related return
    ct status dnat return
    iifname vmap @apart
    oifname vmap @apart
}}
chain leaving {{
    type nat hook postrouting priority srcnat + 5; policy accept;
    oifname "{PREFIX}*" ct status dnat ct original ip saddr 127.0.0.0/8 snat ip to {HOST4}
    oifname "{PREFIX}*" ct status dnat ct original ip6 saddr ::1 snat ip6 to {HOST6}
    ct status dnat oifname . ip saddr @sources4 snat ip to {HOST4}
    ct status dnat oifname . ip6 saddr @sources6 snat ip6 to {HOST6}
    oifname "{PREFIX}*" return
    ip saddr vmap @leaving4
    ip6 saddr vmap @leaving6
}}
""",
    beside=(LEAVE, KEEP_APART, OWNER),
    arp=f"""
chain answers {{
    type filter hook input priority filter; policy accept;
    iifname "{PREFIX}*" arp operation request arp saddr ip set 0.0.0.0 accept
    iifname "{PREFIX}*" drop
}}
""",
)

# All that elements are put into. Of a chain that keeps a network apart, the members are one more.
SETS = (*SOURCES, *PORTS, *PORTS_AT, *LOOPED, LOOPED_AT, *LEAVING, APART)


def element(
    place: str, *key: str, value: tuple[str, ...] | None = None, verdict: str | None = None
) -> NftElement:
    return NftElement(family=TABLE.family, table=TABLE.name, set=place, key=key, value=value, verdict=verdict)


def chain(name: str, rules: Iterable[str], *, members: str = "") -> NftChain:
    return NftChain(family=TABLE.family, table=TABLE.name, name=name, rules=tuple(rules), members=members)


def name_of(prefix: str, about: str) -> str:
    """A chain's, by what it is about: so equals are one, and none is ever changed."""
    return prefix + hashlib.sha256(about.encode()).hexdigest()[:16]


def owners(elements: Iterable[NftElement]) -> Mapping[NftElement, str]:
    """Of the elements of one table, the host's end of the attachment that each is for, as far as they tell.

    An element names a link, or an address that a link may send from, or a port that leads to such an address.
    """
    elements = list(elements)
    by_address = {it.key[1]: it.key[0] for it in elements if it.set in SOURCES}
    by_port = {
        (it.set, it.key): by_address.get(it.value[0])
        for it in elements
        if it.set in PORTS + PORTS_AT and it.value is not None
    }
    found: dict[NftElement, str] = {}
    for it in elements:
        if it.set in LEAVING:
            link = by_address.get(it.key[0])
        elif it.set in PORTS + PORTS_AT:
            link = by_port.get((it.set, it.key))
        elif it.set == LOOPED_AT:
            link = by_port.get((PORTS_AT[0], it.key))
        elif it.set in LOOPED:
            ipv6 = it.set == LOOPED[1]
            link = by_port.get((PORTS[ipv6], it.key)) or by_port.get((PORTS_AT[ipv6], (LOOPBACK6, *it.key)))
        else:
            link = it.key[0]
        if link is not None:
            found[it] = link
    return found


# A comment has up to 127 bytes.
_PIECE = 100
_STATE, _MORE, _JOURNAL = "state directory ", "... ", "journal "
# Readable in nearly every path, and harmless between quotes.
_PLAIN = "/ :,;@+=()"


class Owner(Struct, frozen=True):
    """`journal` is its identity, which a file that is moved or copied has, too; empty: not known."""

    state_dir: str
    journal: str = ""


def owner_chain(owner: Owner) -> NftChain:
    path = quote(os.fsencode(owner.state_dir), safe=_PLAIN)
    pieces = [path[start : start + _PIECE] for start in range(0, len(path), _PIECE)]
    remarks = [_STATE + pieces[0], *(_MORE + it for it in pieces[1:]), _JOURNAL + owner.journal]
    return chain(OWNER, [f'continue comment "{it}"' for it in remarks])


def owner_of(remarks: Iterable[str]) -> Owner | None:
    """From the comments of the chain's rules; None if they do not name one."""
    path, journal = "", ""
    for it in remarks:
        for prefix in (_STATE, _MORE):
            path += it.removeprefix(prefix) if it.startswith(prefix) else ""
        journal = it.removeprefix(_JOURNAL) if it.startswith(_JOURNAL) else journal
    return Owner(os.fsdecode(unquote_to_bytes(path)), journal) if path else None
