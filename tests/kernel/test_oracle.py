"""The codec's messages agree with pyroute2's, in both directions, for every kind of message.

Requests that we build are read by pyroute2; dumps of a namespace full of objects, which iproute2
made, are read by both.
"""

from __future__ import annotations

import inspect
import ipaddress
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from struct import pack
from types import ModuleType
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.nsidmsg import nsidmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from netloom.kernel import (
    Bridge,
    BridgePort,
    Dummy,
    Ifb,
    Macvlan,
    Namespace,
    Scope,
    Tap,
    Veth,
    Vlan,
    Vrf,
    Vxlan,
    WireguardDevice,
)
from netloom.kernel.netlink import address, bridge_vlan, link, neighbour, nsid, qdisc, route, rule
from netloom.kernel.netlink import filter as filters
from netloom.kernel.objects import LinkObject
from netloom.kernel.objects.link import GROUP, Data

pytestmark = pytest.mark.kernel

MODULES = (address, bridge_vlan, filters, link, neighbour, nsid, qdisc, route, rule)
BUILT: set[str] = set()

STEADY = settings(derandomize=True, deadline=None, database=None, max_examples=60)

T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., None])


def builds(*builders: Callable[..., bytes]) -> Callable[[Test], Test]:
    """Says which builders a test compares with the oracle."""
    BUILT.update(f"{builder.__module__}.{builder.__name__}" for builder in builders)
    return lambda test: test


def read(kind: Any, payload: bytes) -> dict[str, Any]:
    """What pyroute2 reads, as plain values: fields of the header, and attributes by name."""
    message = kind(pack("=IHHII", 16 + len(payload), 0, 0, 0, 0) + payload)
    message.decode()
    found = plain(message)
    assert isinstance(found, dict)
    return found


_DECORATION = ("header", "__align", "__pad", "state_name", "event")


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: plain(one) for key, one in value.items() if key not in (*_DECORATION, "attrs")}
        if "attrs" not in value:
            return found
        names = [entry[0] for entry in value["attrs"] if entry[0] != "UNKNOWN"]
        assert len(set(names)) == len(names), f"an attribute twice: {names}"
        return found | {entry[0]: plain(entry[1]) for entry in value["attrs"]}
    return [plain(one) for one in value] if isinstance(value, list) else value


def of_link(**fields: Any) -> dict[str, Any]:
    """A message about a link with nothing in it but what is given."""
    flags = fields.get("flags", 0)
    empty = {"family": 0, "ifi_type": 0, "index": 0, "flags": 0, "change": 0}
    return empty | {"state": "up" if flags & 1 else "down"} | fields


def of_peer(**fields: Any) -> dict[str, Any]:
    return {"family": 0, "ifi_type": 0, "index": 0, "flags": 0, "change": 0} | fields


indexes = st.integers(1, 0x7FFFFFFF)
u8s, u16s, u32s = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
names = st.from_regex(r"[a-z][a-z0-9.-]{0,14}", fullmatch=True)
macs = st.binary(min_size=6, max_size=6).map(lambda data: data.hex(":"))
ipv4 = st.binary(min_size=4, max_size=4)
ipv6 = st.binary(min_size=16, max_size=16)
families = st.sampled_from([(socket.AF_INET, ipv4), (socket.AF_INET6, ipv6)])


def shown(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def optional(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.one_of(st.none(), strategy)


def given_ones(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# --- what we build -----------------------------------------------------------------------------------


def test_every_builder_is_compared_with_the_oracle() -> None:
    public = {
        f"{module.__name__}.{name}" for module in MODULES for name, _ in _functions(module, returning="bytes")
    }
    assert len(public) > 30
    assert public - BUILT == set()


def test_every_decoder_is_compared_with_the_oracle() -> None:
    decoders = {
        f"{module.__name__}.{name}"
        for module in MODULES
        for name, _ in _functions(module)
        if name.startswith("decode")
    }
    assert decoders - DECODED == set()


def _functions(module: ModuleType, returning: str | None = None) -> Iterator[tuple[str, Any]]:
    for name, function in inspect.getmembers(module, inspect.isfunction):
        own = function.__module__ == module.__name__ and not name.startswith("_")
        if own and returning in (None, function.__annotations__.get("return")):
            yield name, function


@builds(link.by_index, link.get, link.by_name, link.get_by_name, link.everything, link.delete_group)
@STEADY
@given(index=indexes, name=names, group=u32s)
def test_questions_about_links(index: int, name: str, group: int) -> None:
    skip = {"IFLA_EXT_MASK": 8}  # without statistics
    assert read(ifinfmsg, link.by_index(index)) == of_link(index=index)
    assert read(ifinfmsg, link.get(index)) == of_link(index=index, **skip)
    assert read(ifinfmsg, link.by_name(name)) == of_link(IFLA_IFNAME=name)
    assert read(ifinfmsg, link.get_by_name(name)) == of_link(IFLA_IFNAME=name, **skip)
    assert read(ifinfmsg, link.everything()) == of_link(**skip)
    assert read(ifinfmsg, link.delete_group(group)) == of_link(IFLA_GROUP=group)


@st.composite
def properties(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """What all links have, as we send it and as pyroute2 names it."""
    values: dict[str, Any] = {
        "name": draw(optional(names)),
        "mac": draw(optional(macs)),
        "mtu": draw(optional(u32s)),
        "txqlen": draw(optional(u32s)),
        "parent": draw(optional(indexes)),
        "master": draw(optional(st.integers(0, 0x7FFFFFFF))),
        "group": draw(optional(u32s)),
        "queues": draw(optional(st.integers(1, 4096))),
    }
    wanted = given_ones(
        IFLA_IFNAME=values["name"],
        IFLA_ADDRESS=values["mac"],
        IFLA_MTU=values["mtu"],
        IFLA_TXQLEN=values["txqlen"],
        IFLA_LINK=values["parent"],
        IFLA_MASTER=values["master"],
        IFLA_GROUP=values["group"],
        IFLA_NUM_TX_QUEUES=values["queues"],
        IFLA_NUM_RX_QUEUES=values["queues"],
    )
    return link.properties(**values), wanted


@builds(link.properties, link.change, link.create, link.change_port)
@STEADY
@given(index=indexes, common=properties(), up=st.sampled_from([None, True, False]))
def test_changes_of_links(index: int, common: tuple[bytes, dict[str, Any]], up: bool | None) -> None:
    sent, wanted = common
    flags = {"flags": int(bool(up)), "change": int(up is not None)}
    assert read(ifinfmsg, link.change(index, sent, up=up)) == of_link(index=index, **flags, **wanted)
    created = {"IFLA_LINKINFO": {"IFLA_INFO_KIND": "dummy"}}
    assert read(ifinfmsg, link.create("dummy", sent)) == of_link(**wanted, **created)


@builds(link.without_link_local)
def test_a_link_without_link_local_addresses() -> None:
    mode = {"AF_INET6": {"IFLA_INET6_ADDR_GEN_MODE": 1}}
    assert read(ifinfmsg, link.change(7, link.without_link_local())) == of_link(index=7, IFLA_AF_SPEC=mode)


@builds(link.veth_peer)
@STEADY
@given(near=properties(), far=properties(), netns=st.one_of(st.none(), st.integers(0, 0x7FFFFFFF)))
def test_both_ends_of_a_veth(
    near: tuple[bytes, dict[str, Any]], far: tuple[bytes, dict[str, Any]], netns: int | None
) -> None:
    payload = link.create("veth", near[0], link.veth_peer(far[0], netns))
    peer = of_peer(**far[1], **given_ones(IFLA_NET_NS_FD=netns))
    info = {"IFLA_INFO_KIND": "veth", "IFLA_INFO_DATA": {"VETH_INFO_PEER": peer}}
    assert read(ifinfmsg, payload) == of_link(**near[1], IFLA_LINKINFO=info)


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    with Namespace.new("the host") as host, Namespace.new("the attachment") as attachment:
        yield Scope(host, attachment)


# A kind's object, and pyroute2's names for what only this kind has. Its parent is `lo`, link 1.
KINDS: list[tuple[LinkObject, str, dict[str, Any] | None]] = [
    (Dummy("x"), "dummy", None),
    (Ifb("x"), "ifb", None),
    (WireguardDevice("x", "no-such-file"), "wireguard", None),
    (Bridge("x"), "bridge", None),
    (
        Bridge("x", vlan_filtering=True, default_pvid=77, stp=True, multicast_snooping=False, ageing=300),
        "bridge",
        {
            "IFLA_BR_VLAN_FILTERING": 1,
            "IFLA_BR_VLAN_DEFAULT_PVID": 77,
            "IFLA_BR_STP_STATE": 1,
            "IFLA_BR_MCAST_SNOOPING": 0,
            "IFLA_BR_AGEING_TIME": 30000,
        },
    ),
    (Vlan("x", "lo", 4094), "vlan", {"IFLA_VLAN_ID": 4094}),
    (Macvlan("x", "lo"), "macvlan", {"IFLA_MACVLAN_MODE": "bridge"}),
    (Macvlan("x", "lo", mode="private"), "macvlan", {"IFLA_MACVLAN_MODE": "private"}),
    (Macvlan("x", "lo", mode="vepa"), "macvlan", {"IFLA_MACVLAN_MODE": "vepa"}),
    (Macvlan("x", "lo", mode="passthru"), "macvlan", {"IFLA_MACVLAN_MODE": "passthru"}),
    (Vrf("x", 70000), "vrf", {"IFLA_VRF_TABLE": 70000}),
    (
        Vxlan("x", 0xFFFFFF, local="10.0.0.1", port=8472, learning=True, device="lo"),
        "vxlan",
        {
            "IFLA_VXLAN_ID": 0xFFFFFF,
            "IFLA_VXLAN_PORT": 8472,
            "IFLA_VXLAN_LEARNING": 1,
            "IFLA_VXLAN_LOCAL": "10.0.0.1",
            "IFLA_VXLAN_LINK": 1,
        },
    ),
    (
        Vxlan("x", 1, local="fd00::1"),
        "vxlan",
        {
            "IFLA_VXLAN_ID": 1,
            "IFLA_VXLAN_PORT": 4789,
            "IFLA_VXLAN_LEARNING": 0,
            "IFLA_VXLAN_LOCAL6": "fd00::1",
        },
    ),
]


@pytest.mark.parametrize(
    ("item", "kind", "data"), KINDS, ids=[f"{kind}-{number}" for number, (_, kind, _) in enumerate(KINDS)]
)
def test_the_creation_of_each_kind_of_link(
    scope: Scope, item: LinkObject, kind: str, data: dict[str, Any] | None
) -> None:
    info = {"IFLA_INFO_KIND": kind} | given_ones(IFLA_INFO_DATA=data)
    parent = given_ones(IFLA_LINK=1 if item.parent_name() else None)
    assert read(ifinfmsg, item.creation(scope)) == of_link(
        IFLA_IFNAME="x", IFLA_GROUP=GROUP, **parent, IFLA_LINKINFO=info
    )


def test_the_creation_of_a_veth_whose_peer_is_in_the_attachment(scope: Scope) -> None:
    item = Veth("x", "y", mac="02:00:00:00:00:01", peer_mac="02:00:00:00:00:02", mtu=1400, txqlen=7)
    common = {"IFLA_MTU": 1400, "IFLA_TXQLEN": 7, "IFLA_NUM_TX_QUEUES": 1, "IFLA_NUM_RX_QUEUES": 1}
    netns = scope.at("attachment").fileno()
    peer = of_peer(IFLA_IFNAME="y", IFLA_ADDRESS="02:00:00:00:00:02", IFLA_NET_NS_FD=netns, **common)
    info = {"IFLA_INFO_KIND": "veth", "IFLA_INFO_DATA": {"VETH_INFO_PEER": peer}}
    wanted = of_link(IFLA_IFNAME="x", IFLA_ADDRESS="02:00:00:00:00:01", IFLA_LINKINFO=info, **common)
    assert read(ifinfmsg, item.creation(scope)) == wanted | {"IFLA_GROUP": GROUP}


def test_every_kind_of_link_is_compared_with_the_oracle() -> None:
    """A TAP is not made by a message."""
    compared = {type(item) for item, _, _ in KINDS} | {Veth, Tap}
    assert set(_kinds(LinkObject)) - compared == set()


def _kinds(of: type[LinkObject]) -> Iterator[type[LinkObject]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


PORT_FIELDS = {
    "hairpin": "IFLA_BRPORT_MODE",
    "isolated": "IFLA_BRPORT_ISOLATED",
    "learning": "IFLA_BRPORT_LEARNING",
    "flood": "IFLA_BRPORT_UNICAST_FLOOD",
    "neighbour_suppression": "IFLA_BRPORT_NEIGH_SUPPRESS",
}


@given(values=st.fixed_dictionaries({}, optional=dict.fromkeys(PORT_FIELDS, st.booleans())))
@STEADY
def test_what_a_link_has_as_a_port(values: dict[str, bool]) -> None:
    table = {entry.field: entry for entry in BridgePort.table}
    assert set(table) == set(PORT_FIELDS)
    data = b"".join(table[name].form.build(table[name].number, value) for name, value in values.items())
    wanted = {PORT_FIELDS[name]: int(value) for name, value in values.items()}
    assert read(ifinfmsg, link.change_port(7, "bridge", data)) == of_link(
        index=7, IFLA_LINKINFO={"IFLA_INFO_SLAVE_KIND": "bridge", "IFLA_INFO_SLAVE_DATA": wanted}
    )


@builds(bridge_vlan.build, bridge_vlan.everything)
@STEADY
@given(
    index=indexes, vlan=st.integers(1, 4094), pvid=st.booleans(), untagged=st.booleans(), itself=st.booleans()
)
def test_vlans_of_a_bridge(index: int, vlan: int, pvid: bool, untagged: bool, itself: bool) -> None:
    payload = bridge_vlan.build(index, bridge_vlan.Membership(vlan, pvid, untagged), itself=itself)
    member = {"vid": vlan, "flags": 2 * pvid + 4 * untagged}
    spec = given_ones(IFLA_BRIDGE_VLAN_FLAGS=2 if itself else None, IFLA_BRIDGE_VLAN_INFO=member)
    assert read(ifinfmsg, payload) == of_link(family=7, index=index, IFLA_AF_SPEC=spec)
    assert read(ifinfmsg, bridge_vlan.everything()) == of_link(family=7, IFLA_EXT_MASK=2)


@builds(address.build, address.of_link)
@STEADY
@given(data=st.data(), index=indexes, family=families, prefix=st.integers(0, 128), flags=u32s)
def test_addresses(data: st.DataObject, index: int, family: tuple[int, Any], prefix: int, flags: int) -> None:
    number, strategy = family
    own, peer = data.draw(strategy), data.draw(st.one_of(st.none(), strategy))
    head = {"family": number, "prefixlen": prefix, "flags": 0, "scope": 0, "index": index}
    wanted = given_ones(
        IFA_LOCAL=shown(own), IFA_ADDRESS=shown(own if peer is None else peer), IFA_FLAGS=flags or None
    )
    payload = address.build(index, number, own, prefix, flags=flags, peer=peer)
    assert read(ifaddrmsg, payload) == head | wanted
    assert read(ifaddrmsg, address.of_link(index, number)) == head | {"prefixlen": 0}


ROUTE_HEAD = {"src_len": 0, "tos": 0}


def gateway_of(gateway: bytes | None, destination: bytes) -> dict[str, Any]:
    if gateway is None:
        return {}
    if len(gateway) == len(destination):
        return {"RTA_GATEWAY": shown(gateway)}
    return {"RTA_VIA": {"family": socket.AF_INET6, "addr": shown(gateway)}}


def hops_of(hops: list[route.RouteHop], destination: bytes) -> dict[str, Any]:
    if not hops:
        return {}
    if len(hops) == 1:
        return gateway_of(hops[0].gateway, destination) | given_ones(RTA_OIF=hops[0].index)
    listed = [
        {
            "flags": 4 if hop.onlink else 0,
            "hops": hop.weight - 1,
            "oif": hop.index or 0,
            **gateway_of(hop.gateway, destination),
        }
        for hop in hops
    ]
    return {"RTA_MULTIPATH": listed}


@builds(route.build, route.of_table, route.matching, route.everything)
@STEADY
@given(data=st.data(), family=families, table=st.one_of(u8s, u32s))
def test_routes(data: st.DataObject, family: tuple[int, Any], table: int) -> None:
    number, packed = family
    destination = data.draw(packed)
    prefix = data.draw(st.integers(0, len(destination) * 8))
    gateways = st.one_of(packed, ipv6) if number == socket.AF_INET else packed
    hop = st.builds(
        route.RouteHop,
        st.one_of(st.none(), indexes),
        st.one_of(st.none(), gateways),
        st.integers(1, 256),
        st.booleans(),
    )
    hops = data.draw(st.lists(hop, max_size=4))
    kind, scope, protocol = data.draw(st.tuples(u8s, u8s, u8s))
    priority, source = data.draw(u32s), data.draw(optional(packed))
    mtu, advmss = data.draw(optional(st.integers(1, 65535))), data.draw(optional(st.integers(1, 65535)))
    payload = route.build(
        number,
        destination,
        prefix,
        hops=hops,
        table=table,
        kind=kind,
        scope=scope,
        protocol=protocol,
        priority=priority,
        source=source,
        mtu=mtu,
        advmss=advmss,
    )
    metrics = given_ones(RTAX_MTU=mtu, RTAX_ADVMSS=advmss)
    narrow = table if table < 256 else 0
    assert read(rtmsg, payload) == (
        ROUTE_HEAD
        | {"family": number, "dst_len": prefix, "table": narrow, "proto": protocol, "scope": scope}
        | {"type": kind, "flags": 4 if len(hops) == 1 and hops[0].onlink else 0, "RTA_TABLE": table}
        | given_ones(
            RTA_DST=shown(destination) if prefix else None,
            RTA_PRIORITY=priority or None,
            RTA_PREFSRC=None if source is None else shown(source),
            RTA_METRICS=metrics or None,
        )
        | hops_of(hops, destination)
    )
    question = ROUTE_HEAD | {"family": number, "dst_len": 0, "proto": 0, "scope": 0, "type": 0, "flags": 0}
    index = data.draw(optional(indexes))
    asked = question | {"table": narrow, "RTA_TABLE": table} | given_ones(RTA_OIF=index)
    assert read(rtmsg, route.of_table(number, table, index)) == asked
    assert read(rtmsg, route.everything(number)) == question | {"table": 0}
    flags = 0x3000 if number == socket.AF_INET else 0x2000  # the table's own entry; of which table it is
    whole = {"table": 0, "dst_len": len(destination) * 8, "flags": flags, "RTA_DST": shown(destination)}
    wanted = question | whole | given_ones(RTA_OIF=index)
    assert read(rtmsg, route.matching(number, destination, index)) == wanted


@st.composite
def rules(draw: st.DrawFn) -> rule.RuleRecord:
    family, packed = draw(families)
    bits = 32 if family == socket.AF_INET else 128
    networks = st.one_of(st.none(), st.tuples(packed, st.integers(0, bits)))
    return rule.RuleRecord(
        family=family,
        priority=draw(u32s),
        action=draw(u8s),
        table=draw(st.one_of(u8s, u32s)),
        invert=draw(st.booleans()),
        source=draw(networks),
        destination=draw(networks),
        iif=draw(optional(names)),
        oif=draw(optional(names)),
        mark=draw(optional(u32s)),
        mask=draw(optional(u32s)),
        l3mdev=draw(st.booleans()),
        suppress=draw(optional(st.integers(0, 128))),
        protocol=draw(optional(u8s)),
    )


@builds(rule.build, rule.everything)
@STEADY
@given(wanted=rules())
def test_rules(wanted: rule.RuleRecord) -> None:
    source, destination = wanted.source, wanted.destination
    head = {"family": wanted.family, "tos": 0, "res1": 0, "res2": 0}
    assert read(fibmsg, rule.build(wanted)) == (
        head
        | {"dst_len": destination[1] if destination else 0, "src_len": source[1] if source else 0}
        | {"table": wanted.table if wanted.table < 256 else 0}
        | {"action": wanted.action, "flags": 2 if wanted.invert else 0}
        | given_ones(
            FRA_PRIORITY=wanted.priority,
            FRA_TABLE=wanted.table or None,
            FRA_SRC=shown(source[0]) if source else None,
            FRA_DST=shown(destination[0]) if destination else None,
            FRA_IIFNAME=wanted.iif,
            FRA_OIFNAME=wanted.oif,
            FRA_FWMARK=wanted.mark,
            FRA_FWMASK=wanted.mask,
            FRA_L3MDEV=1 if wanted.l3mdev else None,
            FRA_SUPPRESS_PREFIXLEN=wanted.suppress,
            FRA_PROTOCOL=wanted.protocol,
        )
    )
    question = head | {"dst_len": 0, "src_len": 0, "table": 0, "action": 0, "flags": 0}
    assert read(fibmsg, rule.everything(wanted.family)) == question


@builds(neighbour.build, neighbour.everything, neighbour.of_link, neighbour.proxies, neighbour.forwarding_of)
@STEADY
@given(data=st.data(), family=families, index=indexes, state=u16s, flags=u8s)
def test_neighbours(data: st.DataObject, family: tuple[int, Any], index: int, state: int, flags: int) -> None:
    number, packed = family
    far, mac, vlan = (
        data.draw(optional(packed)),
        data.draw(optional(macs)),
        data.draw(optional(st.integers(1, 4094))),
    )
    for of in (number, neighbour.AF_BRIDGE):
        payload = neighbour.build(of, index, address=far, mac=mac, state=state, flags=flags, vlan=vlan)
        assert read(ndmsg, payload) == {
            "family": of,
            "ifindex": index,
            "state": state,
            "flags": flags,
            "ndm_type": 0,
        } | given_ones(NDA_DST=None if far is None else shown(far), NDA_LLADDR=mac, NDA_VLAN=vlan)
    question = {"family": number, "ifindex": 0, "state": 0, "flags": 0, "ndm_type": 0}
    assert read(ndmsg, neighbour.everything(number)) == question
    assert read(ndmsg, neighbour.of_link(number, index)) == question | {"NDA_IFINDEX": index}
    assert read(ndmsg, neighbour.proxies(number)) == question | {"flags": 8}
    assert read(ndmsg, neighbour.forwarding_of(index)) == question | {"family": 7, "ifindex": index}


def of_traffic(**fields: Any) -> dict[str, Any]:
    empty = {"family": 0, "pad1": 0, "pad2": 0, "index": 0, "handle": 0, "parent": 0, "info": 0}
    return empty | fields


@builds(qdisc.ingress, qdisc.at_root, qdisc.of_link)
@STEADY
@given(index=indexes, kind=st.sampled_from(["ingress", "clsact"]))
def test_hooks(index: int, kind: str) -> None:
    hook = of_traffic(index=index, handle=0xFFFF0000, parent=0xFFFFFFF1, TCA_KIND=kind)
    assert read(tcmsg, qdisc.ingress(index, kind)) == hook
    assert read(tcmsg, qdisc.at_root(index)) == of_traffic(index=index, parent=0xFFFFFFFF)
    assert read(tcmsg, qdisc.of_link(index)) == of_traffic(index=index)


@builds(qdisc.token_bucket)
@STEADY
@given(
    index=indexes, rate=st.integers(1, 1 << 40), burst=st.integers(1, 1 << 31), limit=st.integers(1, 1 << 31)
)
def test_token_buckets(index: int, rate: int, burst: int, limit: int) -> None:
    """pyroute2 0.9 knows the parameters, but not the 64-bit rate nor the burst in bytes: see tc below."""
    payload = qdisc.token_bucket(index, 0x6E6C0000, qdisc.TokenBucket(rate, burst, limit))
    found = read(tcmsg, payload)
    options = found.pop("TCA_OPTIONS")
    assert found == of_traffic(index=index, handle=0x6E6C0000, parent=0xFFFFFFFF, TCA_KIND="tbf")
    parameters = options["TCA_TBF_PARMS"]
    assert (parameters["rate"], parameters["limit"]) == (min(rate, 0xFFFFFFFF), limit)
    assert "TCA_TBF_RTAB" in options


@builds(filters.redirect, filters.exactly, filters.of_link)
@STEADY
@given(index=indexes, target=indexes, priority=st.integers(1, 65535), handle=u32s)
def test_filters(index: int, target: int, priority: int, handle: int) -> None:
    # struct tc_mirred: an action that steals the packet (4) and sends it out of a link (1).
    parameters = {"index": 0, "capab": 0, "refcnt": 0, "bindcnt": 0, "action": 4, "eaction": 1}
    action = {
        "TCA_ACT_KIND": "mirred",
        "TCA_ACT_OPTIONS": {"TCA_MIRRED_PARMS": {**parameters, "ifindex": target}},
    }
    head = of_traffic(index=index, parent=0xFFFFFFF2, info=priority << 16 | socket.htons(3))
    key = {"key_mask": 0, "key_val": 0, "key_off": 0, "key_offmask": 0}
    selector = {"flags": 1, "offshift": 0, "nkeys": 1, "offmask": 0, "off": 0, "offoff": 0, "hoff": 0}
    assert read(tcmsg, filters.redirect(index, target, kind="u32", priority=priority)) == head | {
        "TCA_KIND": "u32",
        "TCA_OPTIONS": {
            "TCA_U32_SEL": {**selector, "hmask": 0, "keys": [key]},
            "TCA_U32_ACT": {"TCA_ACT_PRIO_1": action},
        },
    }
    assert read(tcmsg, filters.redirect(index, target, kind="matchall", priority=priority)) == head | {
        "TCA_KIND": "matchall",
        "TCA_OPTIONS": {"TCA_MATCHALL_ACT": {"TCA_ACT_PRIO_1": action}},
    }
    found = filters.Filter(index, 0xFFFFFFF2, priority, handle, "u32", True, target)
    assert read(tcmsg, filters.exactly(index, found)) == head | {"handle": handle, "TCA_KIND": "u32"}
    assert read(tcmsg, filters.of_link(index)) == of_traffic(index=index, parent=0xFFFFFFF2)
    egress = filters.of_link(index, filters.EGRESS_PARENT)
    assert read(tcmsg, egress) == of_traffic(index=index, parent=0xFFFFFFF3)


@builds(nsid.of, nsid.assign, nsid.everything)
@STEADY
@given(netns=st.integers(0, 0x7FFFFFFF), number=st.integers(-1, 0x7FFFFFFF))
def test_namespace_ids(netns: int, number: int) -> None:
    head = {"rtgen_family": 0}
    assert read(nsidmsg, nsid.of(netns)) == head | {"NETNSA_FD": netns}
    assert read(nsidmsg, nsid.assign(netns, number)) == head | {
        "NETNSA_FD": netns,
        "NETNSA_NSID": number & 0xFFFFFFFF,
    }
    assert read(nsidmsg, nsid.everything()) == head


# --- what the kernel says ----------------------------------------------------------------------------

DECODED: set[str] = set()

FULL = """
link set lo up
link add veth0 mtu 1400 txqlen 77 address 02:00:00:00:00:01 type veth peer name veth1
link add veth2 type veth peer name veth3
link add br0 type bridge stp_state 1 ageing_time 20000 mcast_snooping 0
link add br1 type bridge
link add ifb7 type ifb
link add vx4 type vxlan id 7 local 127.0.0.1 dstport 8472 nolearning dev veth2
link add vx6 type vxlan id 8 local ::1 dstport 4789
link add mv0 link veth2 address 02:00:00:00:00:09 type macvlan mode vepa
tuntap add tap0 mode tap user 1000 group 1001 multi_queue
link set veth0 master br0
link set veth1 group 42
link set tap0 master br0
link set vx4 master br0
link set veth0 up
link set veth1 up
link set veth2 up
link set veth3 up
link set br0 up
link set br1 up
link set vx4 up
addr add 10.0.0.1/24 dev br0
addr add 10.0.0.2/24 dev br0 noprefixroute
addr add 10.1.0.1 peer 10.1.0.2/32 dev veth2
addr add fd00::1/64 dev br0 nodad
addr add fd01::1 peer fd01::2/128 dev veth2 nodad
route add 10.2.0.0/16 via 10.0.0.9 metric 7 mtu 1300 advmss 900 src 10.0.0.2
route add 10.3.0.0/16 via 192.0.2.1 dev br1 onlink table 1000 proto 78
route add 10.4.0.0/16 nexthop via 10.0.0.8 weight 3 nexthop via 192.0.2.7 dev br1 onlink weight 256
route add 10.5.0.0/16 via inet6 fd00::9 dev br0
route add blackhole 10.6.0.0/16 metric 9
route add unreachable 10.7.0.0/16
route add prohibit 10.8.0.0/16 table 4000000000
route add local 10.9.0.0/16 dev br0
route add default via 10.0.0.3
route add fd02::/64 via fd00::9 metric 7 mtu 1300
route add fd03::/64 nexthop via fd00::8 weight 3 nexthop via fd00::7 dev br0 weight 200
route add fd04::/64 via fd77::1 dev br0 onlink table 1000
route add blackhole fd05::/64
route add default via fd00::3
rule add pref 100 from 10.0.0.0/8 to 10.1.0.0/16 iif veth0 oif veth1 fwmark 5/0xff lookup 1000
rule add pref 101 not from 10.0.0.0/8 lookup 5 suppress_prefixlength 8 protocol 78
rule add pref 102 blackhole
rule add pref 103 fwmark 7 prohibit
neigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev br0 nud permanent
neigh add fd00::77 lladdr 02:00:00:00:00:77 dev br0 nud permanent
neigh add 10.0.0.78 lladdr 02:00:00:00:00:78 dev br0 nud stale
neigh add proxy 10.0.0.79 dev br0
neigh add proxy fd00::79 dev br0
nexthop add id 7 via 10.1.0.9 dev veth2 onlink
nexthop add id 8 via fe80::9 dev veth2
nexthop add id 9 dev veth2
nexthop add id 10 group 7
"""
FULL6 = """
rule add pref 100 from fd00::/8 to fd01::/64 iif veth0 fwmark 5/0xff lookup 1000
rule add pref 101 lookup 70000 suppress_prefixlength 0
"""
FULL_BRIDGE = """
fdb add 02:00:00:00:00:99 dev veth0 master static
fdb add 02:00:00:00:00:98 dev vx4 dst 127.0.0.9 self permanent
fdb append 00:00:00:00:00:00 dev vx4 dst 127.0.0.8 self permanent
fdb append 00:00:00:00:00:00 dev vx6 dst fd00::8 self permanent
link set dev veth0 hairpin on isolated on learning off flood off
"""
FULL_TC = """
qdisc add dev veth2 root handle 7: tbf rate 1mbit burst 32kb limit 100kb
qdisc add dev veth3 root tbf rate 80gbit burst 100mb limit 200mb
qdisc add dev veth0 ingress
qdisc add dev veth1 clsact
filter add dev veth0 ingress pref 9 protocol all u32 match u32 0 0 action mirred egress redirect dev ifb7
filter add dev veth1 ingress pref 8 protocol all u32 match u32 0 0 action mirred egress mirror dev ifb7
filter add dev veth1 ingress pref 7 protocol ip u32 match ip dst 10.0.0.0/8 flowid 1:1
"""


@pytest.fixture(scope="module")
def full() -> Iterator[Namespace]:
    """A namespace with one of everything that this kernel has, made by iproute2."""
    with Namespace.new() as made:
        with made.entered():
            for command, lines in (
                (["ip"], FULL),
                (["ip", "-6"], FULL6),
                (["bridge"], FULL_BRIDGE),
                (["tc"], FULL_TC),
            ):
                subprocess.run([*command, "-batch", "-"], input=lines.strip(), text=True, check=True)
        yield made


def dumped(
    namespace: Namespace, kind: int, question: bytes, decode: Callable[[bytes], Any], oracle: Any
) -> list[tuple[Any, dict[str, Any]]]:
    """Each answer, as we read it and as pyroute2 does."""
    answers = namespace.route.dump(kind, question)
    return [(decode(payload), read(oracle, payload)) for payload in answers]


def decodes(*decoders: Callable[..., Any]) -> Callable[[Test], Test]:
    """Says which decoders a test compares with the oracle."""
    DECODED.update(f"{decoder.__module__}.{decoder.__name__}" for decoder in decoders)
    return lambda test: test


@decodes(link.decode_entry)
def test_entries_of_links_that_the_kernel_lists(full: Namespace) -> None:
    for ours, theirs in dumped(full, link.GET, link.everything(), link.decode_entry, ifinfmsg):
        up = theirs["state"] == "up"
        assert ours == link.LinkEntry(theirs["index"], theirs["IFLA_IFNAME"], theirs["IFLA_GROUP"], up)


def packed(text: str | None) -> bytes | None:
    return None if text is None else ipaddress.ip_address(text).packed


@decodes(link.decode)
def test_links_that_the_kernel_lists(full: Namespace) -> None:
    listed = dumped(full, link.GET, link.everything(), link.decode, ifinfmsg)
    assert {ours.kind for ours, _ in listed} >= {"", "veth", "bridge", "ifb", "vxlan", "macvlan", "tun"}
    for ours, theirs in listed:
        info = theirs.get("IFLA_LINKINFO", {})
        netnsid = theirs.get("IFLA_LINK_NETNSID")
        assert ours == link.Link(
            index=theirs["index"],
            name=theirs["IFLA_IFNAME"],
            kind=info.get("IFLA_INFO_KIND", ""),
            up=theirs["state"] == "up",
            mac=theirs["IFLA_ADDRESS"],
            mtu=theirs["IFLA_MTU"],
            txqlen=theirs["IFLA_TXQLEN"],
            parent=theirs.get("IFLA_LINK"),
            parent_netnsid=netnsid,
            master=theirs.get("IFLA_MASTER"),
            group=theirs["IFLA_GROUP"],
            data=ours.data,
            port_kind=info.get("IFLA_INFO_SLAVE_KIND"),
            port=ours.port,
            hardware=theirs["ifi_type"],
            resolves=not theirs["flags"] & 0x88,
        ), ours.name
        assert (ours.data is None) == ("IFLA_INFO_DATA" not in info), ours.name
        assert (ours.port is None) == ("IFLA_INFO_SLAVE_DATA" not in info), ours.name


# For each kind of link, pyroute2's name for every field that we read of it.
DATA_NAMES: dict[type[LinkObject], dict[str, str]] = {
    Bridge: {
        "vlan_filtering": "IFLA_BR_VLAN_FILTERING",
        "default_pvid": "IFLA_BR_VLAN_DEFAULT_PVID",
        "stp": "IFLA_BR_STP_STATE",
        "multicast_snooping": "IFLA_BR_MCAST_SNOOPING",
        "ageing": "IFLA_BR_AGEING_TIME",
    },
    Vxlan: {"vni": "IFLA_VXLAN_ID", "port": "IFLA_VXLAN_PORT", "learning": "IFLA_VXLAN_LEARNING"},
    Macvlan: {"mode": "IFLA_MACVLAN_MODE"},
}


def compare_data(table: tuple[Data, ...], named: dict[str, str], ours: Any, theirs: dict[str, Any]) -> int:
    compared = 0
    for entry in table:
        name = named[entry.field]
        # A kernel without VLAN filtering does not say whether it filters.
        if name in theirs:
            wanted = theirs[name] // 100 if entry.field == "ageing" else theirs[name]
            assert entry.form.read(ours, entry.number) == wanted, name
            compared += 1
    return compared


@pytest.mark.parametrize("kind", DATA_NAMES, ids=lambda kind: str(kind.kind))
def test_what_a_kind_of_link_has_of_its_own(full: Namespace, kind: type[LinkObject]) -> None:
    compared = 0
    for ours, theirs in dumped(full, link.GET, link.everything(), link.decode, ifinfmsg):
        if ours.kind == kind.kind:
            data = theirs["IFLA_LINKINFO"]["IFLA_INFO_DATA"]
            compared += compare_data(kind.table, DATA_NAMES[kind], ours.data, data)
    assert compared > 0


def test_what_ports_of_a_bridge_have(full: Namespace) -> None:
    compared = 0
    for ours, theirs in dumped(full, link.GET, link.everything(), link.decode, ifinfmsg):
        if ours.port_kind == "bridge":
            data = theirs["IFLA_LINKINFO"]["IFLA_INFO_SLAVE_DATA"]
            compared += compare_data(BridgePort.table, PORT_FIELDS, ours.port, data)
    assert compared >= 2 * len(PORT_FIELDS)


@decodes(address.decode)
def test_addresses_that_the_kernel_lists(full: Namespace) -> None:
    question = address.of_link(0)
    listed = dumped(full, address.GET, question, address.decode, ifaddrmsg)
    assert {"10.0.0.2", "10.1.0.1", "fd00::1", "fd01::1"} <= {ours.address for ours, _ in listed}
    for ours, theirs in listed:
        near, far = theirs.get("IFA_LOCAL"), theirs.get("IFA_ADDRESS")
        assert ours == address.AddressRecord(
            index=theirs["index"],
            address=str(near or far),
            prefix=theirs["prefixlen"],
            peer=far if near and near != far else None,
            scope=theirs["scope"],
            flags=theirs["IFA_FLAGS"],
            protocol=theirs.get("IFA_PROTO"),
        )


def their_hops(theirs: dict[str, Any]) -> tuple[route.RouteHop, ...]:
    def gateway(found: dict[str, Any]) -> bytes | None:
        via = found.get("RTA_VIA")
        return packed(found.get("RTA_GATEWAY") if via is None else via["addr"])

    if "RTA_MULTIPATH" in theirs:
        return tuple(
            route.RouteHop(hop["oif"], gateway(hop), hop["hops"] + 1, bool(hop["flags"] & 4))
            for hop in theirs["RTA_MULTIPATH"]
        )
    if not {"RTA_OIF", "RTA_GATEWAY", "RTA_VIA"} & set(theirs):
        return ()
    return (route.RouteHop(theirs.get("RTA_OIF"), gateway(theirs), 1, bool(theirs["flags"] & 4)),)


@decodes(route.decode)
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["ipv4", "ipv6"])
def test_routes_that_the_kernel_lists(full: Namespace, family: int) -> None:
    listed = dumped(full, route.GET, route.everything(family), route.decode, rtmsg)
    assert len(listed) > 10
    assert any(len(ours.hops) > 1 for ours, _ in listed)
    assert any(ours.table > 255 for ours, _ in listed)
    assert any(ours.mtu == 1300 for ours, _ in listed)
    nothing = bytes(4 if family == socket.AF_INET else 16)
    for ours, theirs in listed:
        metrics = theirs.get("RTA_METRICS", {})
        assert ours == route.RouteRecord(
            family=theirs["family"],
            prefix=theirs["dst_len"],
            destination=packed(theirs.get("RTA_DST")) or nothing,
            tos=theirs["tos"],
            table=theirs["RTA_TABLE"],
            kind=theirs["type"],
            scope=theirs["scope"],
            protocol=theirs["proto"],
            flags=theirs["flags"],
            priority=theirs.get("RTA_PRIORITY", 0),
            source=packed(theirs.get("RTA_PREFSRC")),
            mtu=metrics.get("RTAX_MTU"),
            advmss=metrics.get("RTAX_ADVMSS"),
            hops=their_hops(theirs),
        )


@builds(route.every_next_hop)
@decodes(route.decode_next_hop)
def test_next_hops_that_the_kernel_lists(full: Namespace) -> None:
    """pyroute2 has no messages of next hops. iproute2 lists them, too."""
    answers = full.route.dump(route.GET_NEXT_HOP, route.every_next_hop())
    with full.entered():
        words = ["ip", "-json", "nexthop", "list"]
        listed = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert len(listed) == 4
    assert [route.decode_next_hop(it) for it in answers] == [
        route.NextHop(full.route.index(it["dev"]) if "dev" in it else None, packed(it.get("gateway")))
        for it in listed
    ]


@decodes(rule.decode)
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["ipv4", "ipv6"])
def test_rules_that_the_kernel_lists(full: Namespace, family: int) -> None:
    listed = dumped(full, rule.GET, rule.everything(family), rule.decode, fibmsg)
    assert {100, 101, 32766} <= {ours.priority for ours, _ in listed}
    for ours, theirs in listed:
        source, destination = packed(theirs.get("FRA_SRC")), packed(theirs.get("FRA_DST"))
        suppress = theirs.get("FRA_SUPPRESS_PREFIXLEN")
        assert ours == rule.RuleRecord(
            family=theirs["family"],
            priority=theirs.get("FRA_PRIORITY", 0),
            action=theirs["action"],
            table=theirs["FRA_TABLE"],
            invert=bool(theirs["flags"] & 2),
            source=None if source is None else (source, theirs["src_len"]),
            destination=None if destination is None else (destination, theirs["dst_len"]),
            iif=theirs.get("FRA_IIFNAME"),
            oif=theirs.get("FRA_OIFNAME"),
            mark=theirs.get("FRA_FWMARK"),
            mask=theirs.get("FRA_FWMASK"),
            l3mdev=bool(theirs.get("FRA_L3MDEV")),
            suppress=None if suppress == 0xFFFFFFFF else suppress,
            protocol=theirs["FRA_PROTOCOL"],
        )


NEIGHBOURS = {
    "ipv4": (neighbour.everything(socket.AF_INET), "02:00:00:00:00:77"),
    "ipv6": (neighbour.everything(socket.AF_INET6), "02:00:00:00:00:77"),
    "proxies-ipv4": (neighbour.proxies(socket.AF_INET), None),
    "proxies-ipv6": (neighbour.proxies(socket.AF_INET6), None),
    "forwarding": (neighbour.everything(neighbour.AF_BRIDGE), "02:00:00:00:00:98"),
}


@decodes(neighbour.decode)
@pytest.mark.parametrize(("question", "mac"), NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_neighbours_that_the_kernel_lists(full: Namespace, question: bytes, mac: str | None) -> None:
    listed = dumped(full, neighbour.GET, question, neighbour.decode, ndmsg)
    assert mac in {ours.mac for ours, _ in listed}
    for ours, theirs in listed:
        assert ours == neighbour.NeighbourRecord(
            family=theirs["family"],
            index=theirs["ifindex"],
            state=theirs["state"],
            flags=theirs["flags"],
            address=packed(theirs.get("NDA_DST")),
            mac=theirs.get("NDA_LLADDR"),
            vlan=theirs.get("NDA_VLAN"),
            master=theirs.get("NDA_MASTER"),
        )


@decodes(qdisc.decode, qdisc.decode_token_bucket)
def test_qdiscs_that_the_kernel_lists(full: Namespace) -> None:
    listed = dumped(full, qdisc.GET, qdisc.of_link(0), qdisc.decode, tcmsg)
    assert {"tbf", "ingress", "clsact"} <= {ours.kind for ours, _ in listed}
    for ours, theirs in listed:
        seen = (ours.index, ours.handle, ours.parent, ours.kind)
        assert seen == (theirs["index"], theirs["handle"], theirs["parent"], theirs["TCA_KIND"])
        if ours.kind == "tbf":
            parameters = theirs["TCA_OPTIONS"]["TCA_TBF_PARMS"]
            bucket = qdisc.decode_token_bucket(ours.options)
            assert (min(bucket.rate, 0xFFFFFFFF), bucket.limit) == (parameters["rate"], parameters["limit"])
            # In ticks of 64 ns.
            assert abs(parameters["buffer"] * 64 - bucket.burst * 1_000_000_000 // bucket.rate) <= 64


def test_a_token_bucket_is_read_as_tc_set_it(full: Namespace) -> None:
    """The 64-bit rate, which pyroute2 does not know, against tc."""
    found = {
        name: qdisc.decode_token_bucket(one.options)
        for name in ("veth2", "veth3")
        for one, _ in dumped(full, qdisc.GET, qdisc.of_link(full.route.index(name)), qdisc.decode, tcmsg)
        if one.kind == "tbf" and one.index == full.route.index(name)
    }
    assert found["veth2"] == qdisc.TokenBucket(125_000, 32 * 1024, 100 * 1024)
    fast = found["veth3"]
    assert (fast.rate, fast.limit) == (10_000_000_000, 200 * 1024 * 1024)
    assert abs(fast.burst - 100 * 1024 * 1024) <= 2 * 640


@decodes(filters.decode)
def test_filters_that_the_kernel_lists(full: Namespace) -> None:
    redirects: dict[int, int | None] = {}
    for name in ("veth0", "veth1"):
        question = filters.of_link(full.route.index(name))
        for ours, theirs in dumped(full, filters.GET, question, filters.decode, tcmsg):
            seen = (ours.index, ours.parent, ours.priority, ours.handle, ours.kind)
            assert seen == (
                theirs["index"],
                theirs["parent"],
                theirs["info"] >> 16,
                theirs["handle"],
                theirs["TCA_KIND"],
            )
            options = theirs.get("TCA_OPTIONS", {})
            if "TCA_U32_SEL" in options:
                keys = options["TCA_U32_SEL"]["keys"]
                all_protocols = theirs["info"] & 0xFFFF == socket.htons(3)
                assert ours.everything == (all_protocols and not any(key["key_mask"] for key in keys))
                redirects[ours.priority] = ours.redirect
                assert ours.redirect == their_redirect(options.get("TCA_U32_ACT", {}))
    assert redirects == {9: full.route.index("ifb7"), 8: None, 7: None}


def their_redirect(actions: dict[str, Any]) -> int | None:
    if not actions:
        return None
    parameters = actions["TCA_ACT_PRIO_1"]["TCA_ACT_OPTIONS"]["TCA_MIRRED_PARMS"]
    redirects = (parameters["action"], parameters["eaction"]) == (4, 1)
    return int(parameters["ifindex"]) if redirects else None


@decodes(nsid.decode)
def test_namespace_ids_that_the_kernel_lists(full: Namespace) -> None:
    with Namespace.new() as other:
        full.route.change(nsid.NEW, 0, nsid.assign(other.fileno(), 42))
        listed = dumped(full, nsid.GET, nsid.everything(), nsid.decode, nsidmsg)
        assert [(ours, theirs["NETNSA_NSID"]) for ours, theirs in listed] == [(42, 42)]


@decodes(bridge_vlan.decode)
@given(members=st.lists(st.tuples(st.integers(1, 4094), st.booleans(), st.booleans()), max_size=5))
@STEADY
def test_vlans_that_pyroute2_would_list(members: list[tuple[int, bool, bool]]) -> None:
    """Not every kernel has VLANs on bridges, so pyroute2 writes what the kernel would."""
    message = ifinfmsg()
    message["family"], message["index"] = 7, 3
    infos = [
        ("IFLA_BRIDGE_VLAN_INFO", {"vid": vlan, "flags": 2 * pvid + 4 * untagged})
        for vlan, pvid, untagged in members
    ]
    message["attrs"] = [("IFLA_AF_SPEC", {"attrs": infos})]
    message.encode()
    wanted = [bridge_vlan.Membership(*member) for member in members]
    assert bridge_vlan.decode(bytes(message.data[16:])) == (3, wanted)
