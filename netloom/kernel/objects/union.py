"""The union of all types of kernel objects, which plans are decoded with."""

from __future__ import annotations

from typing import TypeAlias

from .address import Address
from .link_types import Bridge, Dummy, Ifb, Macvlan, Vlan, Vrf, Vxlan
from .neighbour import Forwarding, Neighbour
from .nft import NftTable
from .nft_chain import NftChain
from .nft_element import NftElement
from .port import BridgePort, PortVlan, VrfMember
from .route import Route
from .rule import Rule
from .sysctl import Sysctl
from .tap import Tap
from .traffic import Ingress, Redirect, Shaper
from .up import Up
from .veth import Veth
from .wireguard import WireguardDevice, WireguardPeer

AnyObject: TypeAlias = (
    Address | Bridge | BridgePort | Dummy | Forwarding | Ifb | Ingress | Macvlan | Neighbour | NftChain
    | NftElement | NftTable | PortVlan | Redirect | Route | Rule | Shaper | Sysctl | Tap | Up | Veth | Vlan
    | Vrf | VrfMember | Vxlan | WireguardDevice | WireguardPeer
)  # fmt: skip
