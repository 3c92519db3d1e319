"""The node's nft table: rules that are created once, and sets and maps that attachments fill.

An attachment only adds elements, so the number of rules that a packet passes does not grow with the number
of containers. The rules of one network (masquerade, isolation) are a chain beside those of the table, to
which elements jump. Base chains come after those of other programs: a cluster's proxy or an
operator's firewall decides first. netloom never changes a table of another program.

By hook, in the order in which packets pass them:

ARP          answers: the host answers for its addresses, and learns no neighbours
prerouting   guard (raw): a container sends only from its own addresses, and is no router
             arriving (dstnat + 5): host ports, for packets to this host
             returning (dstnat + 10): replies to `looped` get a destination that is valid on a wire
input        unlooped (110): these replies get 127.0.0.1 or ::1 as destination again
output       routers (raw): router advertisements of the host do not reach containers
             looped (mangle): packets to a host port on the loopback get a source that may leave it
             own (-95): host ports, for packets from this host to itself
forward      between (filter): isolation of networks and containers
postrouting  leaving (srcnat + 5): masquerade; and the source of hairpin and loopback connections
             stayed (srcnat + 10): packets that stayed on the loopback get their own source again

The kernel drops packets from 127.0.0.1 that leave the loopback, and packets to it that arrive on another
link, unless `route_localnet` allows both for all packets (CVE-2020-8558). So packets of such a connection
carry an address of the host where the kernel checks them, and their own address before and after. The kernel
still drops all other packets to 127.0.0.1 that arrive on a link.

The kernel's neighbour tables hold 1,024 entries for the whole machine, and the kernel creates an entry for
each sender that asks for an address of the host. The host has permanent entries for containers, so it need
not learn neighbours from them. The table sets the sender of an ARP request to 0.0.0.0, as in the request of a
host without an address: the kernel answers it and creates no entry. All other ARP is dropped. Neighbour
discovery passes only from a container's own addresses. Duplicate address detection needs no answer.

The guard counts dropped packets by link, except those that every IPv6 host sends to its neighbours by itself.
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

# Addresses of the host, so that it answers containers that ask for their next hop. A container asks if a
# later plugin changes its link's MAC, which deletes its permanent neighbour entries.
OWN_ADDRESSES = (
    Route(f"{HOST4}/32", link="lo", table=255, kind="local"),
    Route(f"{HOST6}/128", link="lo", table=255, kind="local"),
)

# Permitted source addresses, by family: a link and an address.
SOURCES = ("sources4", "sources6")
# Host ports, by family: on all addresses of the host, and on one. All addresses include 127.0.0.1 but not the
# rest of 127.0.0.0/8, where programs for the host alone listen, such as its resolver.
PORTS = ("ports4", "ports6")
PORTS_AT = ("ports4_at", "ports6_at")
# Host ports on the loopback: on 127.0.0.1 or ::1, and on another address of 127.0.0.0/8.
LOOPED = ("looped4", "looped6")
LOOPED_AT = "looped4_at"
# Masqueraded addresses, and isolated links.
LEAVING = ("leaving4", "leaving6")
APART = "apart"
# The number of packets of a link that the guard has dropped. The kernel removes an element `KEPT` seconds
# after the last one, or the agent does when the link is deleted. No plan has such an element.
DROPPED = "dropped"
KEPT = 86400

# Prefixes of the chains of networks, beside those of the table.
LEAVE = "leave-"
KEEP_APART = "apart-"
# The chain that names the owner of the table.
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

# All sets and maps of the table. The chain of an isolated network has a set of its members besides.
SETS = (*SOURCES, *PORTS, *PORTS_AT, *LOOPED, LOOPED_AT, *LEAVING, APART)


def element(
    place: str, *key: str, value: tuple[str, ...] | None = None, verdict: str | None = None
) -> NftElement:
    return NftElement(family=TABLE.family, table=TABLE.name, set=place, key=key, value=value, verdict=verdict)


def chain(name: str, rules: Iterable[str], *, members: str = "") -> NftChain:
    return NftChain(family=TABLE.family, table=TABLE.name, name=name, rules=tuple(rules), members=members)


def name_of(prefix: str, about: str) -> str:
    """Names a chain by its content: equal chains are one, and a chain never changes."""
    return prefix + hashlib.sha256(about.encode()).hexdigest()[:16]


def owners(elements: Iterable[NftElement]) -> Mapping[NftElement, str]:
    """Returns for each element of one table the host's end of its attachment, if it can be derived.

    An element names a link, a source address of a link, or a port that leads to such an address.
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


# The kernel limits a comment to 127 bytes.
_PIECE = 100
_STATE, _MORE, _JOURNAL = "state directory ", "... ", "journal "
# Characters that are not percent-encoded: common in paths, and harmless between quotes.
_PLAIN = "/ :,;@+=()"


class Owner(Struct, frozen=True):
    """`journal` is the journal's identity, which a moved or copied file keeps; empty: unknown."""

    state_dir: str
    journal: str = ""


def owner_chain(owner: Owner) -> NftChain:
    path = quote(os.fsencode(owner.state_dir), safe=_PLAIN)
    pieces = [path[start : start + _PIECE] for start in range(0, len(path), _PIECE)]
    remarks = [_STATE + pieces[0], *(_MORE + it for it in pieces[1:]), _JOURNAL + owner.journal]
    return chain(OWNER, [f'continue comment "{it}"' for it in remarks])


def owner_of(remarks: Iterable[str]) -> Owner | None:
    """Parses the owner from the comments of the chain's rules; None if they name none."""
    path, journal = "", ""
    for it in remarks:
        for prefix in (_STATE, _MORE):
            path += it.removeprefix(prefix) if it.startswith(prefix) else ""
        journal = it.removeprefix(_JOURNAL) if it.startswith(_JOURNAL) else journal
    return Owner(os.fsdecode(unquote_to_bytes(path)), journal) if path else None
