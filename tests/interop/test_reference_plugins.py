"""The reference plugins, run by netloom's runtime in real namespaces.

Two releases: the newest with CNI 1.1.0, and Debian's with 1.0.0. Each test has a host namespace of
its own, so that what the plugins themselves leave (bridges, chains of the firewall) goes with it;
what they do clean up must be gone after DEL.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from netloom.cni import (
    CNIError,
    Endpoint,
    Failures,
    NetworkConfig,
    PluginNotFound,
    Result,
    Runtime,
    ValidAttachment,
    parse_network,
)
from netloom.cni.plugin import inside
from netloom.cni.versions import at_least

from ..lanes import PEERS

pytestmark = pytest.mark.interop

PLUGINS = (
    "bridge",
    "ptp",
    "macvlan",
    "loopback",
    "host-local",
    "static",
    "portmap",
    "bandwidth",
    "tuning",
    "firewall",
)
HOST_PORT = 8080
PORT_MAPPINGS = {"portMappings": [{"hostPort": HOST_PORT, "containerPort": 80, "protocol": "tcp"}]}
BANDWIDTH = {
    "bandwidth": {
        "ingressRate": 8_000_000,
        "ingressBurst": 800_000,
        "egressRate": 4_000_000,
        "egressBurst": 400_000,
    }
}


class Release(NamedTuple):
    directory: Path
    cni_version: str


RELEASES = {
    "v1.9.1": Release(PEERS / "plugins", "1.1.0"),
    "debian-1.1.1": Release(Path("/usr/lib/cni"), "1.0.0"),
}


class Site:
    """A host with a release of the plugins, a runtime, and the state that both keep."""

    def __init__(self, release: Release, directory: Path, new_netns: Callable[[], str]) -> None:
        self.release = release
        self.cache = directory / "cache"
        self.addresses = directory / "addresses"
        self.tuning = directory / "tuning"
        self.runtime = Runtime([str(release.directory)], cache_dir=str(self.cache), timeout=30)
        self._new_netns = new_netns

    def container(self, name: str, **fields: Any) -> Endpoint:
        return Endpoint(name, self._new_netns(), **fields)

    def network(self, *plugins: dict[str, Any], name: str = "net") -> NetworkConfig:
        document = {"cniVersion": self.release.cni_version, "name": name, "plugins": plugins}
        return parse_network(json.dumps(document).encode())

    def pool(self, *subnets: str, **fields: Any) -> dict[str, Any]:
        ranges = [[{"subnet": subnet}] for subnet in subnets or ("10.88.0.0/24",)]
        return {"type": "host-local", "dataDir": str(self.addresses), "ranges": ranges} | fields

    def bridge(self, **fields: Any) -> dict[str, Any]:
        return {"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": self.pool()} | fields

    def ptp(self, **fields: Any) -> dict[str, Any]:
        ipam = self.pool("10.89.0.0/24", routes=[{"dst": "0.0.0.0/0"}])
        return {"type": "ptp", "ipam": ipam} | fields

    def macvlan(self, address: str = "10.90.0.2/24") -> dict[str, Any]:
        """macvlan over `uplink`, with its other end in a namespace of its own (10.90.0.1)."""
        if not os.path.exists("/proc/sys/net/ipv4/conf/uplink"):
            outside = self._new_netns()
            ip("link", "add", "uplink", "type", "veth", "peer", "name", "far", "netns", Path(outside).name)
            ip("link", "set", "uplink", "up")
            ip("addr", "add", "10.90.0.1/24", "dev", "far", netns=outside)
            ip("link", "set", "far", "up", netns=outside)
        ipam = {"type": "static", "addresses": [{"address": address, "gateway": "10.90.0.1"}]}
        return {"type": "macvlan", "master": "uplink", "mode": "bridge", "ipam": ipam}

    def check(self, network: NetworkConfig, endpoint: Endpoint) -> None:
        """CHECK must succeed; but for Debian's portmap, which looks for rules of IPv4 in ip6tables."""
        mapped = "portMappings" in endpoint.capability_args
        if self.release is not RELEASES["debian-1.1.1"] or not mapped:
            self.runtime.check(network, endpoint)
            return
        with pytest.raises(CNIError, match="could not check ipv6 dnat") as caught:
            self.runtime.check(network, endpoint)
        assert caught.value.plugin == "portmap"

    def reserved(self, network: str = "net") -> dict[str, str]:
        """host-local's files: each address, and the container that has it."""
        found = (self.addresses / network).glob("[0-9a-f]*[.:]*")
        return {path.name: path.read_text().split()[0] for path in found}

    def cached(self) -> list[str]:
        return [it.container_id for it in self.runtime.attachments()]


@pytest.fixture(params=list(RELEASES))
def site(
    request: pytest.FixtureRequest,
    host: str,  # noqa: ARG001
    new_netns: Callable[[], str],
    tmp_path: Path,
) -> Site:
    return Site(RELEASES[request.param], tmp_path, new_netns)


def output(*command: str, netns: str | None = None) -> str:
    if netns is None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    else:
        with inside(netns):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def ip(*words: str, netns: str | None = None) -> str:
    return output("ip", *words, netns=netns)


def links(netns: str | None = None) -> dict[str, dict[str, Any]]:
    return {link["ifname"]: link for link in json.loads(ip("-json", "-details", "addr", netns=netns))}


def addresses(netns: str | None, ifname: str) -> list[str]:
    """The addresses of an interface, less those that the kernel gives to every link."""
    link = links(netns).get(ifname, {"addr_info": []})
    return [
        f"{it['local']}/{it['prefixlen']}"
        for it in link["addr_info"]
        if it["scope"] == "global" or ifname == "lo"
    ]


def ping(address: str, *, netns: str | None = None) -> None:
    output("ping", "-c", "1", "-i", "0.2", "-w", "10", "-q", address, netns=netns)


def sysctl(name: str, netns: str) -> str:
    with inside(netns):
        return Path("/proc/sys", name).read_text().strip()


def rules() -> str:
    """All packet filtering of the host; only iptables shows the comments that it made."""
    return "".join(map(output, ("iptables-save", "ip6tables-save"))) + output("nft", "list", "ruleset")


def result_of(site: Site, network: NetworkConfig, endpoint: Endpoint) -> Result:
    result = site.runtime.add(network, endpoint)
    assert isinstance(result, Result)
    return result


# Network lists that together use every plugin, with the arguments that they take.
LISTS: dict[str, tuple[Callable[[Site], list[dict[str, Any]]], dict[str, Any]]] = {
    "bridge": (lambda site: [site.bridge()], {}),
    "bridge, dual stack, masquerading": (
        lambda site: [site.bridge(ipMasq=True, ipam=site.pool("10.88.0.0/24", "fd00:88::/64"))],
        {},
    ),
    "bridge, portmap, firewall, bandwidth, tuning": (
        lambda site: [
            site.bridge(),
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
            {"type": "firewall", "backend": "iptables"},
            {"type": "bandwidth", "capabilities": {"bandwidth": True}},
            {
                "type": "tuning",
                "dataDir": str(site.tuning),
                "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"},
                "mtu": 1400,
            },
        ],
        PORT_MAPPINGS | BANDWIDTH,
    ),
    "ptp": (lambda site: [site.ptp()], {}),
    "ptp, masquerading, portmap": (
        lambda site: [
            site.ptp(ipMasq=True),
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
        PORT_MAPPINGS,
    ),
    "macvlan, static": (lambda site: [site.macvlan()], {}),
    "macvlan, host-local, tuning": (
        lambda site: [
            site.macvlan() | {"ipam": site.pool("10.90.0.0/24")},
            {"type": "tuning", "dataDir": str(site.tuning), "allmulti": True, "promisc": True},
        ],
        {},
    ),
    "loopback": (lambda _: [{"type": "loopback"}], {}),
}
every_list = pytest.mark.parametrize("name", LISTS)
lists_with_a_pool = pytest.mark.parametrize(
    "name", [name for name in LISTS if "static" not in name and "loopback" not in name]
)


def network_and_container(site: Site, name: str, container: str = "web-1") -> tuple[NetworkConfig, Endpoint]:
    plugins, capability_args = LISTS[name]
    return site.network(*plugins(site)), site.container(container, capability_args=capability_args)


@every_list
def test_everything_that_add_made_is_there_and_gone_after_del(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    host_before, container_before = set(links()), links(container.netns)

    result = result_of(site, network, container)
    site.check(network, container)

    assert site.runtime.cached_result(network, container) == result
    for address in result.ips:
        assert address.interface is not None
        interface = result.interfaces[address.interface]
        assert interface.sandbox == container.netns
        assert address.address in addresses(container.netns, interface.name)

    site.runtime.delete(network, container)

    assert set(links()) - host_before <= {"br0"}
    assert set(links(container.netns)) == set(container_before)
    assert site.reserved() == {}
    assert site.cached() == []
    assert list(site.tuning.glob("*.json")) == []
    for trace in (container.container_id, *(address.address.partition("/")[0] for address in result.ips)):
        assert trace not in rules()


@every_list
def test_del_may_be_repeated(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    site.runtime.add(network, container)
    for _ in range(3):
        site.runtime.delete(network, container)
    assert site.reserved() == {}


@every_list
def test_del_succeeds_for_what_was_never_added(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    site.runtime.delete(network, container)


@every_list
def test_del_succeeds_when_the_netns_is_gone(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    site.runtime.add(network, container)
    output("ip", "netns", "del", Path(container.netns).name)
    site.runtime.delete(network, container)
    assert site.reserved() == {}
    assert site.cached() == []


@lists_with_a_pool
def test_del_without_a_netns_frees_the_address(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    site.runtime.add(network, container)
    held = site.reserved()
    site.runtime.delete(network, Endpoint(container.container_id, "", container.ifname))
    assert held != {}
    assert site.reserved() == {}


@every_list
def test_an_attachment_can_be_made_again_after_del(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    for _ in range(2):
        site.runtime.add(network, container)
        site.check(network, container)
        site.runtime.delete(network, container)


@lists_with_a_pool
def test_adding_an_interface_twice_fails_and_leaves_the_first_whole(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    first = site.runtime.add(network, container)
    held = site.reserved()
    with pytest.raises(CNIError) as caught:
        site.runtime.add(network, container)
    assert caught.value.plugin == network.plugins[0].type
    assert str(caught.value).startswith(f'plugin type="{network.plugins[0].type}" failed (add): ')
    assert site.runtime.cached_result(network, container) == first
    assert site.reserved() == held
    site.check(network, container)


@pytest.mark.parametrize("name", ["bridge", "ptp", "macvlan, static", "loopback"])
def test_check_fails_when_the_interface_has_lost_its_address(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    site.runtime.add(network, container)
    device = "lo" if name == "loopback" else container.ifname
    ip("link", "set", device, "down", netns=container.netns)
    ip("addr", "flush", "dev", device, netns=container.netns)
    with pytest.raises(CNIError) as caught:
        site.runtime.check(network, container)
    assert caught.value.attachment == container.on(network.name)


@every_list
def test_check_fails_when_the_container_has_no_such_interface(site: Site, name: str) -> None:
    network, container = network_and_container(site, name)
    site.runtime.add(network, container)
    if name == "loopback":
        ip("link", "set", "lo", "down", netns=container.netns)
    else:
        ip("link", "del", container.ifname, netns=container.netns)
    with pytest.raises(CNIError):
        site.runtime.check(network, container)


@every_list
def test_status_says_that_add_would_work(site: Site, name: str) -> None:
    network, _ = network_and_container(site, name)
    site.runtime.status(network)
    without_plugins = Runtime(["/nowhere"])
    if at_least(network.cni_version, "1.1.0"):
        with pytest.raises(PluginNotFound):
            without_plugins.status(network)
    else:  # the verb is younger than the config: nothing is run
        without_plugins.status(network)


@every_list
def test_a_network_is_valid_and_names_its_capabilities(site: Site, name: str) -> None:
    network, _ = network_and_container(site, name)
    assert set(site.runtime.validate(network)) == set(LISTS[name][1])


@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_plugin_tells_the_versions_that_it_speaks(site: Site, plugin: str) -> None:
    info = site.runtime.version(plugin)
    assert site.release.cni_version in info.supported_versions
    assert "0.4.0" in info.supported_versions


def test_containers_on_a_bridge_reach_the_gateway_and_each_other(site: Site) -> None:
    network = site.network(site.bridge(ipam=site.pool("10.88.0.0/24", "fd00:88::/64")))
    first, second = site.container("c1"), site.container("c2")
    site.runtime.add(network, first)
    site.runtime.add(network, second)
    assert site.reserved() == {
        "10.88.0.2": "c1",
        "10.88.0.3": "c2",
        "fd00:88::2": "c1",
        "fd00:88::3": "c2",
    }
    assert addresses(None, "br0") == ["10.88.0.1/24", "fd00:88::1/64"]
    for address in ("10.88.0.1", "10.88.0.3", "fd00:88::1", "fd00:88::3"):
        ping(address, netns=first.netns)
    ping("10.88.0.2", netns=second.netns)
    ping("10.88.0.2")


def test_containers_on_ptp_reach_each_other_over_the_host(site: Site) -> None:
    network = site.network(site.ptp())
    first, second = site.container("c1"), site.container("c2")
    site.runtime.add(network, first)
    site.runtime.add(network, second)
    ping("10.89.0.1", netns=first.netns)
    ping("10.89.0.3", netns=first.netns)
    ping("10.89.0.2", netns=second.netns)


def test_containers_on_macvlan_reach_the_masters_network(site: Site) -> None:
    first, second = site.container("c1"), site.container("c2")
    network = site.network(site.macvlan("10.90.0.2/24"))
    other = site.network(site.macvlan("10.90.0.3/24"), name="other")
    site.runtime.add(network, first)
    site.runtime.add(other, second)
    ping("10.90.0.1", netns=first.netns)
    ping("10.90.0.3", netns=first.netns)
    assert links(first.netns)["eth0"]["linkinfo"]["info_kind"] == "macvlan"


def test_static_takes_its_address_from_the_arguments(site: Site) -> None:
    plugin = site.macvlan() | {"ipam": {"type": "static"}}
    network = site.network(plugin)
    container = site.container("c1", args=(("IgnoreUnknown", "1"), ("IP", "10.90.0.7/24")))
    site.runtime.add(network, container)
    assert addresses(container.netns, "eth0") == ["10.90.0.7/24"]
    ping("10.90.0.1", netns=container.netns)


def test_host_local_gives_the_address_that_a_capability_asks_for(site: Site) -> None:
    network = site.network(site.bridge(capabilities={"ips": True}))
    container = site.container("c1", capability_args={"ips": ["10.88.0.77"]})
    site.runtime.add(network, container)
    assert addresses(container.netns, "eth0") == ["10.88.0.77/24"]


def test_loopback_is_up_after_add(site: Site) -> None:
    network, container = site.network({"type": "loopback"}), site.container("c1", ifname="lo")
    assert "UP" not in links(container.netns)["lo"]["flags"]
    site.runtime.add(network, container)
    assert "UP" in links(container.netns)["lo"]["flags"]
    ping("127.0.0.1", netns=container.netns)
    site.runtime.delete(network, container)
    assert "UP" not in links(container.netns)["lo"]["flags"]


def test_tuning_sets_what_it_is_told_on_the_interface(site: Site) -> None:
    tuning = {
        "type": "tuning",
        "dataDir": str(site.tuning),
        "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1", "net.core.somaxconn": "500"},
        "mac": "02:00:00:00:00:09",
        "mtu": 1400,
        "promisc": True,
    }
    network, container = site.network(site.bridge(), tuning), site.container("c1")
    assert sysctl("net/core/somaxconn", container.netns) != "500"

    result = result_of(site, network, container)

    link = links(container.netns)["eth0"]
    assert (link["address"], link["mtu"], link["promiscuity"]) == ("02:00:00:00:00:09", 1400, 1)
    assert sysctl("net/ipv4/conf/eth0/arp_filter", container.netns) == "1"
    assert sysctl("net/core/somaxconn", container.netns) == "500"
    assert "02:00:00:00:00:09" in [it.mac for it in result.interfaces if it.sandbox]
    site.check(network, container)


def test_check_notices_a_sysctl_that_tuning_did_not_set(site: Site) -> None:
    tuning = {"type": "tuning", "dataDir": str(site.tuning), "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"}}
    network, container = site.network(site.bridge(), tuning), site.container("c1")
    site.runtime.add(network, container)
    with inside(container.netns):
        Path("/proc/sys/net/ipv4/conf/eth0/arp_filter").write_text("0")
    with pytest.raises(CNIError) as caught:
        site.runtime.check(network, container)
    assert caught.value.plugin == "tuning"


def test_a_mapped_port_leads_to_the_container_until_del(site: Site) -> None:
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    network = site.network(site.bridge(), portmap)
    container = site.container("web-1", capability_args=PORT_MAPPINGS)
    with inside(container.netns):
        server = socket.create_server(("", 80))
    with server:
        server.settimeout(5)
        site.runtime.add(network, container)
        assert "web-1" in rules()
        for address in ("127.0.0.1", "10.88.0.1"):
            with socket.create_connection((address, HOST_PORT), timeout=5), server.accept()[0]:
                pass
        site.runtime.delete(network, container)
        assert "web-1" not in rules()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", HOST_PORT), timeout=5)


def test_bandwidth_limits_both_directions_until_del(site: Site) -> None:
    bandwidth = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
    network = site.network(site.bridge(), bandwidth)
    container = site.container("c1", capability_args=BANDWIDTH)

    result = result_of(site, network, container)

    on_host = [it.name for it in result.interfaces if not it.sandbox]
    qdiscs = json.loads(output("tc", "-json", "qdisc"))
    rates = {it["dev"]: it["options"]["rate"] for it in qdiscs if it["kind"] == "tbf"}
    veth, ifb = (next(name for name in on_host if name.startswith(prefix)) for prefix in ("veth", "bwp"))
    assert rates == {veth: 1_000_000, ifb: 500_000}  # tc counts bytes
    ping("10.88.0.1", netns=container.netns)

    site.runtime.delete(network, container)

    assert set(links()) == {"lo", "br0"}


def test_the_firewall_lets_a_container_through_until_del(site: Site) -> None:
    network = site.network(site.bridge(), {"type": "firewall", "backend": "iptables"})
    container = site.container("c1")
    output("iptables", "-P", "FORWARD", "DROP")
    outside = site.container("outside").netns
    ip("link", "add", "uplink", "type", "veth", "peer", "name", "far", "netns", Path(outside).name)
    ip("addr", "add", "10.91.0.1/24", "dev", "uplink")
    ip("link", "set", "uplink", "up")
    ip("addr", "add", "10.91.0.2/24", "dev", "far", netns=outside)
    ip("link", "set", "far", "up", netns=outside)
    ip("route", "add", "default", "via", "10.91.0.1", netns=outside)

    site.runtime.add(network, container)
    ip("route", "replace", "default", "via", "10.88.0.1", netns=container.netns)
    assert "10.88.0.2" in rules()
    ping("10.91.0.2", netns=container.netns)
    site.runtime.delete(network, container)

    assert "10.88.0.2" not in rules()


@pytest.mark.parametrize("site", ["v1.9.1"], indirect=True)  # the first with nftables
def test_nftables_rules_of_port_mappings_and_masquerading_end_with_del(site: Site) -> None:
    portmap = {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}
    network = site.network(site.bridge(ipMasq=True, ipMasqBackend="nftables"), portmap)
    container = site.container("web-1", capability_args=PORT_MAPPINGS)
    site.runtime.add(network, container)
    site.check(network, container)
    assert "web-1" in rules()
    assert "10.88.0.2" in rules()
    site.runtime.delete(network, container)
    assert "web-1" not in rules()
    assert "10.88.0.2" not in rules()


def test_masquerading_ends_with_del(site: Site) -> None:
    network, container = site.network(site.bridge(ipMasq=True)), site.container("web-1")
    site.runtime.add(network, container)
    assert "web-1" in rules()
    site.runtime.delete(network, container)
    assert "web-1" not in rules()


def test_a_container_has_an_interface_on_each_of_two_networks(site: Site) -> None:
    one, two = (
        site.network(site.bridge(), name="one"),
        site.network(site.ptp(ipam=site.pool("10.89.0.0/24")), name="two"),
    )
    container = site.container("c1")
    second = Endpoint("c1", container.netns, "net1")
    site.runtime.add(one, container)
    site.runtime.add(two, second)

    assert addresses(container.netns, "eth0") == ["10.88.0.2/24"]
    assert addresses(container.netns, "net1") == ["10.89.0.2/24"]
    assert [(it.network, it.ifname) for it in site.runtime.attachments("c1")] == [
        ("one", "eth0"),
        ("two", "net1"),
    ]
    site.runtime.delete(one, container)
    assert addresses(container.netns, "net1") == ["10.89.0.2/24"]
    site.check(two, second)


@lists_with_a_pool
def test_gc_removes_only_the_stale_attachment(site: Site, name: str) -> None:
    network, kept = network_and_container(site, name, "kept")
    stale = site.container("stale")
    site.runtime.add(network, kept)
    site.runtime.add(network, stale)
    assert set(site.reserved().values()) == {"kept", "stale"}

    site.runtime.gc(network, [ValidAttachment("kept", "eth0")])

    assert set(site.reserved().values()) == {"kept"}
    assert site.cached() == ["kept"]
    assert "eth0" not in links(stale.netns)
    site.check(network, kept)


def test_gc_without_a_list_removes_every_attachment_of_the_network(site: Site) -> None:
    network, other = site.network(site.bridge()), site.network(site.ptp(), name="other")
    containers = [site.container(f"c{number}") for number in range(3)]
    for container in containers[:2]:
        site.runtime.add(network, container)
    site.runtime.add(other, containers[2])

    site.runtime.gc(network)

    assert site.reserved() == {}
    assert set(site.reserved("other").values()) == {"c2"}
    assert site.cached() == ["c2"]
    site.check(other, containers[2])


def test_gc_removes_an_attachment_whose_netns_is_gone(site: Site) -> None:
    network, container = site.network(site.bridge()), site.container("c1")
    site.runtime.add(network, container)
    output("ip", "netns", "del", Path(container.netns).name)
    site.runtime.gc(network, [])
    assert site.reserved() == {}
    assert site.cached() == []


def test_gc_goes_on_after_an_attachment_that_cannot_be_deleted(site: Site) -> None:
    plugins = [site.bridge(), {"type": "tuning", "dataDir": str(site.tuning)}]
    network = site.network(*plugins)
    for name in ("a", "b"):
        site.runtime.add(network, site.container(name))
    # host-local cannot free what it cannot lock: a directory in the place of its lock.
    lock = site.addresses / "net" / "lock"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(Failures) as caught:
        site.runtime.gc(network, [])
    stale = [it.attachment.container_id for it in caught.value.errors if it.attachment]
    assert stale == ["a", "b"]
    assert site.cached() == ["a", "b"]


def test_a_full_pool_is_an_error_until_an_address_is_freed(site: Site) -> None:
    ipam = site.pool() | {
        "ranges": [[{"subnet": "10.88.0.0/24", "rangeStart": "10.88.0.5", "rangeEnd": "10.88.0.5"}]]
    }
    network = site.network(site.bridge(ipam=ipam))
    first, second = site.container("c1"), site.container("c2")
    site.runtime.add(network, first)
    with pytest.raises(CNIError, match="no IP addresses available in range set") as caught:
        site.runtime.add(network, second, cleanup=True)
    assert caught.value.plugin == "bridge"
    assert site.cached() == ["c1"]
    assert "eth0" not in links(second.netns)
    site.runtime.delete(network, first)
    site.runtime.add(network, second)
    assert addresses(second.netns, "eth0") == ["10.88.0.5/24"]


def test_a_failed_add_leaves_nothing_when_cleanup_is_asked_for(site: Site) -> None:
    broken = {"type": "tuning", "dataDir": str(site.tuning), "sysctl": {"net.ipv4.conf.eth0.nonsense": "1"}}
    network, container = site.network(site.bridge(), broken), site.container("c1")
    with pytest.raises(CNIError) as caught:
        site.runtime.add(network, container, cleanup=True)
    assert caught.value.plugin == "tuning"
    assert set(links()) == {"lo", "br0"}
    assert "eth0" not in links(container.netns)
    assert site.reserved() == {}
    assert site.cached() == []


def test_what_a_failed_add_leaves_is_removed_by_del(site: Site) -> None:
    broken = {"type": "tuning", "dataDir": str(site.tuning), "sysctl": {"net.ipv4.conf.eth0.nonsense": "1"}}
    network, container = site.network(site.bridge(), broken), site.container("c1")
    with pytest.raises(CNIError):
        site.runtime.add(network, container)
    assert "eth0" in links(container.netns)
    assert set(site.reserved().values()) == {"c1"}
    site.runtime.delete(network, container)
    assert "eth0" not in links(container.netns)
    assert site.reserved() == {}


def test_status_asks_the_address_plugin_too(site: Site) -> None:
    network = site.network(site.bridge(ipam={"type": "nowhere-to-be-found"}))
    if site.release.cni_version == "1.0.0":  # older than the verb: nobody is asked
        site.runtime.status(network)
        return
    with pytest.raises(CNIError, match="nowhere-to-be-found") as caught:
        site.runtime.status(network)
    assert caught.value.plugin == "bridge"
