"""What may come on standard input: each has its code, and none changes anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ..fixtures.node import POOLS, Node

pytestmark = pytest.mark.kernel

DEEP = 100_000


@pytest.fixture
def untouched(lasting: Node) -> Iterator[Node]:
    """A node that must have nothing, and still serve, when the test ends."""
    yield lasting
    assert lasting.links() == []
    assert lasting.ledger().places() == []
    assert lasting.audit() == []
    assert lasting.plugin("STATUS").status == 0


@pytest.mark.parametrize(
    ("stdin", "code"),
    [
        (b"", 6),
        (b" \n", 6),
        (b"null", 6),
        (b"[]", 6),
        (b'"net"', 6),
        (b"\xff\xfe{}", 6),
        (b'{"name": "net", "x": NaN}', 6),
        (b'{"name": "net", "x": Infinity}', 6),
        (b'{"name": "net"} {"name": "net"}', 6),
        (b'{"name": "net", "x": "\\ud800"}', 6),
        (b'{"name": 5}', 6),
        (b'{"name": "net", "cniVersion": 1.1}', 6),
        (b'{"name": ""}', 7),
        (b'{"name": "../net"}', 7),
        (b'{"name": "n\\u0000"}', 7),
        (b'{"x": ' + b"[" * DEEP + b"]" * DEEP + b"}", 6),
        (b'{"x": ' + b'{"y":' * DEEP + b"1" + b"}" * DEEP + b"}", 6),
    ],
    ids=[
        "empty", "blank", "null", "array", "string", "not utf-8", "nan", "infinity", "two documents",
        "half a surrogate", "name is a number", "version is a number", "no name", "name is a path",
        "name with nul", "deep arrays", "deep objects",
    ],
)  # fmt: skip
def test_what_is_no_config_has_its_code(untouched: Node, stdin: bytes, code: int) -> None:
    done = untouched.plugin("ADD", untouched.container(), stdin)
    assert done.code == code
    assert len(done.output) < 2000


def test_a_hundred_megabytes_are_refused(untouched: Node) -> None:
    stdin = b'{"name": "net", "x": "' + bytes(100 << 20) + b'"}'
    assert untouched.plugin("ADD", untouched.container(), stdin).code == 6


def test_the_largest_config_is_read(running: Node) -> None:
    config = running.config(comment="x" * (15 << 20))
    running.add(running.container(), config)
    assert running.audit() == []


def test_of_keys_that_are_there_twice_the_last_counts(running: Node) -> None:
    """As every reader of JSON that a runtime has: Go's takes the last."""
    text = running.config().decode().rstrip("}") + ', "name": "second"}'
    running.add(running.container(), text.encode())
    assert [place.key.network for place in running.ledger().places()] == ["second"]


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"pools": None}, 7),
        ({"pools": []}, 7),
        ({"pools": {}}, 7),
        ({"pools": [{}]}, 7),
        ({"pools": [{"cidr": 5}]}, 7),
        ({"pools": [{"cidr": "10.9.0.0/16", "colour": "red"}]}, 7),
        ({"mode": "magic"}, 7),
        ({"mtu": 575}, 7),
        ({"mtu": 65536}, 7),
        ({"mtu": -1}, 7),
        ({"mtu": 10**30}, 7),
        ({"mtu": "1500"}, 7),
        ({"mtu": 1500.5}, 7),
        ({"cooldown": -1}, 7),
        ({"cooldown": 86401}, 7),
        ({"routes": [{"dst": "everywhere"}]}, 7),
        ({"routes": [{"dst": "10.0.0.1/8"}]}, 7),
        ({"routes": "all"}, 7),
        ({"interface": "a/b"}, 4),
        ({"ipam": {"type": "host-local"}}, 2),
        ({"portMappings": [{"hostPort": 80, "containerPort": 80}]}, 2),
        ({"ipMasq": {"except": ["10.0.0.1/8"]}}, 7),
        ({"args": {"cni": {"ips": "10.9.0.5"}}}, 7),
        ({"args": {"cni": {"ips": ["10.10.0.5"]}}}, 7),
        ({"runtimeConfig": {"ips": ["nonsense"]}}, 7),
        ({"runtimeConfig": {"mac": "02:00:00:00:00"}}, 7),
        ({"runtimeConfig": {"mac": "00:00:00:00:00:00"}}, 7),
        ({"runtimeConfig": {"mac": "03:00:00:00:00:01"}}, 7),
        ({"prevResult": 5}, 6),
        ({"prevResult": {"cniVersion": "99.0.0"}}, 1),
        ({"prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "nowhere"}]}}, 6),
    ],
    ids=json.dumps,
)
def test_a_bad_key_is_refused_and_named(untouched: Node, keys: dict[str, Any], code: int) -> None:
    done = untouched.plugin("ADD", untouched.container(), untouched.config(**keys))
    assert done.code == code, done.output
    assert len(done.output) < 2000


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"mtu": "1500"}, 'mtu is "1500", and must be 0, or a whole number from 576 to 65535'),
        ({"mode": "bridged"}, 'mode is "bridged", and must be "routed"'),
        ({"mode": 10**30}, 'must be "routed"'),
        ({"pools": [5]}, "pools[0] is 5; pools is a list"),
        ({"pools": [{}]}, "pools[0] has no `cidr`"),
        ({"pools": [{"cidr": "10.9.0.0/16", "size": 5}]}, "may have cidr, gateway, exclude, strategy"),
        ({"routes": [{"dst": "10.0.0.0/8", "gw": "10.0.0.1"}]}, "may have dst"),
        ({"dns": {"nameservers": "10.0.0.53"}}, "must be a list of strings"),
        ({"runtimeConfig": {"ips": "10.9.0.5"}}, "must be a list of addresses"),
    ],
    ids=json.dumps,
)
def test_a_value_of_another_type_is_told_with_what_may_be_there(
    untouched: Node, keys: dict[str, Any], said: str
) -> None:
    done = untouched.plugin("ADD", untouched.container(), untouched.config(**keys))
    assert said in done.document["msg"]


@pytest.mark.parametrize("size", [10**18, 2**63, 10**400])
def test_a_large_number_in_a_key_of_somebody_else_is_passed_over(running: Node, size: int) -> None:
    config = b'{"x": %d, ' % size + running.config().lstrip(b"{")
    running.add(running.container(), config)
    assert running.audit() == []


def test_cni_versions_of_a_list_are_no_concern_of_a_plugin(running: Node) -> None:
    running.add(running.container(), running.config(cniVersions=["99.0.0", "1.1.0"]))


def test_a_config_without_a_version_is_the_oldest(running: Node) -> None:
    config = json.dumps({"name": "net", "type": "netloom", "pools": POOLS}).encode()
    assert running.add(running.container(), config).document["cniVersion"] == "0.1.0"


@pytest.mark.parametrize("version", ["0.2.0", "0.4.0", "1.0.0"])
def test_a_prev_result_of_another_version_is_read(running: Node, version: str) -> None:
    before: dict[str, Any] = {"cniVersion": version}
    if version == "0.2.0":
        before["ip4"] = {"ip": "192.0.2.7/24"}
    else:
        before["ips"] = [{"address": "192.0.2.7/24", "version": "4"}]
    added = running.add(running.container(), running.config(prevResult=before))
    assert added.document["cniVersion"] == "1.1.0"
    assert added.addresses[0] == "192.0.2.7"
    assert len(added.addresses) == 3


def test_capabilities_that_are_not_booleans_are_no_concern_of_a_plugin(running: Node) -> None:
    running.add(running.container(), running.config(capabilities={"ips": "yes"}))


def test_secrets_on_standard_input_are_in_no_log_and_no_journal(running: Node) -> None:
    secret = "hunter2-and-more"
    running.plugin("ADD", running.container(), running.config(password=secret, mtu=1))
    running.add(running.container(), running.config(password=secret))
    running.plugin("ADD", running.container(), b'{"password": "hunter2-and-more"')
    running.stop()
    assert secret not in running.log()
    files = [path for path in running.state_dir.iterdir() if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
