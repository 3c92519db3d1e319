"""Values that the kernel writes otherwise than we do, or takes in part, and those that no one should try."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from netloom.kernel import Address, KernelError, Plan, Route, Rule, Sysctl, Tap, apply
from netloom.kernel.netlink import address, route, rule
from netloom.kernel.objects import AnyObject, WireguardDevice, WireguardPeer

from ...fixtures.kernel import NamespacePair, new_pair
from . import listed
from .full_rows import PUBLIC
from .row import PAIR_UP

pytestmark = pytest.mark.kernel


@pytest.fixture
def pair() -> Iterator[NamespacePair]:
    with new_pair(listed.lines) as pair:
        yield pair


@pytest.mark.parametrize("value", ["0x1", "01", " 1 "])
def test_a_number_is_the_same_however_it_is_written(pair: NamespacePair, value: str) -> None:
    setting = Sysctl("net/ipv4/ip_forward", value)
    assert [change.change for change in apply(Plan((setting, setting)), pair.scope)] == ["made", "kept"]
    assert setting.check(pair.scope) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("net/ipv4/tcp_rmem", "5000 x 1"),
        ("net/ipv4/ip_local_reserved_ports", "80,81,82"),
        ("net/ipv4/ip_default_ttl", "010"),
        ("net/ipv4/ip_forward", "maybe"),
    ],
)
def test_what_the_kernel_takes_otherwise_is_refused_and_undone(
    pair: NamespacePair, key: str, value: str
) -> None:
    setting = Sysctl(key, value)
    before = pair.read(setting)
    with pytest.raises(KernelError, match=f"cannot set sysctl {key}"):
        apply(Plan((setting,)), pair.scope)
    assert pair.read(setting) == before


def test_a_setting_that_was_empty_is_empty_again(pair: NamespacePair) -> None:
    setting = Sysctl("net/ipv4/ip_local_reserved_ports", "80-82")
    undo = setting.apply(pair.scope)
    assert undo is not None
    undo()
    assert pair.read(setting) == ""


def test_an_error_about_a_long_value_is_short(pair: NamespacePair) -> None:
    setting = Sysctl("net/ipv4/ip_forward", "1" * 100_000)
    with pytest.raises(KernelError) as refused:
        apply(Plan((setting,)), pair.scope)
    assert len(str(refused.value)) < 400
    assert all(len(str(found)) < 400 for found in setting.check(pair.scope))


@pytest.mark.parametrize("number", [0, (1 << 31) - 1, 1 << 31, 0xFFFFFFFE])
def test_a_tap_may_belong_to_anybody(pair: NamespacePair, number: int) -> None:
    tap = Tap("tap1", owner=number, group=number)
    apply(Plan((tap,)), pair.scope)
    assert tap.check(pair.scope) == []


@pytest.mark.parametrize("field", ["mtu", "advmss"])
def test_the_largest_values_of_a_route_are_kept_as_they_are(pair: NamespacePair, field: str) -> None:
    largest = {"mtu": 65520, "advmss": 65495}[field]
    pair.set(PAIR_UP)
    for destination in ("10.9.0.0/16", "fd09::/64"):
        item = Route(destination, link="nl1", **{field: largest})  # type: ignore[arg-type]
        apply(Plan((item,)), pair.scope)
        assert item.check(pair.scope) == []


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.mkdir()


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _noise(path: Path) -> None:
    path.write_bytes(bytes(range(128, 256)))


@pytest.mark.parametrize("make", [_fifo, _directory, _huge, _noise, None])
def test_what_is_no_key_file_is_refused_and_not_waited_for(
    pair: NamespacePair, tmp_path: Path, make: object
) -> None:
    path = tmp_path / ("key" * 60)
    if callable(make):
        make(path)
    key_file = f"{'/' * 2000}{path}"
    with pytest.raises(KernelError) as refused:
        WireguardDevice("wg1", key_file).apply(pair.scope)
    assert len(str(refused.value)) < 400
    with pytest.raises(KernelError):
        WireguardPeer("wg1", PUBLIC, (), preshared_key_file=key_file).check(pair.scope)


def test_one_of_thousands_is_found_by_little_more_than_listing_them(pair: NamespacePair) -> None:
    pair.set(PAIR_UP)
    numbers = [(high, low) for high in range(8) for low in range(1, 251)]
    batch = [f"addr add 10.{high}.{low}.1/32 dev nl1" for high, low in numbers]
    batch += [f"route add 10.{high}.{low}.2/32 dev nl1" for high, low in numbers]
    batch += [f"rule add pref {1000 + high * 250 + low} table 100" for high, low in numbers]
    with pair.scope.host.entered():
        listed.listing("ip -batch -", "\n".join(batch))
    connection = pair.scope.host.route
    link = address.of_link(connection.index("nl1"), socket.AF_INET)
    questions: tuple[tuple[AnyObject, int, bytes], ...] = (
        (Address("nl1", "10.7.250.1/32"), address.GET, link),
        (Route("10.7.250.2/32", link="nl1"), route.GET, route.of_table(socket.AF_INET, route.MAIN)),
        (Rule(3000, "ipv4", table=100), rule.GET, rule.everything(socket.AF_INET)),
    )
    for item, kind, question in questions:
        assert item.check(pair.scope) == []
        listing = _quickest(partial(connection.dump, kind, question))
        assert _quickest(partial(item.check, pair.scope)) < 2.5 * listing, item.label


def _quickest(action: Callable[[], object]) -> float:
    times = []
    for _ in range(10):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return min(times)
