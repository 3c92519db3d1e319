"""Kernel objects of Linux that can be applied, checked and removed.

>>> from netloom.kernel import Bridge, Namespace, Plan, Scope, Up, apply, check, remove
>>> plan = Plan((Bridge("nl0", mac="02:00:00:00:00:01"), Up("nl0")))

netloom makes every change to the kernel by a plan, a list of frozen objects. `apply` creates all of them or
changes nothing, `check` lists what differs, `remove` deletes them. `netlink` is the wire format below;
`Dataplane` is the thread that does this for an agent.
"""

from typing import TYPE_CHECKING

from ..cni.lazy import lazily

if TYPE_CHECKING:
    from .errors import (
        Conflict,
        Difference,
        InvalidNamespace,
        InvalidObject,
        InvalidPlan,
        KernelError,
        KernelTimeout,
        LibraryMissing,
        Malformed,
        OutcomeUnknown,
        QueueFull,
        Refused,
        Stopped,
        SysctlError,
        Unsupported,
    )
    from .namespace import Namespace
    from .objects import (
        Address,
        AnyObject,
        Bridge,
        BridgePort,
        Dummy,
        Forwarding,
        Hop,
        Ifb,
        Ingress,
        Macvlan,
        Neighbour,
        NftChain,
        NftElement,
        NftTable,
        Object,
        PortVlan,
        Redirect,
        Route,
        Rule,
        Scope,
        Shaper,
        Sysctl,
        Tap,
        Up,
        Veth,
        Vlan,
        Vrf,
        VrfMember,
        Vxlan,
        WireguardDevice,
        WireguardPeer,
    )
    from .plan import Change, Incomplete, Plan, Repair, apply, check, remove, repair

__all__ = [
    "Address", "AnyObject", "Bridge", "BridgePort", "Change", "Conflict", "KernelTimeout", "Difference",
    "Dummy", "Forwarding", "Hop", "Ifb", "Incomplete", "Ingress", "InvalidNamespace", "InvalidObject",
    "InvalidPlan", "KernelError", "LibraryMissing", "Macvlan", "Malformed", "Namespace", "Neighbour",
    "NftChain", "NftElement", "NftTable", "Object", "OutcomeUnknown", "Plan", "PortVlan", "QueueFull",
    "Redirect", "Refused", "Repair", "Route", "Rule", "Scope", "Shaper", "Stopped", "Sysctl", "SysctlError",
    "Tap", "Unsupported", "Up", "Veth", "Vlan", "Vrf", "VrfMember", "Vxlan", "WireguardDevice",
    "WireguardPeer", "apply", "check", "remove", "repair",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "errors": (
                "Conflict", "KernelTimeout", "Difference", "InvalidNamespace", "InvalidObject",
                "InvalidPlan", "KernelError", "LibraryMissing", "Malformed", "OutcomeUnknown", "QueueFull",
                "Refused", "Stopped", "SysctlError", "Unsupported",
            ),
            "namespace": ("Namespace",),
            "objects": (
                "Address", "AnyObject", "Bridge", "BridgePort", "Dummy", "Forwarding", "Hop", "Ifb",
                "Ingress", "Macvlan", "Neighbour", "NftChain", "NftElement", "NftTable", "Object", "PortVlan",
                "Redirect", "Route", "Rule", "Scope", "Shaper", "Sysctl", "Tap", "Up", "Veth", "Vlan", "Vrf",
                "VrfMember", "Vxlan", "WireguardDevice", "WireguardPeer",
            ),
            "plan": ("Change", "Incomplete", "Plan", "Repair", "apply", "check", "remove", "repair"),
        },
    )  # fmt: skip
