"""Results: what survives between versions, what does not, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netloom.cni import (
    DNS,
    IP,
    AnyResult,
    CNIError,
    DecodingFailure,
    IncompatibleVersion,
    Interface,
    LegacyIP,
    LegacyResult,
    Result,
    Route,
    decode_result,
)
from netloom.cni.versions import ALL
from netloom.cni.wire import indent

pytestmark = pytest.mark.unit

LEGACY, LABELLED, MODERN = ALL[:2], ALL[2:5], ALL[5:]

names = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8)
ipv4 = st.ip_addresses(v=4).map(str)
# Go and we write an IPv4 address that is mapped into IPv6 as what it is; that has a test of its own.
ipv6 = st.ip_addresses(v=6).map(str).filter(lambda it: not it.startswith("::ffff:"))
cidr4 = st.builds("{}/{}".format, ipv4, st.integers(0, 32))
cidr6 = st.builds("{}/{}".format, ipv6, st.integers(0, 128))
numbers = st.integers(0, 2**31 - 1)
indexes = st.none() | st.integers(0, 3)

interfaces = st.builds(Interface, names, names, numbers, names, names, names)
ips = st.builds(IP, cidr4, st.just("") | ipv4, indexes) | st.builds(IP, cidr6, st.just("") | ipv6, indexes)
routes = st.builds(
    Route, cidr4 | cidr6, st.just("") | ipv4 | ipv6, numbers, numbers, numbers, st.none() | numbers, indexes
)
dns = st.builds(
    DNS, *[st.lists(names, max_size=2).map(tuple), names, *[st.lists(names, max_size=2).map(tuple)] * 2]
)
results = st.builds(
    Result,
    st.lists(interfaces, max_size=3).map(tuple),
    st.lists(ips, max_size=3).map(tuple),
    st.lists(routes, max_size=3).map(tuple),
    dns,
    st.sampled_from(MODERN),
)
plain_routes4 = st.lists(st.builds(Route, cidr4, st.just("") | ipv4), max_size=2).map(tuple)
plain_routes6 = st.lists(st.builds(Route, cidr6, st.just("") | ipv6), max_size=2).map(tuple)
legacy_results = st.builds(
    LegacyResult,
    st.builds(LegacyIP, cidr4, st.just("") | ipv4, plain_routes4),
    st.none() | st.builds(LegacyIP, cidr6, st.just("") | ipv6, plain_routes6),
    dns,
    st.sampled_from(LEGACY),
)


@given(results | legacy_results, st.sampled_from(ALL))
def test_what_is_written_is_read_back_the_same(result: AnyResult, version: str) -> None:
    try:
        converted = result.as_version(version)
    except IncompatibleVersion:
        assert isinstance(result, Result)
        assert not result.ips
        return
    assert converted.cni_version == version
    assert decode_result(converted.encode()) == converted
    assert json.loads(indent(converted.encode())) == json.loads(converted.encode())


@given(results, st.sampled_from(MODERN))
def test_between_1_0_0_and_1_1_0_nothing_is_lost(result: Result, version: str) -> None:
    assert result.as_version(version).as_version(result.cni_version) == result


@given(results, st.sampled_from(LABELLED), st.sampled_from(LABELLED))
def test_down_to_0_3_and_back_only_interface_details_are_lost(
    result: Result, version: str, other: str
) -> None:
    back = result.as_version(version).as_version(other).as_version(result.cni_version)
    assert isinstance(back, Result)
    assert (back.ips, back.routes, back.dns) == (result.ips, result.routes, result.dns)
    assert [(it.name, it.mac, it.sandbox) for it in back.interfaces] == [
        (it.name, it.mac, it.sandbox) for it in result.interfaces
    ]
    assert all((it.mtu, it.socket_path, it.pci_id) == (0, "", "") for it in back.interfaces)


@given(legacy_results, st.sampled_from(ALL))
def test_up_from_0_2_0_and_back_nothing_is_lost(result: LegacyResult, version: str) -> None:
    assert result.as_version(version).as_version(result.cni_version) == result


@given(results, st.sampled_from(LEGACY))
def test_down_to_0_2_0_the_first_address_of_each_family_remains(result: Result, version: str) -> None:
    first4 = next((ip for ip in result.ips if ":" not in ip.address), None)
    first6 = next((ip for ip in result.ips if ":" in ip.address), None)
    if first4 is None and first6 is None:
        with pytest.raises(IncompatibleVersion, match="cannot convert: no valid IP addresses"):
            result.as_version(version)
        return
    legacy = result.as_version(version)
    assert isinstance(legacy, LegacyResult)
    for kept, first, family in ((legacy.ip4, first4, False), (legacy.ip6, first6, True)):
        assert (kept and kept.ip) == (first and first.address)
        expected = [(it.dst, it.gw) for it in result.routes if (":" in it.dst) == family]
        assert [(it.dst, it.gw) for it in (kept.routes if kept else ())] == (expected if kept else [])


@given(st.binary(max_size=100), st.sampled_from([*ALL, "", "x"]))
def test_any_bytes_are_a_result_or_a_typed_error(data: bytes, version: str) -> None:
    try:
        decode_result(data).as_version(version)
    except CNIError as error:
        assert error.code in (1, 6)


def test_interface_zero_and_host_bits_survive_every_version_that_has_them() -> None:
    result = Result(interfaces=(Interface("eth0"),), ips=(IP("10.1.2.3/24", interface=0),))
    for version in ALL[2:]:
        wire = json.loads(result.as_version(version).encode())
        assert wire["ips"][0]["interface"] == 0
        assert wire["ips"][0]["address"] == "10.1.2.3/24"
    for version in LEGACY:
        assert json.loads(result.as_version(version).encode())["ip4"]["ip"] == "10.1.2.3/24"


def test_dns_is_always_written_before_1_0_0_and_only_when_known_after() -> None:
    result = Result(ips=(IP("10.1.2.3/24"),))
    for version in ALL:
        assert ("dns" in json.loads(result.as_version(version).encode())) == (version not in MODERN)


def test_null_is_the_same_as_absent() -> None:
    document = {"interfaces": None, "ips": None, "routes": None, "dns": {"nameservers": None, "domain": None}}
    for version in ALL[2:]:
        assert decode_result(json.dumps({"cniVersion": version, **document}).encode()) == Result(
            cni_version=version
        )


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("2001:DB8:0::1/64", "2001:db8::1/64"),
        ("::ffff:10.0.0.1/120", "10.0.0.1/24"),
        ("10.0.0.1/0", "10.0.0.1/0"),
        ("::/0", "::/0"),
    ],
)
def test_addresses_are_written_in_one_form(written: str, canonical: str) -> None:
    assert IP(written).address == canonical


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "10.0.0.256/24", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/255.0.0.0", "", "/", "::1/129",
     "010.0.0.1/8", "fe80::1%eth0/64", "10.0.0.1/٣", "x/24"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_where_it_is_made_and_where_it_is_read(address: str) -> None:
    with pytest.raises(ValueError, match="invalid CIDR address"):
        IP(address)
    document = {"cniVersion": "1.1.0", "ips": [{"address": address}]}
    with pytest.raises(DecodingFailure, match="invalid CIDR address"):
        decode_result(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("document", "kind", "sentence"),
    [
        ({"cniVersion": "9.9.9"}, IncompatibleVersion, 'unsupported CNI result version "9.9.9"'),
        ({"cniVersion": 1}, DecodingFailure, "cniVersion is a number"),
        ({"cniVersion": "1.1.0", "ips": {}}, DecodingFailure, "ips"),
        ({"cniVersion": "1.1.0", "ips": [{}]}, DecodingFailure, "address"),
        ({"cniVersion": "1.1.0", "routes": [{"dst": "0.0.0.0/0", "gw": "x"}]}, DecodingFailure, "invalid IP"),
        ({"cniVersion": "0.2.0", "ip4": {"ip": "nope"}}, DecodingFailure, "invalid CIDR"),
    ],
)
def test_a_result_that_makes_no_sense_says_where(
    document: dict[str, Any], kind: type[CNIError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        decode_result(json.dumps(document).encode())


def test_an_unknown_version_has_no_converter() -> None:
    with pytest.raises(IncompatibleVersion, match=r"no converter for CNI result version 1\.1\.0 to 2\.0\.0"):
        Result().as_version("2.0.0")
    with pytest.raises(IncompatibleVersion, match="no converter"):
        LegacyResult().as_version("2.0.0")
