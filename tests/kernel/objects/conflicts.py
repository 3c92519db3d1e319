"""What of somebody else can stand in an object's place, row by row."""

from __future__ import annotations

from typing import NamedTuple

from netloom.kernel import (
    Address,
    AnyObject,
    Bridge,
    BridgePort,
    Dummy,
    Forwarding,
    Ifb,
    Ingress,
    Macvlan,
    Neighbour,
    NftChain,
    NftElement,
    NftTable,
    PortVlan,
    Redirect,
    Route,
    Shaper,
    Tap,
    Veth,
    Vlan,
    Vrf,
    VrfMember,
    Vxlan,
    WireguardDevice,
    WireguardPeer,
)

from .full_rows import AWARE, DEVICE, L3MDEV, PUBLIC, STRANGER
from .row import BOTH_UP, BRIDGE, MAC, OTHER_MAC, PAIR, PAIR_UP, PEER_MAC, ROUTABLE, TUNNEL, Removal
from .traffic_rows import TABLE


class Foreign(NamedTuple):
    """Somebody's thing, the object that it is in the way of, and how `remove` treats it."""

    name: str
    object: AnyObject
    by_hand: tuple[str, ...]
    field: str
    removal: Removal = "conflict"
    setup: tuple[AnyObject, ...] = ()


def link(item: AnyObject, name: str, *before: AnyObject) -> Foreign:
    """A link of another kind."""
    return Foreign(f"{item.label}, a link of another kind", item, (_ADD.format(name),), "kind", setup=before)


_ADD = "ip link add {} type ifb"

KERNEL = (
    link(Veth("nl1", "eth0", mac=MAC), "nl1"),
    link(Bridge("br1"), "br1"),
    link(Vxlan("vx1", 7), "vx1"),
    link(Macvlan("mv1", "nl1"), "mv1", PAIR),
    link(Tap("tap1"), "tap1"),
    Foreign("a link of the kind with another MAC", Ifb("ifb1", mac=MAC), (_ADD.format("ifb1"),), "mac"),
    Foreign("a tun where a tap should be", Tap("tun1"), ("ip tuntap add tun1 mode tun",), "kind"),
    Foreign(
        "a veth of another pair",
        Veth("nl1", "eth0", mac=MAC),
        (f"ip link add nl1 address {OTHER_MAC} type veth peer name other",),
        "mac",
    ),
    Foreign(
        "a vxlan of another network",
        Vxlan("vx1", 7),
        ("ip link add vx1 type vxlan id 8 dstport 4789",),
        "vni",
    ),
    Foreign(
        "an IPv6 address of another prefix",
        Address("nl1", "fd00::2/128"),
        ("ip addr add fd00::2/64 dev nl1",),
        "prefix length",
        "left",
        setup=PAIR_UP,
    ),
    Foreign(
        "an IPv4 neighbour with another MAC",
        Neighbour("nl1", "10.0.0.2", PEER_MAC),
        (f"ip neigh add 10.0.0.2 lladdr {OTHER_MAC} dev nl1 nud permanent",),
        "mac",
        setup=PAIR_UP,
    ),
    Foreign(
        "an IPv6 neighbour with another MAC",
        Neighbour("nl1", "fd00::2", PEER_MAC),
        (f"ip -6 neigh add fd00::2 lladdr {OTHER_MAC} dev nl1 nud permanent",),
        "mac",
        setup=PAIR_UP,
    ),
    Foreign(
        "a MAC at another far end",
        Forwarding("vx1", OTHER_MAC, via="192.0.2.9"),
        (f"bridge fdb add {OTHER_MAC} dev vx1 dst 192.0.2.8",),
        "far end",
        setup=(TUNNEL,),
    ),
    Foreign(
        "a port of another bridge",
        BridgePort("nl1", "br1"),
        ("ip link add br2 type bridge", "ip link set nl1 master br2"),
        "master",
        setup=(PAIR, BRIDGE),
    ),
    Foreign(
        "an IPv4 route another way",
        Route("10.1.0.2/32", link="nl1"),
        ("ip route add 10.1.0.2/32 dev nl2",),
        "way",
        "left",
        setup=BOTH_UP,
    ),
    Foreign(
        "an IPv6 route another way",
        Route("fd01::2/128", link="nl1"),
        ("ip -6 route add fd01::2/128 dev nl2",),
        "way",
        "left",
        setup=BOTH_UP,
    ),
    Foreign(
        "an IPv4 route by another gateway",
        Route("10.1.0.0/16", via="10.0.0.2"),
        ("ip route add 10.1.0.0/16 via 10.0.0.3",),
        "way",
        "left",
        setup=ROUTABLE,
    ),
    Foreign(
        "a route out where a dead end should be",
        Route("10.1.0.0/16", kind="blackhole"),
        ("ip route add 10.1.0.0/16 dev nl1",),
        "kind",
        "left",
        setup=PAIR_UP,
    ),
    Foreign(
        "a hook of the other kind",
        Ingress("nl1"),
        ("tc qdisc add dev nl1 clsact",),
        "kind",
        setup=PAIR_UP,
    ),
    Foreign(
        "a redirect to another link",
        Redirect("nl1", "nl2"),
        (
            "tc filter add dev nl1 ingress prio 1 protocol all u32 match u32 0 0 "
            "action mirred egress redirect dev nl1",
        ),
        "target",
        setup=(*BOTH_UP, Ingress("nl1")),
    ),
    Foreign(
        "a filter that does something else",
        Redirect("nl1", "nl2"),
        (
            "tc filter add dev nl1 ingress prio 1 protocol all u32 match u32 0 0 "
            "action mirred egress mirror dev nl2",
        ),
        "target",
        setup=(*BOTH_UP, Ingress("nl1")),
    ),
    Foreign(
        "another queue",
        Shaper("nl1", rate=1_250_000, burst=32_768, limit=100_000),
        ("tc qdisc add dev nl1 root tbf rate 10mbit burst 32768 limit 100000",),
        "qdisc",
        setup=PAIR_UP,
    ),
    Foreign("a table without our mark", TABLE, ("nft add table inet netloom",), "owner"),
    Foreign(
        "a table with another mark",
        NftTable("ip", "netloom", ""),
        ("nft 'table ip netloom { comment \"made by hand\"; }'",),
        "owner",
    ),
    Foreign(
        "a chain with other rules",
        NftChain("inet", "netloom", "leave-1", ("accept",)),
        ("nft add chain inet netloom leave-1", "nft add rule inet netloom leave-1 drop"),
        "rules",
        setup=(TABLE,),
    ),
    Foreign(
        "a chain that the kernel calls",
        NftChain("inet", "netloom", "leave-1", ()),
        ("nft 'add chain inet netloom leave-1 { type filter hook input priority 0; }'",),
        "rules",
        setup=(TABLE,),
    ),
    Foreign(
        "a set of a chain's name",
        NftChain("inet", "netloom", "leave-1", (), members="ifname"),
        ("nft 'add set inet netloom leave-1 { type ifname; }'",),
        "rules",
        setup=(TABLE,),
    ),
    Foreign(
        "an equal chain in a table that is not ours",
        NftChain("inet", "netloom", "leave-1", ("drop",)),
        (
            "nft add table inet netloom",
            "nft add chain inet netloom leave-1",
            "nft add rule inet netloom leave-1 drop",
        ),
        "owner",
    ),
    Foreign(
        "a table without our mark where a chain should be",
        NftChain("inet", "netloom", "leave-1", ("drop",)),
        ("nft add table inet netloom",),
        "owner",
        "left",
    ),
    Foreign(
        "an element with another verdict",
        NftElement("inet", "netloom", "verdicts", ("nl1",), verdict="accept"),
        ("nft 'add element inet netloom verdicts { \"nl1\" : drop }'",),
        "verdict",
        setup=(TABLE,),
    ),
    Foreign(
        "an element with another value",
        NftElement("inet", "netloom", "marks", ("10.0.0.2",), value=("1",)),
        ("nft 'add element inet netloom marks { 10.0.0.2 : 2 }'",),
        "value",
        setup=(TABLE,),
    ),
)

FULL = (
    link(Dummy("d1"), "d1"),
    link(Vlan("nl1.7", "nl1", 7), "nl1.7", PAIR),
    link(Vrf("vrf1", 100), "vrf1"),
    link(DEVICE, "wg1"),
    Foreign(
        "another VLAN of the name",
        Vlan("nl1.7", "nl1", 7),
        ("ip link add nl1.7 link nl1 type vlan id 8",),
        "id",
        setup=(PAIR,),
    ),
    Foreign(
        "a VRF of another table",
        Vrf("vrf1", 100),
        (*L3MDEV, "ip link add vrf1 type vrf table 101"),
        "table_id",
    ),
    Foreign(
        "a member of another VRF",
        VrfMember("nl1", "vrf1"),
        ("ip link add vrf2 type vrf table 101", "ip link set nl1 master vrf2"),
        "master",
        setup=(PAIR, Vrf("vrf1", 100)),
    ),
    Foreign(
        "a WireGuard device with another key",
        WireguardDevice("wg1", "own.key"),
        ("ip link add wg1 type wireguard", "wg set wg1 private-key other.key"),
        "private key",
    ),
    Foreign(
        "a VLAN that a port carries otherwise",
        PortVlan("nl1", 10, untagged=True),
        ("bridge vlan add dev nl1 vid 10",),
        "untagged",
        setup=AWARE,
    ),
    Foreign(
        "a network that another peer has",
        WireguardPeer("wg1", PUBLIC, ("10.1.0.0/16",)),
        (f"wg set wg1 peer {STRANGER} allowed-ips 10.1.0.0/16",),
        "holder of 10.1.0.0/16",
        "left",
        setup=(DEVICE,),
    ),
)
