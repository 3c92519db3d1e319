from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from netloom.kernel import AnyObject, InvalidObject, InvalidPlan, Plan

from . import conflicts, full_rows, row, rows

pytestmark = pytest.mark.unit

KINDS: dict[str, type[Any]] = {kind.__struct_config__.tag: kind for kind in get_args(AnyObject)}
KEY = full_rows.PUBLIC
LINK = ("", ".", "..", "a/b", "a b", "a:b", "a%d", "a\0b", "a" * 16, "ü" * 8, "a\n")
MACS = (
    "",
    "02:00:00:00:00",
    "02:00:00:00:00:0G",
    "02:00:00:00:00:AA",
    "03:00:00:00:00:01",
    "02-00-00-00-00-01",
)
NOT_CIDR = (
    "",
    "10.0.0.0.1/8",
    "10.0.0.1/33",
    "10.0.0.1/-1",
    "10.0.0.1/8/8",
    "10.0.0.1/٣",
    "10.0.0.1/00009999",
    f"10.0.0.1/{'0' * 5000}",
    "fd00::/129",
    "x/8",
)
NETWORKS = (*NOT_CIDR, "10.0.0.1/8", "fd00::1/64")
PATHS = ("", "a\0b", "a" * 4096)
IPS = ("", "10.0.0.256", "10.0.0", "fd00:::1", "10.0.0.1/24", "nowhere", "fe80::1%lo", "10.0.0.1\0")

# An object that is fine, and values that each of its fields cannot have.
FIELDS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "address": (
        {"link": "l", "address": "10.0.0.1/24"},
        {"link": LINK, "address": (*NOT_CIDR, "0.0.0.0/8", "::/64", "::")},
    ),
    "bridge": (
        {"name": "l"},
        {
            "name": LINK,
            "mac": MACS,
            "mtu": (-1, 0, 67, 65537),
            "txqlen": (-1, 1 << 32),
            "default_pvid": (-1, 4095),
            "ageing": (-1, 1 << 31),
        },
    ),
    "bridge-port": ({"link": "l", "bridge": "b"}, {"link": LINK, "bridge": LINK}),
    "dummy": ({"name": "l"}, {"name": LINK, "mac": MACS}),
    "forwarding": (
        {"link": "l", "mac": row.MAC},
        {"link": LINK, "mac": (*MACS, "00:00:00:00:00:00"), "via": IPS, "vlan": (0, 4095)},
    ),
    "ifb": ({"name": "l"}, {"name": LINK, "mac": MACS}),
    "ingress": ({"link": "l"}, {"link": LINK}),
    "macvlan": ({"name": "l", "parent": "p"}, {"name": LINK, "parent": LINK, "mac": MACS}),
    "neighbour": ({"link": "l", "address": "10.0.0.1"}, {"link": LINK, "address": IPS, "mac": MACS}),
    "nft-chain": (
        {"family": "inet", "table": "t", "name": "c", "rules": ["accept"]},
        {
            "table": ("", "a b", "a{", "1a", "a;b", "a\n", "a" * 129),
            "name": ("", "a b", "@c", "a}", "a" * 129),
            "rules": (
                [""], [" "], ["accept; drop"], ["accept\ndrop"], ["accept\r"], ["a\0b"], ["accept \\"],
                ["accept # why"], ["tcp dport { 1, 2 } drop"], ["}"], ["}\ntable ip t {"], ["{"],
                ['iifname "a'], ['comment "a\nb"'], ['include "/etc/passwd"'], ["define x = 1"], ["drop $x"],
                ["ip saddr @c drop"], ["ip saddr @others drop"], ["ip saddr @th drop"], ["ip saddr @ c drop"],
                ["goto c"],
            ),
            "members": (
                "ipv5_addr", "ifname; ", "ifname . ", ".", " ", "ifname.ipv4_addr", "ifname }", "verdict",
            ),
        },
    ),
    "nft-element": (
        {"family": "inet", "table": "t", "set": "s", "key": ["k"]},
        {
            "table": ("", "a b", "a{", "1a", "a;b", "a\n", "a" * 129),
            "set": ("", "a b", "@s", "a}"),
            "key": ([], [""], ['a"b'], ["a\\b"], ["a\nb"], ["a\0b"], ["a" * 129], ["a*"]),
            "value": ([], [""], ['a"b']),
            "verdict": (
                "", "maybe", "jump", "jump a b", "accept; drop", "jump a}", "accept\n", f"jump {'a' * 129}",
            ),
        },
    ),
    "nft-table": (
        {"family": "inet", "name": "t", "body": "chain x { }"},
        {
            "name": ("", "a b", "a;", "1a"),
            "body": ("}", "chain x {", "} table ip t {", 'chain x { comment "}', "chain x { # }"),
            "beside": ([""], ["a b"], ["-a"]),
        },
    ),
    "port-vlan": ({"link": "l", "vlan": 1}, {"link": LINK, "vlan": (0, -1, 4095)}),
    "redirect": ({"link": "l", "to": "t"}, {"link": LINK, "to": LINK, "priority": (0, 65536)}),
    "route": (
        {"destination": "10.0.0.0/8", "link": "l"},
        {
            "destination": NETWORKS,
            "link": (*LINK, None),
            "via": IPS,
            "metric": (-1, 1 << 32),
            "table": (0, 1 << 32),
            "source": (*IPS, "fd00::1"),
            "mtu": (0, 65521),
            "advmss": (0, 65496),
            "kind": ("blackhole",),
            "hops": ([{"link": "l"}],),
        },
    ),
    "rule": (
        {"priority": 1, "family": "ipv4", "table": 1},
        {
            "priority": (0, 1 << 32),
            "table": (0, 1 << 32, None),
            "source": (*NETWORKS, "fd00::/64"),
            "destination": (*NETWORKS, "fd00::/64"),
            "iif": LINK,
            "oif": LINK,
            "mark": (-1, 1 << 32),
            "mask": (1,),
            "suppress_prefix": (-1, 129),
            "action": ("blackhole",),
            "l3mdev": (True,),
        },
    ),
    "shaper": (
        {"link": "l", "rate": 1000, "burst": 1000, "limit": 1000},
        {
            "link": LINK,
            "rate": (0, -1, (1 << 40) + 1),
            "burst": (0, (1 << 31) + 1, 1_000_000),
            "limit": (0, 1 << 32),
        },
    ),
    "sysctl": (
        {"key": "net/ipv4/ip_forward", "value": "1"},
        {
            "key": (
                "", "net", "net/a", "kernel/a/b", "net/../a", "net/./a", "net//a", "net/a/b c", "/net/a",
                f"net/a/{'b' * 300}",
            ),
            "value": ("", " ", "1\n2", "1\0"),
            "otherwise": ("", "\n"),
        },
    ),
    "tap": ({"name": "l"}, {"name": LINK, "mac": MACS, "owner": (-1, 1 << 32), "group": (-1, 1 << 32)}),
    "up": ({"link": "l"}, {"link": LINK}),
    "veth": (
        {"name": "l", "peer": "p"},
        {"name": LINK, "peer": LINK, "mac": MACS, "peer_mac": MACS, "mtu": (67,)},
    ),
    "vlan": ({"name": "l", "parent": "p", "id": 1}, {"name": LINK, "parent": LINK, "id": (0, 4095)}),
    "vrf": ({"name": "l", "table_id": 1}, {"name": LINK, "table_id": (0, 1 << 32)}),
    "vrf-member": ({"link": "l", "vrf": "v"}, {"link": LINK, "vrf": LINK}),
    "vxlan": (
        {"name": "l", "vni": 1},
        {"name": LINK, "vni": (0, 1 << 24), "local": IPS, "port": (0, 65536), "device": LINK},
    ),
    "wireguard-device": (
        {"name": "l", "private_key_file": "f"},
        {
            "name": LINK,
            "private_key_file": PATHS,
            "mac": (row.MAC,),
            "listen_port": (0, 65536),
            "fwmark": (-1, 1 << 32),
        },
    ),
    "wireguard-peer": (
        {"device": "l", "public_key": KEY, "allowed": []},
        {
            "device": LINK,
            "public_key": ("", KEY[:-1], "A" * 44, f"{KEY}\n", "AAAA"),
            "allowed": (["10.0.0.1/8"], ["x"]),
            "endpoint": ("", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "host:1", "10.0.0.1:x", "[fd00::1]",
                         "10.0.0.1:0000012345678"),
            "keepalive": (-1, 65536),
            "preshared_key_file": PATHS,
        },
    ),
}  # fmt: skip
BAD = [
    pytest.param(tag, {**good, field: value}, id=f"{tag} {field} {value!r}")
    for tag, (good, fields) in FIELDS.items()
    for field, values in fields.items()
    for value in values
]


def decoded(tag: str, fields: dict[str, Any]) -> Plan:
    return Plan.decode(msgspec.json.encode({"objects": [{"type": tag, **fields}]}))


def test_every_kind_of_object_has_a_row_in_a_lane() -> None:
    tested = {type(row.object) for row in (*rows.KERNEL, *full_rows.FULL)}
    assert tested == set(get_args(AnyObject))


def test_every_kind_of_object_has_a_test_of_its_values() -> None:
    assert FIELDS.keys() == KINDS.keys()


def test_every_field_of_an_object_has_a_row_that_sets_it() -> None:
    """`on` needs none: it is the same for all."""
    used = {(type(row.object), field) for row in _ROWS for field in _given(row.object)}
    fields = {(kind, field) for kind in KINDS.values() for field in kind.__struct_fields__ if field != "on"}
    inherited = {field for field in fields if field[1] in ("mac", "mtu", "txqlen")}
    assert fields - used - inherited == set()


_ROWS: tuple[row.Row | conflicts.Foreign, ...] = (
    *rows.KERNEL, *full_rows.FULL, *conflicts.KERNEL, *conflicts.FULL,
)  # fmt: skip


def _given(item: AnyObject) -> set[str]:
    defaults = dict(zip(reversed(item.__struct_fields__), reversed(item.__struct_defaults__), strict=False))
    return {field for field in item.__struct_fields__ if getattr(item, field) != defaults.get(field)}


@pytest.mark.parametrize("tag", FIELDS)
def test_what_the_bad_ones_differ_from_is_good(tag: str) -> None:
    (item,) = decoded(tag, FIELDS[tag][0]).objects
    assert type(item) is KINDS[tag]


@pytest.mark.parametrize(("tag", "fields"), BAD)
def test_a_plan_with_a_value_that_no_object_can_have_is_not_read(tag: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidPlan):
        decoded(tag, fields)


@pytest.mark.parametrize(("tag", "fields"), BAD)
def test_an_object_cannot_be_made_with_such_a_value(tag: str, fields: dict[str, Any]) -> None:
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    with pytest.raises(InvalidObject):
        KINDS[tag](**values)


@pytest.mark.parametrize("tag", FIELDS)
def test_a_field_that_an_object_does_not_have_is_not_read(tag: str) -> None:
    with pytest.raises(InvalidPlan):
        decoded(tag, {**FIELDS[tag][0], "colour": "red"})


@pytest.mark.parametrize("tag", FIELDS)
def test_a_place_that_does_not_exist_is_not_read(tag: str) -> None:
    with pytest.raises(InvalidPlan):
        decoded(tag, {**FIELDS[tag][0], "on": "elsewhere"})


@pytest.mark.parametrize("stored", _ROWS, ids=[row.name for row in _ROWS])
def test_an_object_is_the_same_after_it_was_stored(stored: row.Row | conflicts.Foreign) -> None:
    plan = Plan((stored.object,))
    assert Plan.decode(plan.encode()) == plan
