"""What is read from a plan in one pass is what the modes say of it."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import asdict, fields

from netloom.kernel import Plan, plan
from netloom.kernel.objects import AnyObject
from netloom.kernel.values import packed_ip
from netloom.networks.features import bandwidth as limits
from netloom.networks.features import isolation, masquerade, ports
from netloom.networks.features.options import Limit, Limits, MappedPort, MasqueradeScope
from netloom.networks.modes.base import Assigned, Attached
from netloom.networks.modes.routed import ROUTED
from netloom.ops.inspect.plan_facts import VERSION, Facts, _PlanPart, facts_of

pytestmark = pytest.mark.unit

ADDRESSES = ("10.9.0.1", "fd09::1")
LIMIT = st.none() | st.builds(Limit, st.sampled_from([8_000_000, 16_000_000]), st.sampled_from([0, 800_000]))
PORTS = st.builds(
    lambda protocol, number, ip, port, at: MappedPort(
        protocol=protocol, host_port=number, ip=ip, port=port, host_ip=at[":" in ip] if at else ""
    ),
    st.sampled_from(["tcp", "udp", "sctp"]),
    st.integers(1, 65535),
    st.sampled_from(ADDRESSES),
    st.integers(1, 65535),
    st.sampled_from([None, ("192.0.2.1", "fd20::1"), ("127.0.0.53", "::1")]),
)
ATTACHED = st.builds(
    Attached,
    network=st.just("net"),
    host_link=st.just("loom0123456789a"),
    ifname=st.just("eth0"),
    mac=st.just("02:00:00:00:00:01"),
    mtu=st.sampled_from([1280, 1500]),
    addresses=st.just(tuple(Assigned.of(packed_ip(it)) for it in ADDRESSES)),
    pools=st.just(("10.9.0.0/16", "fd09::/64")),
    masquerade=st.none()
    | st.builds(
        MasqueradeScope,
        ipv4=st.booleans(),
        ipv6=st.booleans(),
        exceptions=st.sampled_from([(), ("192.0.2.0/24", "fd20::/64")]),
    ),
    ports=st.lists(PORTS, max_size=4).map(tuple),
    limits=st.builds(Limits, LIMIT, LIMIT),
    isolation=st.sampled_from(["none", "networks", "containers"]),
    settings=st.sampled_from([(), (("net/core/somaxconn", "77"),)]),
)


@given(ATTACHED)
def test_the_facts_are_what_the_modes_say(attached: Attached) -> None:
    made = ROUTED.plan(attached)
    facts = facts_of(made.encode())
    assert (facts.mac, facts.mtu) == (attached.mac, attached.mtu)
    assert [
        MappedPort(
            protocol=it.protocol,  # type: ignore[arg-type]
            host_port=it.host_port,
            ip=it.container_ip,
            port=it.container_port,
            host_ip=it.host_ip,
        )
        for it in facts.ports
    ] == ports.of_plan(made)
    assert (facts.bandwidth and _without_unset(facts.bandwidth)) == limits.described(made)
    assert (facts.masquerade and asdict(facts.masquerade)) == masquerade.described(made)
    assert facts.isolation == isolation.of_plan(made)


def _without_unset(value: msgspec.Struct) -> dict[str, Any]:
    found = {field.encode_name: getattr(value, field.name) for field in fields(value)}
    return {name: it for name, it in found.items() if it is not UNSET}


@pytest.mark.parametrize("kind", get_args(AnyObject), ids=lambda kind: kind.__name__)
def test_every_kind_of_object_can_be_passed_over(kind: type[msgspec.Struct]) -> None:
    """A field that another kind has by the same name must be of a type that is read, too."""
    read = {field.encode_name: field.type for field in fields(_PlanPart)}
    for field in fields(kind):
        wanted = read.get(field.encode_name, Any)
        assert wanted is Any or _names_of(field.type) <= _names_of(wanted), field.encode_name


def _names_of(kind: Any) -> set[str]:
    schema = msgspec.json.schema(kind)
    return {it.get("type", "") for it in schema.get("anyOf", [schema])}


def test_it_reads_the_plans_of_this_version() -> None:
    assert plan.VERSION == VERSION


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"objects":[{}]}',
        b'{"objects":[],"version":2}',
        b'{"objects":[{"type":"nft-element","set":"ports4","key":["tcp","http"],"value":["x","y"]}]}',
        b'{"objects":[{"type":"nft-element","set":"ports4","key":[],"value":[]}]}',
        b'{"objects":[{"type":"nft-element","set":"ports4","key":7,"value":8}]}',
        b'{"objects":[{"type":"nft-element","set":"leaving4"},'
        b'{"type":"nft-chain","name":"leave-1","rules":["x return"]}]}',
    ],
    ids=range(9),
)
def test_of_a_plan_that_cannot_be_read_nothing_is_known(damaged: bytes) -> None:
    assert facts_of(damaged) == Facts()


def test_of_an_empty_plan_nothing_is_known() -> None:
    assert facts_of(Plan(()).encode()) == Facts(ports=[])
