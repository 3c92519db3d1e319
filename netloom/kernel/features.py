"""What the running kernel can do, tested in a namespace of its own.

A feature is available if a plan that needs it applies. Kernels that load modules on demand load them then, as
they would for real use.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from .conntrack import forget
from .errors import KernelError, LibraryMissing
from .namespace import Namespace
from .netlink import link
from .netlink.message import CREATE, EXCLUSIVE
from .objects import (
    AnyObject,
    Bridge,
    Dummy,
    Ifb,
    Ingress,
    Macvlan,
    NftElement,
    NftTable,
    PortVlan,
    Redirect,
    Scope,
    Shaper,
    Tap,
    Veth,
    Vlan,
    Vrf,
    Vxlan,
)
from .plan import Plan, applying, run

_VETH = Veth("a", "b", peer_on="host")
_NFT = NftTable("inet", "probe", "map verdicts { type ifname : verdict; }")
_ARP = NftTable(
    "arp", "probe", "chain in { type filter hook input priority filter; arp saddr ip set 0.0.0.0; }"
)
_NAT = NftTable(
    "inet",
    "probe",
    """
map ports { type inet_proto . inet_service : ipv4_addr . inet_service; }
chain in {
    type nat hook prerouting priority dstnat
    fib daddr type local dnat ip to meta l4proto . th dport map @ports
}
chain out {
    type nat hook postrouting priority srcnat
    masquerade
}
""",
)


class Feature(NamedTuple):
    """`needed_for` is what does not work without it; `config` is the kernel's option."""

    needed_for: str
    config: str
    objects: tuple[AnyObject, ...] = ()
    essential: bool = False


FEATURES: Mapping[str, Feature] = {
    "veth": Feature("every container", "CONFIG_VETH", (_VETH,), essential=True),
    "nftables": Feature(
        "anti-spoofing, NAT, host ports, policy",
        "CONFIG_NF_TABLES_INET",
        (_NFT, NftElement("inet", "probe", "verdicts", ("a",), verdict="accept")),
        essential=True,
    ),
    "nftables-arp": Feature(
        "neighbour tables that no container can fill", "CONFIG_NF_TABLES_ARP", (_ARP,), essential=True
    ),
    "nat": Feature(
        "masquerade and host ports", "CONFIG_NFT_MASQ, CONFIG_NFT_FIB_INET", (_NAT,), essential=True
    ),
    "conntrack": Feature("deleting tracked connections of removed containers", "CONFIG_NF_CT_NETLINK"),
    "bridge": Feature("underlay and tenant networks", "CONFIG_BRIDGE", (Bridge("a"),)),
    "bridge-vlan": Feature(
        "VLAN-aware bridges",
        "CONFIG_BRIDGE_VLAN_FILTERING",
        (Bridge("a", vlan_filtering=True), PortVlan("a", 7, itself=True)),
    ),
    "vlan": Feature("VLANs of an uplink", "CONFIG_VLAN_8021Q", (_VETH, Vlan("v", "a", 7))),
    "vxlan": Feature("tenant networks over many nodes", "CONFIG_VXLAN", (Vxlan("a", 7),)),
    "vrf": Feature("tenants with routing tables of their own", "CONFIG_NET_VRF", (Vrf("a", 1000),)),
    "wireguard": Feature("the encrypted mesh", "CONFIG_WIREGUARD"),
    "macvlan": Feature("containers with a MAC on the uplink", "CONFIG_MACVLAN", (_VETH, Macvlan("m", "a"))),
    "dummy": Feature("addresses without a network link (anycast)", "CONFIG_DUMMY", (Dummy("a"),)),
    "ifb": Feature("limits on what a container sends", "CONFIG_IFB", (Ifb("a"),)),
    "tbf": Feature("bandwidth limits", "CONFIG_NET_SCH_TBF", (_VETH, Shaper("a", 1 << 20, 1 << 15, 1 << 16))),
    "tap": Feature("virtual machines", "CONFIG_TUN", (Tap("a"),)),
    "ingress": Feature("traffic redirection between links", "CONFIG_NET_SCH_INGRESS", (_VETH, Ingress("a"))),
    "u32": Feature(
        "traffic redirection without matchall",
        "CONFIG_NET_CLS_U32",
        (_VETH, Ingress("a"), Redirect("a", "b", classifier="u32")),
    ),
    "matchall": Feature(
        "the fastest traffic redirection",
        "CONFIG_NET_CLS_MATCHALL",
        (_VETH, Ingress("a"), Redirect("a", "b", classifier="matchall")),
    ),
}


class Availability(Struct, frozen=True):
    """Whether a feature is available, and if not, the kernel's error and the remedy."""

    feature: str
    present: bool
    essential: bool
    needed_for: str
    reason: str = ""
    remedy: str = ""


def probe() -> Iterator[Availability]:
    """Returns one finding for each feature. Needs root, and leaves nothing behind."""
    for name, feature in FEATURES.items():
        with Namespace.new("a namespace to probe in") as scratch:
            obstacle = _obstacle(name, feature, scratch)
        reason, remedy = ("", "") if obstacle is None else (str(obstacle), _remedy(obstacle, feature))
        yield Availability(name, obstacle is None, feature.essential, feature.needed_for, reason, remedy)


def _remedy(obstacle: KernelError, feature: Feature) -> str:
    if isinstance(obstacle, LibraryMissing):
        return "install the package libnftables1"
    if obstacle.errno in (errno.EPERM, errno.EACCES):
        return "run it as root, with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    if feature.config == "CONFIG_TUN" and not os.path.exists("/dev/net/tun"):
        return f"/dev/net/tun, which {feature.config} provides; in a container, pass the device through"
    return f"a kernel with {feature.config} (as a module: `modprobe` must find it)"


def _obstacle(name: str, feature: Feature, scratch: Namespace) -> KernelError | None:
    try:
        if name == "conntrack":
            forget(scratch, "192.0.2.1")
        elif name == "wireguard":
            # The device has no key, which would have to be in a file.
            scratch.route.change(
                link.NEW, CREATE | EXCLUSIVE, link.create("wireguard", link.properties(name="a"))
            )
        else:
            run(applying(Plan(feature.objects), Scope(scratch)))
        return None
    except KernelError as error:
        return error
