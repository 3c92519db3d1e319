"""IPv6 that is off, or that shall not make addresses of its own."""

from __future__ import annotations

import pytest

from netloom.kernel import Address, Namespace, Plan, Refused, Scope, Sysctl, Up, Veth, apply, check, remove
from netloom.kernel.objects.link import find

pytestmark = pytest.mark.kernel

PAIR = Veth("nl1", "eth0", mac="02:00:00:00:00:01", peer_mac="02:00:00:00:00:02")
OFF = Sysctl("net/ipv6/conf/eth0/disable_ipv6", "1", on="attachment")


def listed(namespace: Namespace, name: str) -> list[str]:
    """A link's IPv6 addresses, as the kernel lists them for everybody."""
    with namespace.entered(), open("/proc/thread-self/net/if_inet6") as file:
        return [line.split()[0] for line in file if line.split()[5] == name]


def test_an_address_is_refused_where_ipv6_is_off(host: Namespace, pod: Namespace) -> None:
    plan = Plan((PAIR, OFF, Up("eth0", on="attachment"), Address("eth0", "fd00::2/128", on="attachment")))
    with pytest.raises(Refused):
        apply(plan, Scope(host, pod))
    assert find(host, "nl1") is None


def test_an_address_may_switch_ipv6_on(host: Namespace, pod: Namespace) -> None:
    apply(Plan((PAIR, OFF, Up("eth0", on="attachment"))), Scope(host, pod))
    plan = Plan((Address("eth0", "fd00::2/128", switch_on=True, on="attachment"),))
    apply(plan, Scope(host, pod))
    assert check(plan, Scope(host, pod)) == []


def test_what_was_switched_on_is_off_again_if_the_plan_fails(host: Namespace, pod: Namespace) -> None:
    apply(Plan((PAIR, OFF, Up("eth0", on="attachment"))), Scope(host, pod))
    address = Address("eth0", "fd00::2/128", switch_on=True, on="attachment")
    with pytest.raises(Refused):
        apply(Plan((address, Address("none", "10.0.0.1/24"))), Scope(host, pod))
    assert check(Plan((OFF,)), Scope(host, pod)) == []


def test_a_link_without_link_local_addresses_has_none_when_it_is_up(host: Namespace, pod: Namespace) -> None:
    up = (Up("nl1", link_local=False), Up("eth0", on="attachment"))
    apply(Plan((PAIR, *up)), Scope(host, pod))
    assert listed(host, "nl1") == []
    assert listed(pod, "eth0") != []
    remove(Plan((PAIR, *up)), Scope(host, pod))
