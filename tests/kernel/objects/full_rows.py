"""The rows that take a distribution's kernel: VLANs, VRFs, WireGuard, and what small kernels leave out."""

from __future__ import annotations

import base64

from netloom.kernel import (
    Address,
    Bridge,
    BridgePort,
    Dummy,
    Forwarding,
    Ingress,
    PortVlan,
    Redirect,
    Route,
    Rule,
    Up,
    Vlan,
    Vrf,
    VrfMember,
    WireguardDevice,
    WireguardPeer,
)

from .row import BOTH_UP, MAC, NET4, OTHER_MAC, PAIR, PAIR_UP, Row, conflict, gone, left

# Files that a test finds in its working directory.
KEYS = {
    "own.key": bytes([64, *range(1, 31), 64]),
    "other.key": bytes([72] * 31 + [65]),
    "psk.key": bytes([9] * 32),
}


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


PUBLIC, STRANGER = text(bytes(range(32))), text(bytes(range(32, 64)))
DEVICE = WireguardDevice("wg1", "own.key", listen_port=51820)

# The first VRF of a namespace brings rules that stay when it goes.
L3MDEV = ("ip link add first type vrf table 9", "ip link del first")
VLANS = Bridge("br1", mac="02:00:00:00:01:01", vlan_filtering=True, default_pvid=0)
AWARE = (PAIR, VLANS, BridgePort("nl1", "br1"))

LINKS = (
    Row(
        "dummy",
        Dummy("d1", mac=MAC, mtu=1400, txqlen=500),
        (
            gone("ip link set d1 mtu 1300", "mtu"),
            gone("ip link set d1 txqueuelen 7", "txqlen"),
            gone("ip link del d1"),
            conflict(f"ip link set d1 address {OTHER_MAC}", "mac"),
            conflict(("ip link del d1", f"ip link add d1 address {MAC} type ifb"), "kind"),
        ),
    ),
    Row(
        "vlan",
        Vlan("nl1.7", "nl1", 7, mac=MAC, mtu=1400),
        (
            gone("ip link set nl1.7 mtu 1300", "mtu"),
            gone("ip link del nl1.7"),
            conflict(
                ("ip link del nl1.7", f"ip link add nl1.7 link nl2 address {MAC} mtu 1400 type vlan id 7"),
                "parent",
            ),
            conflict(f"ip link set nl1.7 address {OTHER_MAC}", "mac"),
            conflict(("ip link del nl1.7", f"ip link add nl1.7 link nl1 address {MAC} type vlan id 8"), "id"),
        ),
        setup=BOTH_UP,
    ),
    Row(
        "vlan in the attachment",
        Vlan("eth0.7", "eth0", 7, on="attachment"),
        (gone("ip link del eth0.7", where="attachment"),),
        setup=PAIR_UP,
    ),
    Row(
        "vrf",
        Vrf("vrf1", 100, mac=MAC),
        (
            gone("ip link del vrf1"),
            conflict(("ip link del vrf1", f"ip link add vrf1 address {MAC} type vrf table 101"), "table_id"),
            conflict(f"ip link set vrf1 address {OTHER_MAC}", "mac"),
        ),
        by_hand=L3MDEV,
    ),
    Row(
        "vrf member",
        VrfMember("nl1", "vrf1"),
        (
            gone("ip link set nl1 nomaster"),
            conflict(("ip link add vrf2 type vrf table 101", "ip link set nl1 master vrf2"), "master"),
        ),
        by_hand=L3MDEV,
        setup=(*PAIR_UP, Vrf("vrf1", 100), Up("vrf1")),
    ),
    Row(
        "rule of all VRFs",
        Rule(999, "ipv6", l3mdev=True),
        (gone("ip -6 rule del pref 999"),),
        by_hand=L3MDEV,
    ),
    Row(
        "route in a VRF",
        Route("10.1.0.0/16", link="nl1", via="10.0.0.2", table=100),
        (gone("ip route del 10.1.0.0/16 vrf vrf1"),),
        by_hand=L3MDEV,
        setup=(*PAIR_UP, Vrf("vrf1", 100), Up("vrf1"), VrfMember("nl1", "vrf1"), NET4),
    ),
    Row(
        "address of a dummy",
        Address("d1", "10.0.0.1/32"),
        (gone("ip addr flush dev d1"),),
        setup=(Dummy("d1", mac=MAC), Up("d1")),
    ),
)

VLAN_PORTS = (
    Row(
        "bridge of VLANs",
        Bridge("br1", mac=MAC, vlan_filtering=True, default_pvid=0),
        (
            gone("ip link set br1 type bridge vlan_filtering 0", "vlan_filtering"),
            gone("ip link set br1 type bridge vlan_default_pvid 5", "default_pvid"),
        ),
    ),
    Row(
        "bridge without VLANs",
        Bridge("br1", mac=MAC, vlan_filtering=False, default_pvid=1),
        (gone("ip link set br1 type bridge vlan_filtering 1", "vlan_filtering"),),
    ),
    Row(
        "VLAN that a port is in",
        PortVlan("nl1", 10, pvid=True, untagged=True),
        (
            gone("bridge vlan del dev nl1 vid 10"),
            conflict("bridge vlan add dev nl1 vid 10 untagged", "pvid"),
            conflict("bridge vlan add dev nl1 vid 10", "pvid", "untagged"),
        ),
        setup=AWARE,
    ),
    Row(
        "VLAN that a port carries among others",
        PortVlan("nl1", 11),
        (
            gone("bridge vlan del dev nl1 vid 11"),
            conflict("bridge vlan add dev nl1 vid 11 untagged", "untagged"),
            left("ip link set nl1 nomaster"),
        ),
        setup=(*AWARE, PortVlan("nl1", 10), PortVlan("nl1", 12)),
    ),
    Row(
        "VLAN that the bridge itself is in",
        PortVlan("br1", 10, itself=True),
        (gone("bridge vlan del dev br1 vid 10 self"),),
        setup=AWARE,
    ),
    Row(
        "MAC behind a port in a VLAN",
        Forwarding("nl1", OTHER_MAC, vlan=10),
        (gone(f"bridge fdb del {OTHER_MAC} dev nl1 master vlan 10"),),
        setup=(*AWARE, PortVlan("nl1", 10), PortVlan("nl1", 11), Forwarding("nl1", OTHER_MAC, vlan=11)),
    ),
)

_REPLACE = "tc filter add dev nl1 ingress prio 1 protocol all matchall action mirred egress redirect dev nl1"
TRAFFIC = (
    Row(
        "redirect by matchall",
        Redirect("nl1", "nl2", classifier="matchall"),
        (
            gone("tc filter del dev nl1 ingress prio 1"),
            conflict(("tc filter del dev nl1 ingress prio 1", _REPLACE), "target"),
            gone(
                (
                    "tc filter del dev nl1 ingress prio 1",
                    "tc filter add dev nl1 ingress prio 1 protocol all u32 match u32 0 0 "
                    "action mirred egress redirect dev nl2",
                ),
                "classifier",
            ),
        ),
        setup=(*BOTH_UP, Ingress("nl1")),
    ),
    Row(
        "redirect by what there is",
        Redirect("nl1", "nl2"),
        (gone("tc filter del dev nl1 ingress prio 1"),),
        setup=(*BOTH_UP, Ingress("nl1")),
    ),
)

WIREGUARD = (
    Row(
        "wireguard device",
        WireguardDevice("wg1", "own.key", listen_port=51820, fwmark=7, mtu=1400),
        (
            gone("wg set wg1 listen-port 51821", "listen_port"),
            gone("wg set wg1 fwmark 8", "fwmark"),
            gone("ip link set wg1 mtu 1300", "mtu"),
            gone("ip link del wg1"),
            conflict("wg set wg1 private-key other.key", "private key"),
            conflict(("ip link del wg1", "ip link add wg1 type ifb"), "kind"),
        ),
    ),
    Row(
        "wireguard device with a key alone",
        WireguardDevice("wg1", "own.key"),
        (gone("ip link del wg1"),),
    ),
    Row(
        "wireguard peer",
        WireguardPeer(
            "wg1",
            PUBLIC,
            ("10.1.0.0/16", "fd01::/64"),
            endpoint="[2001:db8::9]:51820",
            keepalive=25,
            preshared_key_file="psk.key",
        ),
        (
            gone(f"wg set wg1 peer {PUBLIC} remove"),
            gone(f"wg set wg1 peer {PUBLIC} allowed-ips 10.1.0.0/16", "allowed"),
            gone(f"wg set wg1 peer {PUBLIC} persistent-keepalive 26", "keepalive"),
            gone(f"wg set wg1 peer {PUBLIC} preshared-key other.key", "preshared key"),
            left("ip link del wg1"),
        ),
        setup=(DEVICE,),
    ),
    Row(
        "wireguard peer without extras",
        WireguardPeer("wg1", PUBLIC, ("10.1.0.0/16",), endpoint="192.0.2.9:51820"),
        (gone(f"wg set wg1 peer {PUBLIC} preshared-key other.key", "preshared key"),),
        setup=(DEVICE, WireguardPeer("wg1", STRANGER, ("10.2.0.0/16",))),
    ),
)

FULL: tuple[Row, ...] = (*LINKS, *VLAN_PORTS, *TRAFFIC, *WIREGUARD)
