from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.kernel import (
    AnyObject,
    BridgePort,
    Conflict,
    Plan,
    PortVlan,
    Route,
    Up,
    Vlan,
    Vrf,
    VrfMember,
    WireguardPeer,
    check,
    remove,
)
from netloom.kernel.netlink import route as wire
from netloom.kernel.objects.link import GROUP
from netloom.kernel.values import family_of, packed_network

from ...fixtures.kernel import NamespacePair, changed, new_pair
from . import dumped, promises
from .conflicts import FULL as FOREIGN
from .conflicts import Foreign
from .full_rows import DEVICE, FULL, KEYS, PUBLIC, STRANGER, VLANS, text
from .row import PAIR, PAIR_UP, Drift, Row
from .rows import KERNEL

pytestmark = pytest.mark.fullkernel

EVERY = (*FULL, *KERNEL)
DRIFTS = [(row, drift) for row in FULL for drift in row.drifts]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NamespacePair]:
    for name, key in KEYS.items():
        (tmp_path / name).write_text(text(key) + "\n")
    monkeypatch.chdir(tmp_path)
    with new_pair(dumped.lines) as pair:
        yield pair


@pytest.mark.parametrize("row", EVERY, ids=[row.name for row in EVERY])
def test_an_object_is_made_once_and_removed_without_a_trace(pair: NamespacePair, row: Row) -> None:
    promises.is_made_once_and_removed(pair, row)


@pytest.mark.parametrize("row", FULL, ids=[row.name for row in FULL])
def test_an_apply_is_undone_exactly(pair: NamespacePair, row: Row) -> None:
    promises.undo_restores(pair, row)


@pytest.mark.parametrize(
    ("row", "drift"), DRIFTS, ids=[f"{row.name}: {drift.commands[-1]}" for row, drift in DRIFTS]
)
def test_what_was_changed_by_hand_is_found_and_only_ours_is_removed(
    pair: NamespacePair, row: Row, drift: Drift
) -> None:
    promises.drift_is_found(pair, row, drift)


@pytest.mark.parametrize("foreign", FOREIGN, ids=[foreign.name for foreign in FOREIGN])
def test_what_somebody_else_has_put_in_the_place_of_an_object_is_left_alone(
    pair: NamespacePair, foreign: Foreign
) -> None:
    promises.foreign_is_left_alone(pair, foreign)


def test_a_network_that_another_peer_took_away_is_found(pair: NamespacePair) -> None:
    peer = WireguardPeer("wg1", PUBLIC, ("10.1.0.0/16",))
    pair.set((DEVICE, peer))
    pair.by_hand([f"wg set wg1 peer {STRANGER} allowed-ips 10.1.0.0/16"])
    assert [found.field for found in peer.check(pair.scope)] == ["allowed"]


def test_a_peer_that_roams_is_as_planned(pair: NamespacePair) -> None:
    peer = WireguardPeer("wg1", PUBLIC, ("10.1.0.0/16",), endpoint="192.0.2.9:51820")
    pair.set((DEVICE, peer))
    pair.by_hand([f"wg set wg1 peer {PUBLIC} endpoint 192.0.2.10:1"])
    assert peer.check(pair.scope) == []


def test_a_device_whose_maker_died_before_it_had_a_key_is_removed(pair: NamespacePair) -> None:
    before = pair.snapshot(DEVICE)
    pair.by_hand([f"ip link add wg1 group {GROUP} type wireguard"])
    remove(Plan((DEVICE,)), pair.scope)
    assert changed(before, pair.snapshot(DEVICE)) == []


def test_a_device_is_removed_when_its_key_file_is_gone(pair: NamespacePair) -> None:
    before = pair.snapshot(DEVICE)
    pair.set((DEVICE,))
    Path("own.key").unlink()
    remove(Plan((DEVICE,)), pair.scope)
    assert changed(before, pair.snapshot(DEVICE)) == []


def test_a_device_that_somebody_else_made_stays_whether_it_has_a_key_or_not(pair: NamespacePair) -> None:
    pair.by_hand(["ip link add wg1 type wireguard"])
    before = pair.snapshot(DEVICE)
    with pytest.raises(Conflict) as refused:
        remove(Plan((DEVICE,)), pair.scope)
    assert [found.field for found in refused.value.differences] == ["owner"]
    assert changed(before, pair.snapshot(DEVICE)) == []


def test_vlans_and_vrfs_may_be_referred_to_by_another_name(pair: NamespacePair) -> None:
    pair.set((PAIR, Vrf("vrf1", 100)))
    pair.by_hand([f"ip link property add dev {name} altname the-{name}" for name in ("nl1", "vrf1")])
    objects: tuple[AnyObject, ...] = (Vlan("nl1.7", "the-nl1", 7), VrfMember("the-nl1", "the-vrf1"))
    before = pair.snapshot(PAIR)
    pair.set(objects)
    assert check(Plan(objects), pair.scope) == []
    remove(Plan(objects), pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


def test_a_port_gets_its_former_vlan_for_untagged_frames_back(pair: NamespacePair) -> None:
    pair.set((PAIR, VLANS, BridgePort("nl1", "br1"), PortVlan("nl1", 5, pvid=True, untagged=True)))
    other = PortVlan("nl1", 10, pvid=True, untagged=True)
    before = pair.snapshot(other)
    undo = other.apply(pair.scope)
    assert undo is not None
    undo()
    assert changed(before, pair.snapshot(other)) == []


@pytest.mark.parametrize("destination", ["10.1.0.2/32", "fd01::2/128"])
def test_a_lookup_answers_with_the_tables_own_entry(pair: NamespacePair, destination: str) -> None:
    """Also for a link of a VRF, whose packets go by its table."""
    packed, prefix = packed_network(destination)
    connection = pair.scope.host.route
    pair.set((*PAIR_UP, Vrf("vrf1", 100), Up("vrf1")))
    for table in (wire.MAIN, 100):
        if table == 100:
            pair.set((VrfMember("nl1", "vrf1"),))
        ours = Route(destination, link="nl1", table=table, mtu=1300)
        pair.set((ours,))
        index = connection.index("nl1")
        answer = connection.ask(wire.GET, wire.matching(family_of(packed), packed, index))
        assert answer is not None
        found = wire.decode(answer)
        assert (found.destination, found.prefix, found.table, found.mtu) == (packed, prefix, table, 1300)
        assert found.hops == (wire.RouteHop(index, None),)
        assert ours.check(pair.scope) == []
        remove(Plan((ours,)), pair.scope)
        assert [difference.what for difference in ours.check(pair.scope)] == ["missing"]
