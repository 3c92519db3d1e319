"""netloom in a list with the reference plugins, before and after them.

Each test is run by Go's cnitool and by our own library. What a plugin promises is looked at where it
has its effect: at a port, a queue, a rule, a packet that arrives.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netloom.cni.plugin import inside

from .callers import Caller, Cnitool, Library
from .commands import output
from .connections import answers, ping
from .greeting import GREETING, greeter, greeting
from .host import ADDRESSES, OUTSIDE, Host, loom

pytestmark = pytest.mark.interop

PORT = 8080
MAPPINGS = [{"hostPort": PORT, "containerPort": 80, "protocol": "tcp"}]
RATES = {
    "ingressRate": 8_000_000,
    "ingressBurst": 800_000,
    "egressRate": 4_000_000,
    "egressBurst": 400_000,
}


@pytest.fixture(params=[Cnitool, Library], ids=["cnitool", "netloom.cni"])
def caller(
    request: pytest.FixtureRequest,
    running: Host,
    shared_cache: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Caller:
    for name, value in running.plugin_environment.items():
        monkeypatch.setenv(name, value)
    made: Caller = request.param(running)
    return made


@pytest.fixture
def tuning(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The reference plugin's configuration; what it replaces it keeps in a directory of the test."""

    def configured(**keys: Any) -> dict[str, Any]:
        return {"type": "tuning", "dataDir": str(tmp_path / "tuning"), **keys}

    return configured


def portmap(backend: str) -> dict[str, Any]:
    return {"type": "portmap", "backend": backend, "snat": True, "capabilities": {"portMappings": True}}


def bridge(directory: Path) -> dict[str, Any]:
    ipam = {
        "type": "host-local",
        "dataDir": str(directory / "addresses"),
        "ranges": [[{"subnet": "10.88.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": ipam}


def addresses(result: dict[str, Any]) -> list[str]:
    return [ip["address"].partition("/")[0] for ip in result["ips"]]


def links(netns: str) -> dict[str, dict[str, Any]]:
    with inside(netns):
        return {it["ifname"]: it for it in json.loads(output(["ip", "-json", "-details", "addr"]))}


def rules() -> str:
    """All packet filtering of the host; only iptables shows the comments that it made."""
    saved = (["iptables-save"], ["ip6tables-save"], ["nft", "list", "ruleset"])
    return "".join(map(output, saved))


def require_nothing_left(host: Host) -> None:
    host.await_dels()
    assert host.links() == []
    assert host.audit() == []
    assert host.ledger().places() == []


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
def test_a_mapped_port_leads_to_the_container_until_del(
    caller: Caller, running: Host, new_netns: Callable[[], str], backend: str
) -> None:
    running.network(loom(), portmap(backend))
    server, client = new_netns(), new_netns()
    added = caller.add("net", server, portMappings=MAPPINGS)
    caller.add("net", client)

    caller.check("net", server, portMappings=MAPPINGS)
    with greeter(80, server):
        assert [greeting(host, PORT) for host in ("127.0.0.1", *ADDRESSES)] == [GREETING] * 3
        for netns in (running.outside, client, server):
            with inside(netns):
                assert [greeting(host, PORT) for host in ADDRESSES] == [GREETING] * 2
    caller.delete("net", server, portMappings=MAPPINGS)
    caller.delete("net", client)
    for trace in addresses(added):
        assert trace not in rules()
    require_nothing_left(running)


def test_bandwidth_is_limited_in_both_directions_until_del(caller: Caller, running: Host, netns: str) -> None:
    running.network(loom(), {"type": "bandwidth", "capabilities": {"bandwidth": True}})

    result = caller.add("net", netns, bandwidth=RATES)

    (veth,) = running.links()
    (ifb,) = (it["name"] for it in result["interfaces"] if it["name"].startswith("bwp"))
    qdiscs = json.loads(output(["tc", "-json", "qdisc"]))
    rates = {it["dev"]: it["options"]["rate"] for it in qdiscs if it["kind"] == "tbf"}
    assert rates == {veth: 1_000_000, ifb: 500_000}  # tc counts bytes
    caller.check("net", netns, bandwidth=RATES)
    ping(netns, *OUTSIDE)

    caller.delete("net", netns, bandwidth=RATES)
    assert ifb not in output(["ip", "link"])
    require_nothing_left(running)


def test_the_firewall_lets_a_container_through_until_del(
    caller: Caller, running: Host, new_netns: Callable[[], str]
) -> None:
    running.network(loom(), {"type": "firewall", "backend": "iptables"})
    running.network(loom(), name="plain")
    netns, other = new_netns(), new_netns()
    for command in ("iptables", "ip6tables"):
        output([command, "-P", "FORWARD", "DROP"])

    result = caller.add("net", netns)
    caller.add("plain", other)

    caller.check("net", netns)
    for address in addresses(result):
        assert address in rules()
    ping(netns, *OUTSIDE)
    assert not any(answers(other, address, within=0.2) for address in OUTSIDE)
    caller.delete("net", netns)
    caller.delete("plain", other)
    for address in addresses(result):
        assert address not in rules()
    require_nothing_left(running)


def test_traffic_flows_after_tuning_gave_the_container_another_mac(
    caller: Caller, running: Host, new_netns: Callable[[], str], tuning: Callable[..., dict[str, Any]]
) -> None:
    mac = "02:00:00:00:00:09"
    running.network(loom(), tuning(mac=mac))
    running.network(loom(), name="plain")
    tuned, other = new_netns(), new_netns()

    result = caller.add("net", tuned)
    caller.add("plain", other)

    assert links(tuned)["eth0"]["address"] == mac
    ping(tuned, *ADDRESSES, *OUTSIDE)
    ping(other, *addresses(result))
    caller.check("net", tuned)
    caller.delete("net", tuned)
    caller.delete("plain", other)
    require_nothing_left(running)


def test_what_tuning_changes_stays_so_and_check_takes_it(
    caller: Caller, running: Host, netns: str, tuning: Callable[..., dict[str, Any]]
) -> None:
    sysctl = {"net.ipv4.conf.eth0.arp_filter": "1", "net.core.somaxconn": "500"}
    running.network(loom(), tuning(sysctl=sysctl, mtu=1400, promisc=True, allmulti=True, txQLen=50))

    caller.add("net", netns)

    caller.check("net", netns)
    # The agent that comes next has nothing to mend here either.
    running.kill()
    running.start()
    caller.check("net", netns)
    link = links(netns)["eth0"]
    assert (link["mtu"], link["promiscuity"], link["txqlen"]) == (1400, 1, 50)
    with inside(netns):
        assert output(["sysctl", "-n", *sysctl]).split() == ["1", "500"]
    ping(netns, *OUTSIDE)
    caller.delete("net", netns)
    require_nothing_left(running)


def test_all_of_them_at_once(
    caller: Caller, running: Host, netns: str, tuning: Callable[..., dict[str, Any]]
) -> None:
    running.network(
        loom(),
        portmap("iptables"),
        {"type": "firewall", "backend": "iptables"},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
        tuning(mac="02:00:00:00:00:09", mtu=1400),
    )
    asked: dict[str, Any] = {"portMappings": MAPPINGS, "bandwidth": RATES, "ips": ["10.9.0.77"]}

    result = caller.add("net", netns, **asked)

    assert addresses(result)[0] == "10.9.0.77"
    caller.check("net", netns, **asked)
    ping(netns, *OUTSIDE)
    with greeter(80, netns):
        assert [greeting(host, PORT) for host in ADDRESSES] == [GREETING] * 2
    caller.delete("net", netns, **asked)
    caller.delete("net", netns, **asked)
    require_nothing_left(running)
    assert set(links(netns)) == {"lo"}


def test_behind_a_bridge_and_tuning_ours_is_the_second_interface(
    caller: Caller,
    running: Host,
    new_netns: Callable[[], str],
    tuning: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    tuned = tuning(mtu=1400, sysctl={"net.core.somaxconn": "500"})
    running.network(bridge(tmp_path), tuned, loom(interface="net1"))
    one, two = new_netns(), new_netns()

    result, other = caller.add("net", one), caller.add("net", two)

    assert [it["name"] for it in result["interfaces"] if it.get("sandbox")] == ["eth0", "net1"]
    first, *ours = addresses(result)
    assert first == "10.88.0.2"
    assert (links(one)["eth0"]["mtu"], links(one)["net1"]["mtu"]) == (1400, 1500)
    # Everybody is reached, by the bridge or by ours; and who speaks as ours leaves by ours.
    ping(one, *addresses(other), OUTSIDE[0])
    for source, target in zip(ours, OUTSIDE, strict=True):
        ping(one, target, source=source)
    ping(running.outside, *ours)
    # The reference bridge expects every address of the result on its own interface, so only ours is asked.
    (container,) = {it.container_id for it in running.ledger().attachments() if it.netns == one}
    config = running.config(interface="net1", prevResult=result)
    assert running.plugin("CHECK", container, config, CNI_NETNS=one).code == 0

    caller.delete("net", one)
    caller.delete("net", two)
    assert set(links(one)) == {"lo"}
    require_nothing_left(running)


def test_behind_loopback_ours_is_the_first_interface(caller: Caller, running: Host, netns: str) -> None:
    running.network({"type": "loopback"}, loom())

    result = caller.add("net", netns)

    assert [it["name"] for it in result["interfaces"] if it.get("sandbox")] == ["lo", "eth0"]
    caller.check("net", netns)
    ping(netns, "127.0.0.1", *OUTSIDE)
    caller.delete("net", netns)
    assert set(links(netns)) == {"lo"}
    require_nothing_left(running)
