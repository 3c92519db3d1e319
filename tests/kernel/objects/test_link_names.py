"""Our links, all at once."""

from __future__ import annotations

import subprocess
import time

import pytest

from netloom.kernel import Bridge, Namespace, Plan, Scope, Up, Veth, apply
from netloom.kernel.netlink.link import LinkEntry
from netloom.kernel.objects.link import GROUP, link_names

pytestmark = pytest.mark.kernel


def test_our_links_are_listed_and_no_others(host: Namespace, pod: Namespace) -> None:
    apply(Plan((Veth("nl0", "eth0"), Bridge("br0"), Up("br0"))), Scope(host, pod))
    with host.entered():
        subprocess.run(["ip", "link", "add", "theirs", "type", "bridge"], check=True)
    index = host.route.index
    assert link_names(host) == {
        "nl0": LinkEntry(index("nl0"), "nl0", GROUP, False),
        "br0": LinkEntry(index("br0"), "br0", GROUP, True),
    }


def test_a_link_on_its_way_out_is_ours_still(host: Namespace) -> None:
    apply(Plan((Bridge("nl0"),)), Scope(host))
    with host.entered():
        subprocess.run(["ip", "link", "set", "nl0", "group", str(GROUP + 7)], check=True)
    assert [found.group for found in link_names(host).values()] == [GROUP + 7]


def test_a_namespace_without_links_of_ours_has_none(host: Namespace) -> None:
    assert link_names(host) == {}


def test_many_links_are_listed_in_one_go(host: Namespace) -> None:
    names = [f"nl{number}" for number in range(500)]
    for name in names:
        Bridge(name).apply(Scope(host))
    took = []
    for _ in range(5):
        start = time.monotonic()
        assert sorted(link_names(host)) == sorted(names)
        took.append(time.monotonic() - start)
    assert min(took) < 0.5
