"""Links, and links as ports of a bridge."""

from __future__ import annotations

from netloom.kernel import (
    Bridge,
    BridgePort,
    Ifb,
    Macvlan,
    Tap,
    Up,
    Veth,
    Vxlan,
)

from .row import (
    BRIDGE,
    MAC,
    OTHER_MAC,
    PAIR,
    PEER_MAC,
    SECOND,
    Row,
    conflict,
    gone,
    left,
)

LINKS = (
    Row(
        "veth",
        Veth("nl1", "eth0", mac=MAC, peer_mac=PEER_MAC, mtu=1400, txqlen=500),
        (
            gone("ip link set nl1 mtu 1300", "mtu"),
            gone("ip link set nl1 txqueuelen 7", "txqlen"),
            gone("ip link set eth0 mtu 1300", "peer's mtu", where="attachment"),
            gone(f"ip link set eth0 address {OTHER_MAC}", "peer's mac", where="attachment"),
            gone("ip link set eth0 name other", "peer", where="attachment"),
            gone("ip link del nl1"),
            gone("ip link del eth0", where="attachment"),
            left("ip link set nl1 name other"),
            conflict(f"ip link set nl1 address {OTHER_MAC}", "mac"),
            conflict(("ip link del nl1", "ip link add nl1 type bridge"), "kind"),
        ),
    ),
    Row(
        "veth in one namespace",
        Veth("nl1", "nl2", peer_on="host", mac=MAC, queues=2),
        (gone("ip link set nl2 name other", "peer"), gone("ip link del nl2")),
    ),
    Row(
        "veth from the attachment",
        Veth("eth0", "nl1", on="attachment", peer_on="host", mac=MAC, mtu=1400),
        (
            gone("ip link set eth0 mtu 1300", "mtu", where="attachment"),
            gone("ip link set nl1 mtu 1300", "peer's mtu"),
        ),
    ),
    Row(
        "bridge",
        Bridge("br1", mac=MAC, mtu=1400, stp=False, multicast_snooping=False, ageing=100),
        (
            gone("ip link set br1 mtu 1300", "mtu"),
            gone("ip link set br1 type bridge stp_state 1", "stp"),
            gone("ip link set br1 type bridge mcast_snooping 1", "multicast_snooping"),
            gone("ip link set br1 type bridge ageing_time 20000", "ageing"),
            gone("ip link del br1"),
            conflict(f"ip link set br1 address {OTHER_MAC}", "mac"),
            conflict(("ip link del br1", f"ip link add br1 address {MAC} type ifb"), "kind"),
        ),
    ),
    Row(
        "bridge with spanning tree",
        Bridge("br1", mac=MAC, stp=True, multicast_snooping=True),
        (
            gone("ip link set br1 type bridge stp_state 0", "stp"),
            gone("ip link set br1 type bridge mcast_snooping 0 stp_state 0", "stp", "multicast_snooping"),
        ),
    ),
    Row(
        "ifb",
        Ifb("ifb1", mac=MAC, txqlen=500),
        (
            gone("ip link set ifb1 txqueuelen 7", "txqlen"),
            gone("ip link del ifb1"),
            conflict(("ip link del ifb1", f"ip link add ifb1 address {OTHER_MAC} type ifb"), "mac"),
        ),
    ),
    Row(
        "vxlan over IPv4",
        Vxlan("vx1", 7, local="192.0.2.1", mac=MAC, mtu=1400),
        (
            gone("ip link set vx1 mtu 1300", "mtu"),
            gone("ip link set vx1 type vxlan id 7 learning", "learning"),
            gone("ip link set vx1 type vxlan id 7 local 192.0.2.9", "local"),
            gone("ip link del vx1"),
            conflict(
                (
                    "ip link del vx1",
                    f"ip link add vx1 mtu 1400 address {MAC} "
                    "type vxlan id 7 local 192.0.2.1 nolearning dstport 8472",
                ),
                "port",
            ),
            conflict(
                (
                    "ip link del vx1",
                    f"ip link add vx1 address {MAC} type vxlan id 8 local 192.0.2.1 nolearning dstport 4789",
                ),
                "vni",
            ),
            conflict(f"ip link set vx1 address {OTHER_MAC}", "mac"),
        ),
    ),
    Row(
        "vxlan over IPv6",
        Vxlan("vx1", 7, local="2001:DB8:0::1", mac=MAC, port=8472, learning=True),
        (
            gone("ip link set vx1 type vxlan id 7 nolearning", "learning"),
            gone("ip link set vx1 type vxlan id 7 local 2001:db8::9", "local"),
        ),
    ),
    Row(
        "vxlan of a link",
        Vxlan("vx1", 7, device="nl1", mac=MAC),
        (
            conflict(
                (
                    "ip link del vx1",
                    f"ip link add vx1 address {MAC} type vxlan id 7 dev nl2 nolearning dstport 4789",
                ),
                "device",
            ),
        ),
        setup=(PAIR, SECOND),
    ),
    Row(
        "macvlan",
        Macvlan("mv1", "nl1", mac=OTHER_MAC, mtu=1400),
        (
            gone("ip link set mv1 type macvlan mode private", "mode"),
            gone("ip link set mv1 mtu 1300", "mtu"),
            gone("ip link del mv1"),
            conflict(
                (
                    "ip link del mv1",
                    f"ip link add mv1 link nl2 address {OTHER_MAC} mtu 1400 type macvlan mode bridge",
                ),
                "parent",
            ),
            conflict("ip link set mv1 address 02:00:00:00:00:98", "mac"),
        ),
        setup=(PAIR, SECOND),
    ),
    Row(
        "macvlan that is private",
        Macvlan("mv1", "nl1", mode="private", mac=OTHER_MAC),
        (gone("ip link set mv1 type macvlan mode vepa", "mode"),),
        setup=(PAIR,),
    ),
    Row(
        "macvlan of the whole parent",
        Macvlan("mv1", "nl1", mode="passthru"),
        (gone("ip link del mv1"),),
        setup=(PAIR,),
    ),
    Row(
        "tap",
        Tap("tap1", mac=MAC, mtu=1400),
        (
            gone("ip link set tap1 mtu 1300", "mtu"),
            gone("ip link del tap1"),
            conflict(
                (
                    "ip link del tap1",
                    "ip tuntap add tap1 mode tap",
                    f"ip link set tap1 address {MAC} mtu 1400",
                ),
                "vnet_hdr",
            ),
            conflict(f"ip link set tap1 address {OTHER_MAC}", "mac"),
            conflict(
                ("ip link del tap1", f"ip link add tap1 address {MAC} type ifb"),
                "kind",
            ),
        ),
    ),
    Row(
        "tap of a user with several queues",
        Tap("tap1", mac=MAC, multi_queue=True, vnet_hdr=False, owner=1000, group=1001),
        (
            conflict(
                (
                    "ip link del tap1",
                    "ip tuntap add tap1 mode tap multi_queue user 1002 group 1001",
                    f"ip link set tap1 address {MAC}",
                ),
                "owner",
            ),
            conflict(
                (
                    "ip link del tap1",
                    "ip tuntap add tap1 mode tap user 1000",
                    f"ip link set tap1 address {MAC}",
                ),
                "multi_queue",
                "group",
            ),
        ),
    ),
    Row(
        "tap without a MAC of ours",
        Tap("tap1"),
        (conflict(("ip link del tap1", "ip tuntap add tap1 mode tun"), "kind"),),
    ),
    Row(
        "up",
        Up("nl1"),
        (gone("ip link set nl1 down", "state"), left("ip link del nl1")),
        setup=(Veth("nl1", "nl2", peer_on="host", mac=MAC),),
    ),
    Row(
        "up in the attachment",
        Up("eth0", on="attachment"),
        (gone("ip link set eth0 down", "state", where="attachment"),),
        setup=(PAIR,),
    ),
    Row(
        "up without a link-local address",
        Up("nl1", link_local=False),
        (gone("ip link set nl1 down", "state"), left("ip link del nl1")),
        setup=(PAIR,),
    ),
    Row(
        "up for good",
        Up("nl1", stay=True),
        (left("ip link set nl1 down", "state"),),
        setup=(PAIR,),
        stays=True,
    ),
)


PORTS = (
    Row(
        "bridge port",
        BridgePort("nl1", "br1"),
        (
            gone("ip link set nl1 nomaster"),
            conflict(("ip link add br2 type bridge", "ip link set nl1 master br2"), "master"),
        ),
        setup=(PAIR, BRIDGE),
    ),
    Row(
        "bridge port with everything on",
        BridgePort(
            "nl1", "br1", hairpin=True, isolated=True, learning=True, flood=True, neighbour_suppression=True
        ),
        (
            gone("bridge link set dev nl1 hairpin off", "hairpin"),
            gone("bridge link set dev nl1 isolated off", "isolated"),
            gone("bridge link set dev nl1 learning off", "learning"),
            gone("bridge link set dev nl1 flood off", "flood"),
            gone("bridge link set dev nl1 neigh_suppress off", "neighbour_suppression"),
        ),
        setup=(PAIR, BRIDGE),
    ),
    Row(
        "bridge port with everything off",
        BridgePort(
            "nl1",
            "br1",
            hairpin=False,
            isolated=False,
            learning=False,
            flood=False,
            neighbour_suppression=False,
        ),
        (
            gone("bridge link set dev nl1 hairpin on", "hairpin"),
            gone("bridge link set dev nl1 learning on isolated on", "isolated", "learning"),
        ),
        setup=(PAIR, BRIDGE),
    ),
)
