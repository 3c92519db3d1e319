"""What is removed from a bundle, what is renamed in it, and how it is made to fit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netloom.ops.bundle.anonymise import Pseudonyms
from netloom.ops.bundle.archive import ArchiveMember, Part, fitted, packed
from netloom.ops.bundle.redaction import Secrets
from netloom.ops.bundle.secret_patterns import REMOVED, is_secret_name

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "dbPassword", "token", "apiToken", "api_key", "key", "privateKey", "private-key",
     "clientSecret", "credentials", "caCert", "certificate-data", "psk", "kubeconfig", "authToken",
     "accesskey", "encryptionkey", "privkey", "userpass", "sshpass", "passcode", "pin", "APIkey",
     "pass_word", "wgkey",
     "basicauth", "X-Api-Key", "--token", "tcp_fastopen_key", "keyring", "dbpwd", "cacert"],
)  # fmt: skip
def test_a_name_that_looks_like_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["name", "type", "pools", "cidr", "mtu", "monkey", "keepalive", "bridge", "subnet", "author", "passive",
     "config_hash", "container_id", "containerID", "bypass", "passthru", "keyword", "spinning", "plan",
     "hash"],
)  # fmt: skip
def test_a_name_that_does_not_is_left(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("token=abcdef", "abcdef"),
        ('{"password": "with \\" quotes"}', "quotes"),
        ("{'secret': 'abcdef'}", "abcdef"),
        ("DB_PASSWORD: abcdef, and more", "abcdef"),
        ('said {\\"apiToken\\": \\"abcdef\\"}', "abcdef"),
        ("https://user:abcdef@example.org/", "abcdef"),
        ("/usr/bin/agent --api-token abcdef --verbose", "abcdef"),
        ("/usr/bin/agent --token=abcdef", "abcdef"),
        ("Authorization: Bearer abcdef.ghi-jkl", "abcdef"),
        ("CNI_ARGS=K8S_POD_NAME=web;COLOUR=abcdef", "abcdef"),
        ('"CNI_ARGS": "COLOUR=abcdef;IgnoreUnknown=1"', "abcdef"),
        ("-----BEGIN PRIVATE KEY-----\nabcdef\n-----END PRIVATE KEY-----", "abcdef"),
        ("-----BEGIN PRIVATE KEY-----\nabcdef and the log was cut here", "abcdef"),
        ("QUJDREVGR0hJSktMTU5PUFFSU1Q\nabcdef==\n-----END PRIVATE KEY-----", "abcdef"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\\nabcdef\\n-----END OPENSSH PRIVATE KEY-----", "abcdef"),
        ("redis://:abcdef@host", "abcdef"),
        ("https://abcdef@github.com/x", "abcdef"),
        ("http://user:x@abcdef@host/", "abcdef"),
        ("postgres://user:x/abcdef@host/", "abcdef"),
        ("dial user:abcdef@tcp(10.0.0.1:3306)/shop", "abcdef"),
        ("Authorization: Token abcdef", "abcdef"),
        ('{"h": "Authorization: Token abcdef", "mtu"', "abcdef"),
        ("password=a,abcdef", "abcdef"),
        ("password=a abcdef", "abcdef"),
        ("token=ghp_0123456789abcdefghij,abcdef", "abcdef"),
        ("mount -o user=x,password=a&abcdef", "abcdef"),
        ('{"args": ["--token", "abcdef"', "abcdef"),
        ('{"env": [{"name": "DB_PASSWORD", "value": "abcdef"', "abcdef"),
        ('{"env": [{"value": "abcdef", "name": "DB_PASSWORD"', "abcdef"),
        ('{"credentials": {\n"user": "abcdef",\n"x": ["y"', "abcdef"),
        ('{"pin": 271828, "mtu"', "271828"),
        ("CNI_ARGS=COLOUR=light abcdef", "abcdef"),
        ("curl -u admin:abcdef http://h", "abcdef"),
        ("sshpass -p abcdef ssh h", "abcdef"),
        ("machine h login me password abcdef", "abcdef"),
        ("<user>x</user><password>abcdef</password>", "abcdef"),
        ('{"level":"info","message":"x","clientSecret":"abcdef"}', "abcdef"),
    ],
)
def test_a_secret_in_a_text_is_removed(text: str, secret: str) -> None:
    cleaned = Secrets().text(text)

    assert secret not in cleaned
    assert REMOVED in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "put back missing objects of netloom/web/eth0: route 10.78.0.1/32",
        "CNI_ARGS=K8S_POD_NAME=web;K8S_POD_NAMESPACE=shop;IgnoreUnknown=1",
        "unknown key `Mtu`; did you mean `mtu`?",
        "attachment netloom/5a1b/eth0: config_hash c8b4a665c892daf5e517b6c15adc9e4c is another",
        f"container {'0123456789abcdef' * 4} of sha256:{'0123456789abcdef' * 4}",
        '{"level": "info",  "message": "as it was written"}',
        "http://127.0.0.1:9478/metrics answers; veth0@if6 has 02:00:00:00:00:01",
        "12: eth0@if13: <BROADCAST,UP> mtu 1500 state UP",
        "/usr/local/lib/python3.12/site-packages/Something-1.2.3/with/a/long/Path",
        'netloom_pool_addresses{pool="10.78.0.0/16",state="held"} 1',
    ],
)
def test_a_text_without_one_stays_as_it_is(text: str) -> None:
    assert Secrets().text(text) == text


def test_a_secret_is_removed_wherever_else_it_stands() -> None:
    secrets = Secrets()
    secrets.learn_from(
        {"plugins": [{"token": "abcdefgh"}], "args": {"cni": {"labels": [{"value": "ijklmnop"}]}}}
    )
    secrets.learn_arguments({"COLOUR": "qrstuvwx", "K8S_POD_NAME": "a-pod-of-mine"})

    cleaned = secrets.document({"abcdefgh": ["x-ijklmnop-y", "qrstuvwx", "a-pod-of-mine"]}, is_ours=True)

    assert cleaned == {REMOVED: [f"x-{REMOVED}-y", REMOVED, "a-pod-of-mine"]}


_TOKENS = (
    "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8", "gho_A1b2C3d4E5f6G7h8I9j0",
    "github_pat_11ABCDEFG0_abcdefGHIJKL",
    "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "xoxb-2718281828-abcdef", "xoxp-1-2-3", "xoxa-2-abc",
    "glpat-abcDEF123456ghiJKL78", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd28=", "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "07401b.f395accd246ae52d", "$6$saltsalt$0123456789abcdef",
)  # fmt: skip


@pytest.mark.parametrize("token", _TOKENS)
@pytest.mark.parametrize("text", ["{}", "said {} twice", "x={},y", '{{"m": "{}"', "'{}'", "https://h/?q={}"])
def test_a_token_is_known_by_its_looks_wherever_it_stands(text: str, token: str) -> None:
    assert token not in Secrets().text(text.format(token))
    assert token not in str(Secrets().document({"any": [text.format(token)]}, is_ours=True))


_VALUES = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=20).map(
    lambda text: f"{text}0nly-Here{text}"
)
_PLACES: tuple[Callable[[str], Any], ...] = (
    lambda it: {"accesskey": it},
    lambda it: {"apiToken": [1, {"deep": it}]},
    lambda it: {"env": [{"name": "DB_PASSWORD", "value": it}]},
    lambda it: {"env": [{"value": it, "name": "DB_PASSWORD", "type": "string"}]},
    lambda it: {"env": [{"key": "token", "anything": it}]},
    lambda it: {"env": [f"DB_PASSWORD={it}"]},
    lambda it: {"env": {"DB_PASSWORD": it}},
    lambda it: {"command": ["x", "--password", it]},
    lambda it: {"command": ["x", f"--password={it}"]},
    lambda it: {"command": ["wg", "set", "wg0", "private-key", it]},
    lambda it: {"args": ["--token", it]},
    lambda it: {"args": {"anything": it}},
    lambda it: {"args": {"cni": {"labels": [{"key": "x", "value": it}]}}},
    lambda it: {"url": f"redis://:{it}@host"},
    lambda it: {"url": f"https://{it}@github.com/x"},
    lambda it: {"url": f"http://u:p@{it}@host/"},
    lambda it: {"header": f"Authorization: Token {it}"},
    lambda it: {"opts": f"password=a,{it}"},
    lambda it: {"opts": f"user=x,password=a,{it}"},
    lambda it: {"inner": json.dumps({"env": [{"name": "DB_PASSWORD", "value": it}]})},
    lambda it: {"any": f"-----BEGIN PRIVATE KEY-----\n{it}"},
)


@pytest.mark.parametrize("place", _PLACES)
@settings(deadline=None)
@given(secret=_VALUES)
@example(secret="0:0@0nly-Here0:0@")  # a part of it looks like a user with a password
@example(secret='"plugin0nly-Here"plugin')  # a part of it is a part of a key
def test_whatever_is_put_at_a_secrets_place_is_gone(place: Callable[[str], Any], secret: str) -> None:
    """From the document, and from whatever else has it, however it is written there."""
    document = {"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "x", "mtu": 1400, **place(secret)}]}
    secrets = Secrets()
    secrets.learn_from(document)

    shown = secrets.document(document, is_ours=False)

    assert "0nly-Here" not in str(shown)
    assert (shown["plugins"][0]["type"], shown["plugins"][0]["mtu"]) == ("x", 1400)
    cut = json.dumps(document, ensure_ascii=False)[:-1]
    assert "0nly-Here" not in secrets.text(cut, is_ours=False)
    assert "0nly-Here" not in secrets.text(json.dumps({"message": f"it said {secret}"}))


@given(
    st.recursive(
        st.text() | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_stands_under_a_secret_name_is_gone(value: Any) -> None:
    secret = "only-here-and-nowhere-else"
    document = {"plugins": [{"apiToken": [value, {"deep": secret}], "type": "x"}]}

    assert secret not in str(Secrets().document(document, is_ours=False))
    assert secret not in Secrets().text(json.dumps(document)[:-1], is_ours=False)


def test_what_is_needed_stays() -> None:
    network = {
        "cniVersion": "1.0.0",
        "name": "token-ring",
        "plugins": [
            {
                "type": "netloom",
                "mtu": 1400,
                "pools": [{"cidr": "10.78.0.0/16", "gateway": "10.78.0.1"}, {"cidr": "fd78::/64"}],
                "capabilities": {"portMappings": True, "bandwidth": True},
                "dns": {"nameservers": ["10.0.0.53"], "search": ["example.org"]},
                "args": {"cni": {"ips": ["10.1.2.3"]}},
            },
            {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}},
        ],
    }
    operation = {
        "network": "token-ring",
        "container_id": "0123456789abcdef" * 4,
        "config_hash": "c8b4a665c892daf5e517b6c15adc9e4c",
        "plan": {"objects": [{"type": "sysctl", "key": "net/ipv6/conf/loom1/accept_ra", "value": "0"}]},
        "phases": '{"judge":2.197,"kernel":12.73}',
        "caller": "netloom[16441]",
    }
    secrets = Secrets()
    secrets.learn_from(network)

    assert secrets.document(network, is_ours=False) == network
    assert secrets.document(operation, is_ours=True) == operation


def test_a_word_of_everybodys_stays_though_somebody_has_it_as_a_key() -> None:
    secrets = Secrets()
    secrets.learn_from({"plugins": [{"key": "bridge", "auth": {"server": "10.78.0.0/16"}}]})

    assert secrets.text("type bridge in 10.78.0.0/16") == "type bridge in 10.78.0.0/16"


def test_what_netloom_calls_a_key_is_none() -> None:
    element = {"type": "nft-element", "key": ["loom1", "10.0.0.1"], "keys": 3}

    assert Secrets().document(element, is_ours=True) == element


def test_addresses_and_names_get_others_and_the_same_the_same() -> None:
    pseudonyms = Pseudonyms()
    pseudonyms.learn("pod", "web-1")
    pseudonyms.learn("pod", "x")

    text = "web-1 has 10.1.2.3/24, fd00::1 and 02:00:00:00:00:01; [fd00:0::1]:80 and 10.1.2.3:80 are web-1's"
    changed = pseudonyms.text(text)

    assert not any(word in changed for word in ("web-1", "10.1.2.3", "fd00", "02:00:00"))
    address = pseudonyms.text("10.1.2.3")
    assert changed.count(address) == 2
    assert changed.count(pseudonyms.text("fd00::1")) == 2
    assert f"{address}/24" in changed
    assert pseudonyms.document({"pod": "x", "text": "x marks it"})["text"] == "x marks it"
    assert pseudonyms.document({"pod": "x"})["pod"] != "x"


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "::1", "0.0.0.0/0", "fe80::1", "169.254.1.1", "ff02::1", "at 02:13:14", "1.2.3", "netloom"],
)
def test_what_everybody_has_stays(text: str) -> None:
    pseudonyms = Pseudonyms()
    pseudonyms.learn("net", "netloom")

    assert pseudonyms.text(text) == text


@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=8), st.integers(8_000, 100_000))
def test_what_is_made_to_fit_fits(sizes: list[int], budget: int) -> None:
    listed = [
        ArchiveMember(
            Part(name=f"{number}.txt", about="", size=size),
            os.urandom(size // 2).hex().encode(),
            number % 2 == 0,
        )
        for number, size in enumerate(sizes)
    ]

    kept = fitted(listed, budget)

    assert [entry.part.about for entry in kept] == [""] * len(listed)
    assert all(
        entry.part.cut for entry, whole in zip(kept, listed, strict=True) if entry.content != whole.content
    )
    members = [(entry.part.name, entry.content) for entry in kept if entry.content is not None]
    assert len(packed("x", members, 0.0)) <= budget + 1024 + 100 * len(members)


def test_those_that_come_first_are_whole() -> None:
    noise = os.urandom(20_000).hex().encode()
    listed = [
        ArchiveMember(Part(name=name, about=""), noise, False)
        for name in ("first.json", "second.json", "third.txt")
    ]

    first, second, third = fitted(listed, 36_000)

    assert first.content == noise
    assert second.content is not None
    assert noise.startswith(second.content)
    assert second.part.name == "second.json.cut"
    assert third.part.cut
    assert len(third.content or b"") < len(second.content)
