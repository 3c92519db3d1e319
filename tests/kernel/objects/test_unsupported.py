"""What this kernel may lack. Where a lane's kernel has a feature, the rows test it instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.kernel import (
    AnyObject,
    Bridge,
    BridgePort,
    Dummy,
    Ingress,
    KernelError,
    Plan,
    PortVlan,
    Redirect,
    Refused,
    Unsupported,
    Up,
    Vlan,
    Vrf,
    WireguardDevice,
    apply,
    remove,
)
from netloom.kernel.netlink.connection import NetlinkConnection

from ...fixtures.kernel import NamespacePair, changed, new_pair
from . import listed
from .full_rows import KEYS, text
from .row import BOTH_UP, BRIDGE, PAIR

pytestmark = pytest.mark.kernel

LACKING: dict[str, tuple[str, AnyObject, tuple[AnyObject, ...]]] = {
    "VLANs": ("vlan", Vlan("nl1.7", "nl1", 7), (PAIR,)),
    "VRFs": ("vrf", Vrf("vrf1", 100), ()),
    "dummies": ("dummy", Dummy("d1"), ()),
    "WireGuard": ("wireguard", WireguardDevice("wg1", "own.key"), ()),
    "matchall": (
        "matchall",
        Redirect("nl1", "nl2", classifier="matchall"),
        (*BOTH_UP, Ingress("nl1")),
    ),
    "bridges of VLANs": ("bridge-vlan", Bridge("br1", vlan_filtering=True), ()),
    "VLANs of ports": ("bridge-vlan", PortVlan("nl1", 7), (PAIR, BRIDGE, BridgePort("nl1", "br1"))),
    "VLANs of the bridge": ("bridge-vlan", PortVlan("br1", 7, itself=True), (BRIDGE,)),
}


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NamespacePair]:
    (tmp_path / "own.key").write_text(text(KEYS["own.key"]))
    monkeypatch.chdir(tmp_path)
    with new_pair(listed.lines) as pair:
        yield pair


@pytest.mark.parametrize(("feature", "item", "setup"), LACKING.values(), ids=LACKING.keys())
def test_a_kernel_without_the_feature_is_told_by_its_name_and_left_as_it_was(
    pair: NamespacePair, feature: str, item: AnyObject, setup: tuple[AnyObject, ...]
) -> None:
    pair.set(setup)
    before = pair.snapshot(item)
    with pytest.raises(Unsupported) as refused:
        apply(Plan((item,)), pair.scope)
    assert refused.value.feature == feature
    assert changed(before, pair.snapshot(item)) == []


@pytest.mark.parametrize(("feature", "item", "setup"), LACKING.values(), ids=LACKING.keys())
def test_what_a_kernel_cannot_have_is_missing_and_its_removal_fine(
    pair: NamespacePair, feature: str, item: AnyObject, setup: tuple[AnyObject, ...]
) -> None:
    del feature
    pair.set(setup)
    assert [found.what for found in item.check(pair.scope)] == ["missing"]
    remove(Plan((item,)), pair.scope)


def test_a_plan_that_fails_for_a_feature_takes_back_what_it_made(pair: NamespacePair) -> None:
    before = pair.snapshot(PAIR)
    with pytest.raises(Unsupported):
        apply(Plan((*BOTH_UP, BRIDGE, BridgePort("nl1", "br1"), Up("br1"), Dummy("d1"))), pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


def test_a_redirect_takes_what_the_kernel_has(pair: NamespacePair) -> None:
    pair.set((*BOTH_UP, Ingress("nl1"), Redirect("nl1", "nl2", classifier="auto")))
    assert Redirect("nl1", "nl2", classifier="u32").check(pair.scope) == []


def test_what_the_kernel_lacks_is_asked_for_once(
    pair: NamespacePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.set((*BOTH_UP, Ingress("nl1"), Redirect("nl1", "nl2")))
    refusals: list[Refused] = []
    change = NetlinkConnection.change

    def counted(connection: NetlinkConnection, kind: int, flags: int, payload: bytes) -> None:
        try:
            change(connection, kind, flags, payload)
        except Refused as refused:
            refusals.append(refused)
            raise

    monkeypatch.setattr(NetlinkConnection, "change", counted)
    pair.set((Redirect("nl1", "nl2", priority=2), Redirect("nl1", "nl2", priority=3)))
    assert refusals == []


@pytest.mark.parametrize("item", [Vlan("v7", "absent", 7), PortVlan("absent", 7), PortVlan("nl1", 7)])
def test_what_stands_on_nothing_is_no_lack_of_a_feature(pair: NamespacePair, item: AnyObject) -> None:
    pair.set((PAIR,))
    with pytest.raises(KernelError) as refused:
        item.apply(pair.scope)
    assert not isinstance(refused.value, Unsupported)
