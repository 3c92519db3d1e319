"""The examples of the documentation do what it says of them, in real namespaces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netloom.cni import CNIError, Endpoint, NetworkConfig, PluginFailed, Result, Runtime, parse_network
from netloom.cni.plugin import inside

from ..doubles import executable, shell_plugin
from ..lanes import ROOT

EXAMPLES = ROOT / "docs" / "examples"
DEBIAN_PLUGINS = "/usr/lib/cni"


def install(example: str, directory: Path) -> None:
    """An example as a plugin: its file under the plugin's name, run by the interpreter of the tests."""
    source = (EXAMPLES / f"{example}.py").read_text()
    executable(directory / example, source.replace("#!/usr/bin/env python3", f"#!{sys.executable}", 1))


def ip(netns: str | None, *words: str) -> Any:
    prefix = ["ip", "-json"] if netns is None else ["ip", "-json", "-netns", os.path.basename(netns)]
    return json.loads(subprocess.run([*prefix, *words], check=True, capture_output=True).stdout or "[]")


def links(netns: str | None = None) -> list[str]:
    return sorted(link["ifname"] for link in ip(netns, "link"))


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    install("wire", tmp_path)
    install("lowports", tmp_path)
    return Runtime([str(tmp_path), DEBIAN_PLUGINS], cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def network(tmp_path: Path) -> NetworkConfig:
    ranges = [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]
    ipam = {"type": "host-local", "ranges": ranges, "dataDir": str(tmp_path / "ipam")}
    entry = {"type": "wire", "mtu": 1400, "ipam": ipam}
    return parse_network(json.dumps({"cniVersion": "1.0.0", "name": "wired", "plugins": [entry]}).encode())


@pytest.fixture
def reserved(tmp_path: Path) -> Callable[[], list[str]]:
    def addresses() -> list[str]:
        names = os.listdir(tmp_path / "ipam" / "wired")
        return sorted(name for name in names if re.match(r"[0-9a-f]+[.:]", name))

    return addresses


@pytest.mark.interop
def test_wire_ties_a_container_to_the_host_in_both_families(
    runtime: Runtime, network: NetworkConfig, netns: str, reserved: Callable[[], list[str]]
) -> None:
    before = links()
    endpoint = Endpoint("c1", netns)
    result = runtime.add(network, endpoint)
    assert isinstance(result, Result)
    host, container = result.interfaces
    assert (container.name, container.sandbox, container.mtu) == ("eth0", netns, 1400)
    [eth0] = ip(netns, "address", "show", "dev", "eth0")
    assert eth0["address"] == container.mac
    assert {it["local"] for it in eth0["addr_info"]} >= {"10.9.0.2", "fd00:9::2"}
    # Every real host has an address to speak from; the run's own namespace gets one here.
    subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", host.name], check=True)
    subprocess.run(["ping", "-c1", "-W10", "-I", "192.0.2.1", "10.9.0.2"], check=True, capture_output=True)
    runtime.check(network, endpoint)
    subprocess.run(["ip", "-n", os.path.basename(netns), "addr", "flush", "dev", "eth0"], check=True)
    with pytest.raises(PluginFailed, match=r"eth0 has lost its address 10\.9\.0\.2"):
        runtime.check(network, endpoint)
    runtime.delete(network, endpoint)
    assert links() == before
    assert host.name not in links()
    assert reserved() == []


@pytest.mark.interop
@pytest.mark.parametrize("netns_is", ["there", "empty", "gone"])
def test_s9_del_releases_the_address_wherever_the_namespace_is(
    runtime: Runtime, network: NetworkConfig, netns: str, reserved: Callable[[], list[str]], netns_is: str
) -> None:
    runtime.add(network, Endpoint("c1", netns))
    assert reserved() == ["10.9.0.2", "fd00:9::2"]
    if netns_is == "gone":
        subprocess.run(["ip", "netns", "del", os.path.basename(netns)], check=True)
    endpoint = Endpoint("c1", "" if netns_is == "empty" else netns)
    runtime.delete(network, endpoint)
    assert reserved() == []
    runtime.delete(network, endpoint)
    assert not [name for name in links() if name.startswith("wire")]


@pytest.mark.interop
def test_s9_del_of_an_unknown_container_without_a_result_succeeds(
    runtime: Runtime, network: NetworkConfig, netns: str
) -> None:
    runtime.delete(network, Endpoint("never-added", netns))


@pytest.mark.interop
def test_s10_add_over_an_existing_interface_fails_and_changes_nothing(
    runtime: Runtime, network: NetworkConfig, netns: str, reserved: Callable[[], list[str]]
) -> None:
    runtime.add(network, Endpoint("c1", netns))
    host_before, container_before, reserved_before = links(), ip(netns, "address"), reserved()
    for container in ("c2", "c1"):
        with pytest.raises(PluginFailed, match="eth0 exists already"):
            runtime.add(network, Endpoint(container, netns), cleanup=container == "c1")
    assert (links(), ip(netns, "address"), reserved()) == (host_before, container_before, reserved_before)
    runtime.delete(network, Endpoint("c1", netns))


@pytest.mark.interop
def test_s12_a_failure_after_ipam_gives_the_address_back_and_leaves_no_link(
    runtime: Runtime, network: NetworkConfig, netns: str, tmp_path: Path, reserved: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    real = subprocess.run(["which", "ip"], check=True, capture_output=True, text=True).stdout.strip()
    broken = tmp_path / "broken"
    broken.mkdir()
    shell_plugin(broken / "ip", f'case "$*" in *"route add default"*) exit 1;; esac\nexec {real} "$@"')
    before = links()
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{broken}:{os.environ['PATH']}")
        with pytest.raises(CNIError, match="route add default"):
            runtime.add(network, Endpoint("c1", netns))
    assert reserved() == []
    assert links() == before
    assert links(netns) == ["lo"]


@pytest.mark.kernel
def test_lowports_sets_and_checks_the_containers_sysctl(runtime: Runtime, netns: str, tmp_path: Path) -> None:
    shell_plugin(tmp_path / "before", 'echo \'{"ips":[{"address":"10.1.2.3/24"}]}\'')
    plugins = [{"type": "before"}, {"type": "lowports", "from": 25}]
    network = parse_network(json.dumps({"cniVersion": "1.1.0", "name": "n", "plugins": plugins}).encode())
    endpoint = Endpoint("c1", netns)
    result = runtime.add(network, endpoint)
    assert isinstance(result, Result)
    assert result.ips[0].address == "10.1.2.3/24"
    sysctl = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    with inside(netns):
        assert sysctl.read_text() == "25\n"
    runtime.check(network, endpoint)
    with inside(netns):
        sysctl.write_text("1024")
    with pytest.raises(PluginFailed, match="which ports are low"):
        runtime.check(network, endpoint)
    runtime.delete(network, endpoint)


@pytest.mark.interop
def test_the_ten_line_runtime_attaches_and_detaches(tmp_path: Path, netns: str) -> None:
    configs = tmp_path / "net.d"
    configs.mkdir()
    ipam = {"type": "host-local", "subnet": "10.9.0.0/24", "dataDir": str(tmp_path / "ipam")}
    entry = {"type": "ptp", "ipam": ipam}
    (configs / "10-net.conflist").write_text(
        json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": [entry]})
    )
    source = (EXAMPLES / "runtime.py").read_text().replace("/etc/cni/net.d", str(configs))
    before = links()
    done = subprocess.run(
        [sys.executable, "-c", source, "net", netns], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['10.9.0.2/24']"
    assert links() == before
    assert os.listdir("/var/lib/cni/results") == []


@pytest.mark.interop
def test_the_list_of_the_library_page_works_with_the_distributions_plugins(
    runtime: Runtime, netns: str
) -> None:
    [source] = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.DOTALL)
    network = parse_network(source.encode())
    assert runtime.validate(network) == []
    result = runtime.add(network, Endpoint("c1", netns))
    assert isinstance(result, Result)
    with inside(netns):
        assert Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text() == "80\n"
        gateway = result.ips[0].gateway
        subprocess.run(["ping", "-c1", "-W10", gateway], check=True, capture_output=True)
    runtime.check(network, Endpoint("c1", netns))
    runtime.delete(network, Endpoint("c1", netns))
    subprocess.run(["ip", "link", "del", "cni0"], check=True)


@pytest.mark.unit
@pytest.mark.parametrize("example", ["lowports", "runtime"])
def test_the_library_page_shows_the_examples_as_they_are(example: str) -> None:
    assert (EXAMPLES / f"{example}.py").read_text() in (ROOT / "docs" / "library.md").read_text()
