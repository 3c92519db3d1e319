"""Podman, unchanged, runs containers on netloom's networks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from netloom.cni.plugin import inside

from ..fixtures.node import POOLS
from .commands import CommandFailed, eventually
from .connections import pings, visits
from .greeting import GREETING, greeter, greeting
from .host import ADDRESSES, OUTSIDE, PLUGIN_DIRS, Host, loom
from .podman import Podman

pytestmark = pytest.mark.interop

# What the libcni of Debian's podman knows; 1.1.0 is too new for it.
VERSION = "1.0.0"
FOREVER = ("sleep", "1000")
SERVE = ("sh", "-c", f"while true; do echo -n {GREETING} | nc -l -p 80; done")
OTHER_POOLS = ({"cidr": "10.19.0.0/16"}, {"cidr": "fd19::/64"})


@pytest.fixture
def podman(
    running: Host,
    tmp_path: Path,
    shared_cache: Path,  # noqa: ARG001
) -> Iterator[Podman]:
    running.network(loom(), name="net", version=VERSION)
    with Podman(PLUGIN_DIRS, running.confs, tmp_path, running.plugin_environment) as podman:
        yield podman


def addresses(podman: Podman, name: str, network: str = "net") -> tuple[str, str]:
    """Of both families, as podman tells them."""
    settings = podman.inspect(name)["Networks"][network]
    return settings["IPAddress"], settings["GlobalIPv6Address"]


def ping(podman: Podman, name: str, *targets: str) -> None:
    podman.exec(name, pings(*targets))


def interfaces(podman: Podman, name: str) -> dict[str, str]:
    """A container's interfaces, and the MAC of each."""
    lines = podman.exec(name, ("ip", "-o", "link")).splitlines()
    words = [line.replace("@", ": ").split() for line in lines]
    return {line[1].rstrip(":"): line[line.index("brd") - 1] for line in words}


def test_two_containers_reach_each_other_the_host_and_beyond_in_both_families(podman: Podman) -> None:
    podman.run("one", "net", FOREVER)
    podman.run("two", "net", FOREVER)
    one, two = addresses(podman, "one"), addresses(podman, "two")

    for address, pool in zip((*one, *two), POOLS * 2, strict=True):
        assert ip_address(address) in ip_network(pool["cidr"])
    ping(podman, "one", *two, *OUTSIDE)
    ping(podman, "two", *one)
    with greeter() as port:
        for name in ("one", "two"):
            assert podman.exec(name, visits(port, *ADDRESSES)).splitlines() == [GREETING] * 2


def test_a_container_keeps_the_addresses_and_the_mac_that_it_is_run_with(
    podman: Podman, running: Host
) -> None:
    wanted = ("10.9.0.77", "fd09::77")
    podman.run("one", "net", FOREVER, ip=wanted[0], ip6=wanted[1], mac="02:00:00:00:00:77")
    podman.run("two", "net", FOREVER)

    for _ in range(2):
        assert addresses(podman, "one") == wanted
        assert interfaces(podman, "one")["eth0"] == "02:00:00:00:00:77"
        ping(podman, "two", *wanted)
        assert running.audit() == []
        podman.restart("one")


def test_an_address_of_one_family_is_asked_for_and_the_other_is_given(podman: Podman) -> None:
    podman.run("one", "net", FOREVER, ip="10.9.0.77")
    ipv4, ipv6 = addresses(podman, "one")
    assert ipv4 == "10.9.0.77"
    assert ip_address(ipv6) in ip_network(POOLS[1]["cidr"])


def test_podman_says_which_address_could_not_be_had(podman: Podman, running: Host) -> None:
    podman.run("one", "net", FOREVER, ip="10.9.0.77")
    before = running.links()
    with pytest.raises(CommandFailed, match=r"10\.9\.0\.77 is in use by .*/eth0"):
        podman.run("two", "net", FOREVER, ip="10.9.0.77")
    with pytest.raises(CommandFailed, match="is in none of the pools"):
        podman.run("three", "net", FOREVER, ip="10.20.0.1")
    assert running.links() == before
    assert running.audit() == []


def test_a_container_asks_the_networks_name_servers(podman: Podman, running: Host) -> None:
    dns = {"nameservers": ["10.9.0.53", "fd09::53"], "search": ["svc.example", "example"]}
    running.network(loom(pools=OTHER_POOLS, dns=dns), name="named", version=VERSION)
    podman.run("one", "named", FOREVER)
    lines = podman.exec("one", ("cat", "/etc/resolv.conf")).splitlines()
    # Podman puts the host's own behind them.
    assert lines[:3] == ["search svc.example example", "nameserver 10.9.0.53", "nameserver fd09::53"]


def test_a_restarted_container_is_attached_again_in_its_new_namespace(podman: Podman, running: Host) -> None:
    identity = podman.run("one", "net", FOREVER)
    podman.run("two", "net", FOREVER)
    sandbox = podman.inspect("one")["SandboxKey"]

    for _ in range(3):
        podman.restart("one")

    running.await_dels()
    assert podman.inspect("one")["SandboxKey"] != sandbox
    assert len(running.ledger().of_container(identity)) == 1
    assert len(running.links()) == 2
    assert running.audit() == []
    ping(podman, "two", *addresses(podman, "one"))
    ping(podman, "one", *ADDRESSES)


def test_containers_that_ended_leave_nothing_however_they_ended(podman: Podman, running: Host) -> None:
    for name in ("removed", "stopped", "killed"):
        podman.run(name, "net", FOREVER)
    podman.run("brief", "net", ("sleep", "0.1"))
    assert podman.run("waited-for", "net", ("cat", "/proc/sys/net/ipv4/ip_forward"), detach=False) == "0"

    podman.remove("removed")
    podman.stop("stopped")
    podman.kill("killed")

    assert eventually(lambda: running.ledger().places() == [], within=30), running.ledger().places()
    assert running.links() == []
    assert running.audit() == []


def test_a_container_on_two_networks_has_an_interface_on_each(podman: Podman, running: Host) -> None:
    running.network(loom(pools=OTHER_POOLS), name="other", version=VERSION)
    podman.run("both", "net,other", FOREVER)
    podman.run("one", "net", FOREVER)
    podman.run("two", "other", FOREVER)

    assert set(interfaces(podman, "both")) == {"lo", "eth0", "eth1"}
    ping(podman, "both", *addresses(podman, "one"), *addresses(podman, "two", "other"), *OUTSIDE)
    ping(podman, "one", *addresses(podman, "both"))
    ping(podman, "two", *addresses(podman, "both", "other"))
    assert running.audit((*POOLS, *OTHER_POOLS)) == []
    podman.remove("both")
    running.await_dels()
    assert len(running.links()) == 2
    assert running.audit((*POOLS, *OTHER_POOLS)) == []


def test_a_container_that_runs_joins_a_network_and_leaves_it(podman: Podman, running: Host) -> None:
    running.network(loom(pools=OTHER_POOLS), name="other", version=VERSION)
    podman.run("one", "net", FOREVER)
    podman.run("two", "other", FOREVER)

    podman.connect("other", "one")
    ping(podman, "two", *addresses(podman, "one", "other"))
    ping(podman, "one", *addresses(podman, "two", "other"), *OUTSIDE)
    podman.disconnect("other", "one")

    running.await_dels()
    assert set(interfaces(podman, "one")) == {"lo", "eth0"}
    ping(podman, "one", *OUTSIDE)
    assert running.audit((*POOLS, *OTHER_POOLS)) == []


def test_a_container_whose_network_is_reloaded_keeps_its_addresses(podman: Podman, running: Host) -> None:
    podman.run("one", "net", FOREVER)
    before = addresses(podman, "one"), interfaces(podman, "one")
    podman.reload("one")
    assert (addresses(podman, "one"), interfaces(podman, "one")) == before
    ping(podman, "one", *OUTSIDE)
    assert running.audit() == []


def test_many_containers_start_and_end_at_once(podman: Podman, running: Host) -> None:
    names = [f"c{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: podman.run(name, "net", FOREVER), names))
        assert len(running.links()) == len(names)
        assert running.audit() == []
        list(pool.map(podman.remove, names))
    running.await_dels()
    assert running.ledger().places() == []
    assert running.links() == []
    assert running.audit() == []


def test_a_published_port_leads_to_the_container_until_it_ends(podman: Podman, running: Host) -> None:
    portmap: dict[str, Any] = {"type": "portmap", "capabilities": {"portMappings": True}}
    running.network(loom(), portmap, version=VERSION)
    podman.run("one", "net", SERVE, publish=["8080:80"])

    assert eventually(lambda: greeting("127.0.0.1", 8080) == GREETING, within=30)
    assert eventually(lambda: greeting(ADDRESSES[0], 8080) == GREETING, within=30)
    with inside(running.outside):
        assert eventually(lambda: greeting(ADDRESSES[0], 8080) == GREETING, within=30)
    podman.stop("one")
    running.await_dels()
    assert greeting(ADDRESSES[0], 8080) is None


def test_containers_live_on_and_can_be_stopped_while_the_agent_is_dead(podman: Podman, running: Host) -> None:
    for name in ("stays", "stops", "restarts"):
        podman.run(name, "net", FOREVER)

    running.kill()
    ping(podman, "stays", *addresses(podman, "restarts"), *ADDRESSES)
    podman.stop("stops")
    with pytest.raises(CommandFailed, match="agent"):
        podman.restart("restarts")
    running.start()
    podman.start("restarts")

    assert running.audit() == []
    assert len(running.links()) == 2
    ping(podman, "stays", *addresses(podman, "restarts"), *OUTSIDE)


def test_podman_says_that_the_agent_does_not_run(podman: Podman, running: Host) -> None:
    running.stop()
    with pytest.raises(CommandFailed, match=str(running.socket)):
        podman.run("one", "net", FOREVER)
    running.start()
    assert running.links() == []
    assert running.audit() == []
    podman.run("two", "net", FOREVER)
    ping(podman, "two", *OUTSIDE)
