"""All types of kernel objects, and the union that plans are decoded with; each is loaded on first use."""

from typing import TYPE_CHECKING

from ...cni.lazy import lazily

if TYPE_CHECKING:
    from .address import Address
    from .base import LinkDeletion, LinkName, Object, Scope, Undo, Where
    from .link import LinkObject
    from .link_types import Bridge, Dummy, Ifb, Macvlan, Vlan, Vrf, Vxlan
    from .neighbour import Forwarding, Neighbour
    from .nft import NftTable
    from .nft_chain import NftChain
    from .nft_element import NftElement
    from .port import BridgePort, PortVlan, VrfMember
    from .route import Hop, Route
    from .rule import Rule
    from .sysctl import Sysctl
    from .tap import Tap
    from .traffic import Ingress, Redirect, Shaper
    from .union import AnyObject
    from .up import Up
    from .veth import Veth
    from .wireguard import WireguardDevice, WireguardPeer

__all__ = [
    "Address", "AnyObject", "Bridge", "BridgePort", "LinkDeletion", "Dummy", "Forwarding", "Hop", "Ifb",
    "Ingress", "LinkName", "LinkObject", "Macvlan", "Neighbour", "NftChain", "NftElement", "NftTable",
    "Object", "PortVlan", "Redirect", "Route", "Rule", "Scope", "Shaper", "Sysctl", "Tap", "Undo", "Up",
    "Veth", "Vlan", "Vrf", "VrfMember", "Vxlan", "Where", "WireguardDevice", "WireguardPeer",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "address": ("Address",),
            "base": ("LinkDeletion", "LinkName", "Object", "Scope", "Undo", "Where"),
            "link": ("LinkObject",),
            "link_types": ("Bridge", "Dummy", "Ifb", "Macvlan", "Vlan", "Vrf", "Vxlan"),
            "neighbour": ("Forwarding", "Neighbour"),
            "nft": ("NftTable",),
            "nft_chain": ("NftChain",),
            "nft_element": ("NftElement",),
            "port": ("BridgePort", "PortVlan", "VrfMember"),
            "route": ("Hop", "Route"),
            "rule": ("Rule",),
            "sysctl": ("Sysctl",),
            "tap": ("Tap",),
            "traffic": ("Ingress", "Redirect", "Shaper"),
            "union": ("AnyObject",),
            "up": ("Up",),
            "veth": ("Veth",),
            "wireguard": ("WireguardDevice", "WireguardPeer"),
        },
    )  # fmt: skip
