"""Bad values of NAT, host ports, limits and settings: each is refused, named, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel

IPV4_ONLY = [{"cidr": "10.9.0.0/16"}]
IPV6_ONLY = [{"cidr": "fd09::/64"}]


@pytest.fixture
def untouched(lasting: Node) -> Iterator[Node]:
    """A node that must have nothing, and still serve, when the test ends."""
    yield lasting
    left, ports = lasting.ledger().places(), lasting.ledger().ports()
    for place in left:  # or every test behind this one would fail, too
        lasting.delete(place.key.container_id)
    assert (left, ports) == ([], [])
    assert lasting.links() == []
    assert lasting.audit() == []
    assert lasting.plugin("STATUS").status == 0


def mapped(*mappings: Any) -> dict[str, Any]:
    return {"runtimeConfig": {"portMappings": list(mappings)}}


def port(**changes: Any) -> dict[str, Any]:
    return {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", **changes}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in port().items() if name != key}


def limited(**bandwidth: Any) -> dict[str, Any]:
    return {"runtimeConfig": {"bandwidth": bandwidth}}


HOST_PORTS: list[tuple[dict[str, Any], str]] = [
    ({"runtimeConfig": {"portMappings": {}}}, "portMappings is {}, and must be a list, such as"),
    ({"runtimeConfig": {"portMappings": "80"}}, 'portMappings is "80", and must be a list, such as'),
    (mapped(80), "portMappings[0] is 80; portMappings is a list, such as"),
    (
        mapped(without("hostPort")),
        "portMappings[0] has no `hostPort`, and needs one: a whole number from 1 to",
    ),
    (mapped(without("containerPort")), "portMappings[0] has no `containerPort`, and needs one"),
    (mapped(port(hostPort="80")), 'hostPort is "80", and must be a whole number from 1 to 65535'),
    (mapped(port(hostPort=80.5)), "hostPort is 80.5, and must be a whole number from 1 to 65535"),
    (mapped(port(containerPort=None)), "portMappings[0] has no `containerPort`, and needs one"),
    (mapped(port(hostPort=0)), "hostPort 0 is not from 1 to 65535"),
    (mapped(port(hostPort=65536)), "hostPort 65536 is not from 1 to 65535"),
    (mapped(port(hostPort=-1)), "hostPort -1 is not from 1 to 65535"),
    (mapped(port(containerPort=0)), "containerPort 0 is not from 1 to 65535"),
    (mapped(port(containerPort=65536)), "containerPort 65536 is not from 1 to 65535"),
    (mapped(port(hostPort=10**30)), "hostPort"),
    (mapped(port(protocol="icmp")), "protocol 'icmp' is not one of tcp, udp, sctp"),
    (mapped(port(protocol="")), "protocol '' is not one of tcp, udp, sctp"),
    (mapped(port(protocol=6)), 'protocol is 6, and must be "tcp", "udp" or "sctp"'),
    (mapped(port(hostIP="localhost")), "hostIP 'localhost' is not an IP address"),
    (mapped(port(hostIP="192.0.2.1/24")), "hostIP '192.0.2.1/24' is not an IP address"),
    (mapped(port(hostIP="fe80::1%eth0")), "hostIP 'fe80::1%eth0' is not an IP address"),
    (mapped(port(hostIP="\0")), "hostIP"),
    (mapped(*(port(hostPort=number) for number in range(1, 5002))), "has 5001 ports; the maximum is 5000"),
    (mapped(port(hostIP="224.0.0.1")), "hostIP 224.0.0.1 is not an address that a host can have"),
    (mapped(port(hostIP="255.255.255.255")), "hostIP 255.255.255.255 is not an address that a host can have"),
    (mapped(port(hostIP="ff02::1")), "hostIP ff02::1 is not an address that a host can have"),
    (mapped(port(hostIP="::ffff:10.0.0.1")), "hostIP ::ffff:10.0.0.1 is not an address that a host can have"),
    (mapped(port(hostIP=7)), "hostIP is 7, and must be an address of the host, or empty for all of them"),
    (
        {"pools": IPV4_ONLY, **mapped(port(hostIP="fd99::1"))},
        "host port 8080/tcp of fd99::1 leads nowhere: the container has no IPv6 address",
    ),
    (
        {"pools": IPV6_ONLY, **mapped(port(hostIP="192.0.2.1"))},
        "host port 8080/tcp of 192.0.2.1 leads nowhere: the container has no IPv4 address",
    ),
    (mapped(port(), port(containerPort=81)), "host port 8080/tcp leads to 80 and to 81 at once"),
    (
        mapped(port(hostIP="192.0.2.1"), port(hostIP="192.0.2.1", containerPort=81, protocol="TCP")),
        "host port 8080/tcp of 192.0.2.1 leads to 80 and to 81 at once",
    ),
    (mapped(port(hostIP="0.0.0.0"), port(containerPort=81)), "leads to 80 and to 81 at once"),
    (mapped(port(), port(hostIP="::", containerPort=81)), "leads to 80 and to 81 at once"),
]

BANDWIDTH: list[tuple[dict[str, Any], str]] = [
    ({"bandwidth": 5}, "bandwidth is 5, and must be an object, such as"),
    (
        {"bandwidth": {"rate": 5}},
        "bandwidth has an unknown key `rate`; it may have ingressRate, ingressBurst, egressRate",
    ),
    (
        {"bandwidth": {"ingressRate": "5M"}},
        'ingressRate is "5M", and must be a whole number of bits a second',
    ),
    ({"bandwidth": {"egressBurst": 1.5}}, "egressBurst is 1.5, and must be a whole number of bits"),
    (limited(ingressRate="5M"), 'ingressRate is "5M", and must be a whole number of bits a second'),
    ({"runtimeConfig": {"bandwidth": []}}, "bandwidth is [], and must be an object, such as"),
    (limited(ingressRate=-1), "ingressRate -1 is not from 8000 to"),
    (limited(egressRate=7999), "egressRate 7999 is not from 8000 to"),
    (limited(ingressRate=10**15), f"ingressRate {10**15} is not from 8000 to"),
    ({"bandwidth": {"ingressRate": -1}, **limited(ingressRate=8000)}, "ingressRate -1 is not from 8000 to"),
    (limited(ingressRate=10**30), "ingressRate"),
    (limited(ingressBurst=8000), "ingressBurst is 8000, but ingressRate is not given"),
    (limited(ingressRate=8000, egressBurst=8000), "egressBurst is 8000, but egressRate is not given"),
    ({"bandwidth": {"egressBurst": 8000}}, "egressBurst is 8000, but egressRate is not given"),
    (limited(ingressRate=8000, ingressBurst=-1), "ingressBurst -1 is negative"),
    (
        limited(ingressRate=8000, ingressBurst=8000 * 61),
        "ingressBurst 488000 lasts over 60 s at ingressRate 8000",
    ),
]

MASQUERADE: list[tuple[dict[str, Any], str]] = [
    ({"ipMasq": "yes"}, 'ipMasq is "yes", and must be true, false, or an object such as'),
    ({"ipMasq": 1}, "ipMasq is 1, and must be true, false, or an object such as"),
    ({"ipMasq": []}, "ipMasq is [], and must be true, false, or an object such as"),
    ({"ipMasq": {"ipv5": True}}, "ipMasq has an unknown key `ipv5`; it may have ipv4, ipv6, except"),
    ({"ipMasq": {"ipv4": "no"}}, 'ipv4 is "no", and must be true or false'),
    ({"ipMasq": {"except": "10.0.0.0/8"}}, 'except is "10.0.0.0/8", and must be a list of ranges, such as'),
    ({"ipMasq": {"except": [5]}}, "except[0] is 5; except is a list of ranges, such as"),
    ({"ipMasq": {"except": ["10.0.0.0/33"]}}, "ipMasq.except: '10.0.0.0/33'"),
    ({"ipMasq": {"except": ["10.0.0.1/8"]}}, "ipMasq.except: 10.0.0.1/8 has bits set after its prefix"),
    ({"ipMasq": {"except": ["everywhere"]}}, "ipMasq.except: 'everywhere' is not an IP address"),
    (
        {"ipMasq": {"except": [f"10.{number}.0.0/16" for number in range(256)] + ["192.168.0.0/16"]}},
        "ipMasq.except has 257 ranges; the maximum is 256",
    ),
]

OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"isolation": "pods"}, 'isolation is "pods", and must be "none", "networks" or "containers"'),
    ({"isolation": True}, 'isolation is true, and must be "none", "networks" or "containers"'),
    ({"sysctl": ["net.core.somaxconn"]}, "sysctl is "),
    ({"sysctl": {"net.core.somaxconn": 500}}, "must be an object of strings, such as"),
    ({"args": {"cni": {"sysctl": {"net.core.somaxconn": None}}}}, "args.cni.sysctl is "),
    ({"txQLen": -1}, "txQLen -1 is not from 0 to 1000000"),
    ({"txQLen": 1_000_001}, "txQLen 1000001 is not from 0 to 1000000"),
    ({"txQLen": "long"}, 'txQLen is "long", and must be a whole number from 0 to 1000000'),
    ({"args": {"cni": {"txQLen": -1}}}, "txQLen -1 is not from 0 to 1000000"),
    ({"args": {"cni": {"mtu": 100}}}, "mtu 100 is not from 576 to 65535"),
    ({"mac": "02:00"}, "'02:00' is not a MAC address"),
    ({"mac": 5}, "mac is 5, and must be a MAC address, such as"),
    ({"args": {"cni": {"mac": "03:00:00:00:00:01"}}}, "03:00:00:00:00:01 is a multicast MAC address"),
]

BAD = HOST_PORTS + BANDWIDTH + MASQUERADE + OTHERS


@pytest.mark.parametrize(("keys", "said"), BAD, ids=[said[:50] for _, said in BAD])
def test_a_bad_value_is_refused_with_what_may_be_there(
    untouched: Node, keys: dict[str, Any], said: str
) -> None:
    done = untouched.plugin("ADD", untouched.container(), untouched.config(**keys))
    assert done.code == 7, done.output
    assert said in done.document["msg"]
    assert len(done.output) < 2000


FINE: list[dict[str, Any]] = [
    mapped(),
    mapped(port(), port()),
    mapped(port(hostIP="0.0.0.0"), port(hostIP="::")),
    mapped(port(protocol="TCP"), port(protocol="udp", containerPort=53)),
    mapped(port(hostIP="")),
    mapped(None, port(hostIP=None, protocol=None)),
    mapped({"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""}),
    mapped(port(hostIP="127.0.0.1"), port(hostIP="127.0.0.2"), port(hostIP="::1")),
    mapped({**port(), "somebodyElses": 1}),
    limited(ingressRate=8000, ingressBurst=8000 * 60, somebodyElses=1),
    limited(ingressRate=400_000_000_000, egressRate=400_000_000_000),
    {"ipMasq": {}},
    {"ipMasq": {"ipv4": False, "ipv6": False, "except": ["10.0.0.0/8", "10.0.0.0/8"]}},
    {"ipMasq": {"except": [f"10.{number}.0.0/16" for number in range(256)]}},
    {"ipMasq": {"except": ["2001:DB8::/32", "192.0.2.7"]}},
    {"ipMasq": None, "isolation": None, "bandwidth": None, "sysctl": None, "txQLen": None, "mac": None},
]


@pytest.mark.parametrize("keys", FINE, ids=[json.dumps(keys)[:60] for keys in FINE])
def test_what_may_be_there_is_taken(shared: Node, keys: dict[str, Any]) -> None:
    shared.add(shared.container(), shared.config(**keys))
    assert shared.audit() == []


def test_a_rate_is_taken_or_refused_by_its_name(untouched: Node) -> None:
    """However large it is, the kernel's own bounds are no answer."""
    for rate in (10**11, 10**12, 8 << 40, 10**13):
        container = untouched.container()
        done = untouched.plugin("ADD", container, untouched.config(**limited(ingressRate=rate)))
        assert done.status == 0 or (done.code == 7 and f"ingressRate {rate}" in done.document["msg"]), (
            done.output
        )
        untouched.delete(container)


@pytest.mark.parametrize("depth", [100, 500, 900])
@pytest.mark.parametrize("keys", [{"ipMasq": "DEEP"}, {"sysctl": "DEEP"}, mapped("DEEP")], ids=json.dumps)
def test_what_is_nested_deeply_is_refused(untouched: Node, keys: dict[str, Any], depth: int) -> None:
    config = untouched.config(**keys).replace(b'"DEEP"', b"[" * depth + b"]" * depth)
    assert untouched.plugin("ADD", untouched.container(), config).code in (6, 7)


# Whatever comes.

# What cannot be read, what is wrong, and what the kernel refuses: a setting may have any value.
REFUSALS = (6, 7, 100)
NUMBERS = st.one_of(
    st.integers(-2, 70_000), st.sampled_from([2**31 - 1, 2**32 - 1, 2**53, 2**63, 2**64, 10**12, 10**30])
)
WORDS = st.one_of(
    st.sampled_from(
        ["", "tcp", "udp", "sctp", "TCP", "0.0.0.0", "::", "127.0.0.1", "::1", "192.0.2.1", "10.0.0.0/8"]
    ),
    st.sampled_from(["fd00::/8", "networks", "containers", "net.core.somaxconn", "net/ipv4/ip_forward", "1"]),
    st.text(max_size=12),
)
NAMES = st.one_of(
    st.sampled_from(
        ["hostPort", "containerPort", "protocol", "hostIP", "ingressRate", "ingressBurst", "egressRate"]
    ),
    st.sampled_from(["egressBurst", "ipv4", "ipv6", "except", "net.core.somaxconn"]),
    st.text(max_size=8),
)
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(allow_nan=False, allow_infinity=False), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
PORTS = st.lists(
    st.fixed_dictionaries(
        {"hostPort": NUMBERS, "containerPort": NUMBERS}, optional={"protocol": WORDS, "hostIP": WORDS}
    ),
    max_size=3,
)
RATES = st.dictionaries(
    st.sampled_from(["ingressRate", "ingressBurst", "egressRate", "egressBurst"]), NUMBERS, max_size=4
)
KEYS = st.fixed_dictionaries(
    {},
    optional={
        "ipMasq": st.one_of(JUNK, st.fixed_dictionaries({"except": st.lists(WORDS, max_size=3)})),
        "isolation": st.one_of(WORDS, JUNK),
        "bandwidth": st.one_of(RATES, JUNK),
        "sysctl": st.one_of(st.dictionaries(WORDS, WORDS, max_size=3), JUNK),
        "txQLen": JUNK,
        "mac": JUNK,
        "runtimeConfig": st.fixed_dictionaries(
            {}, optional={"portMappings": st.one_of(PORTS, JUNK), "bandwidth": st.one_of(RATES, JUNK)}
        ),
        "args": st.fixed_dictionaries({"cni": st.one_of(st.fixed_dictionaries({"sysctl": JUNK}), JUNK)}),
    },
)


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(keys=KEYS)
def test_no_value_is_a_defect(lasting: Node, attachable: str, keys: dict[str, Any]) -> None:
    """An ADD succeeds, or says why not; what it does not take leaves nothing."""
    config = lasting.config(**keys)
    done = lasting.ask("ADD", attachable, config)
    assert done.status == 0 or done.code in REFUSALS, done.output
    if done.status == 0:
        assert lasting.ask("DEL", attachable, config).status == 0
    assert lasting.ledger().places() == []


@pytest.fixture
def attachable(lasting: Node) -> str:
    return lasting.container()
