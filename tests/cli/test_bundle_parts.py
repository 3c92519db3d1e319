"""What is removed from a bundle, what is renamed in it, and how it is made to fit."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netloom.cli.bundle.archive import Entry, fitted, packed
from netloom.cli.bundle.manifest import Part
from netloom.cli.bundle.pseudonyms import Pseudonyms
from netloom.cli.bundle.secrets import REMOVED, Secrets, is_secret_name

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "dbPassword", "token", "apiToken", "api_key", "key", "privateKey", "private-key",
     "clientSecret", "credentials", "caCert", "certificate-data", "psk", "kubeconfig", "authToken"],
)  # fmt: skip
def test_a_name_that_looks_like_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["name", "type", "pools", "cidr", "mtu", "monkey", "keepalive", "bridge", "subnet", "author", "passive"],
)
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
    ],
)
def test_a_secret_in_a_text_is_removed(text: str, secret: str) -> None:
    cleaned = Secrets().text(text)

    assert secret not in cleaned
    assert REMOVED in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "netloom/web/eth0 had lost, and has again: route 10.78.0.1/32",
        "CNI_ARGS=K8S_POD_NAME=web;K8S_POD_NAMESPACE=shop;IgnoreUnknown=1",
        "nobody reads the key `Mtu`",
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
        Entry(
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
        Entry(Part(name=name, about=""), noise, False) for name in ("first.json", "second.json", "third.txt")
    ]

    first, second, third = fitted(listed, 36_000)

    assert first.content == noise
    assert second.content is not None
    assert noise.startswith(second.content)
    assert second.part.name == "second.json.cut"
    assert third.part.cut
    assert len(third.content or b"") < len(second.content)
