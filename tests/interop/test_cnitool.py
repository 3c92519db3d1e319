"""Side by side with Go's cnitool v1.3.1, on one cache.

What one adds, the other checks, deletes and collects; and for the same command line both send a
plugin the same bytes, write the same bytes to the cache and print the same bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from ..lanes import PEERS

pytestmark = pytest.mark.interop

GO = (str(PEERS / "bin" / "cnitool"),)
NETLOOM = (str(Path(sys.executable).with_name("netloom")), "cni")
BOTH = (GO, NETLOOM)
Tool = tuple[str, ...]

# Who makes an attachment, and who then has to deal with it.
ways = pytest.mark.parametrize(
    ("first", "second"), [(GO, NETLOOM), (NETLOOM, GO)], ids=["go-then-netloom", "netloom-then-go"]
)
each = pytest.mark.parametrize("tool", BOTH, ids=["go", "netloom"])

RESULT: dict[str, Any] = {
    "cniVersion": "1.1.0",
    "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "mtu": 1400, "sandbox": "/run/netns/<a&b>"}],
    "ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 0}],
    "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1", "priority": 5, "table": 0}],
    "dns": {"nameservers": ["10.1.2.1"], "search": ["a<b>&c.example"]},
}
LABELLED_RESULT: dict[str, Any] = {
    "interfaces": [{"name": "eth0", "sandbox": "/run/netns/<a&b>"}],
    "ips": [{"version": "4", "address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 0}],
    "routes": [{"dst": "0.0.0.0/0"}],
}
LEGACY_RESULT: dict[str, Any] = {
    "ip4": {"ip": "10.1.2.3/24", "routes": [{"dst": "0.0.0.0/0"}]},
    "dns": {"domain": "a<b"},
}


class Cli:
    """A directory of networks, noop plugins with their control files, and the two tools."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.cache = cache
        self.configs = directory / "net.d"
        self.configs.mkdir()
        self.log = directory / "commands"
        self.log.touch()

    def network(self, *plugins: dict[str, Any], **fields: Any) -> str:
        document = {"cniVersion": "1.1.0", "name": "net"} | fields | {"plugins": plugins}
        (self.configs / "10-net.conflist").write_text(json.dumps(document, indent=2))
        return str(document["name"])

    def noop(self, number: int = 1, **config: Any) -> dict[str, Any]:
        """A plugin's configuration; what it does is for `script` to say."""
        control = str(self.directory / f"noop{number}")
        return {"type": "noop", "debugFile": control, "commandLog": str(self.log)} | config

    def script(self, answer: Any = "", *, number: int = 1, **fields: Any) -> None:
        """What a plugin reports from now on; what it has been told until now is forgotten."""
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (self.directory / f"noop{number}").write_text(json.dumps({"ReportResult": text} | fields))

    def told(self, number: int = 1) -> dict[str, Any]:
        """What a plugin was told the last time: the verb, its environment, its standard input."""
        recorded = json.loads((self.directory / f"noop{number}").read_bytes())
        arguments = recorded["CmdArgs"]
        return {
            "Command": recorded["Command"],
            **arguments,
            "StdinData": b64decode(arguments["StdinData"] or ""),
        }

    def verbs(self) -> list[str]:
        recorded = self.log.read_bytes()
        return [entry["Command"] for entry in json.loads(recorded)] if recorded else []

    def run(
        self, tool: Tool, *words: str, plugins: str = str(PEERS / "bin"), **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CNI_")}
        return subprocess.run(
            [*tool, *words],
            env=inherited | {"NETCONFPATH": str(self.configs), "CNI_PATH": plugins} | env,
            cwd=self.directory,
            capture_output=True,
            timeout=30,
            check=False,
        )

    def succeed(self, tool: Tool, *words: str, plugins: str = str(PEERS / "bin"), **env: str) -> bytes:
        done = self.run(tool, *words, plugins=plugins, **env)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def entries(self) -> dict[str, tuple[int, bytes]]:
        """The cache: the mode and the bytes of each file."""
        if not self.cache.exists():
            return {}
        return {path.name: (path.stat().st_mode & 0o7777, path.read_bytes()) for path in self.cache.iterdir()}


@pytest.fixture
def cli(tmp_path: Path, shared_cache: Path) -> Cli:
    return Cli(tmp_path, shared_cache)


class Case(Struct, frozen=True):
    """An ADD to compare: the list's fields, the plugin's, its answer, the command's environment."""

    fields: dict[str, Any] = {}
    config: dict[str, Any] = {}
    answer: Any = field(default_factory=lambda: RESULT)
    env: dict[str, str] = {}
    words: tuple[str, ...] = ()


_PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
CASES = {
    "plain": Case(),
    "arguments": Case(env={"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=<web>&1;X=é"}),
    "capabilities": Case(
        config={"capabilities": {"portMappings": True, "mac": False, "ips": True}},
        env={"CAP_ARGS": json.dumps({"portMappings": _PORTS, "mac": "02:00:00:00:00:02", "other": "<&>"})},
    ),
    "no capability matches": Case(
        config={"capabilities": {"ips": True}}, env={"CAP_ARGS": json.dumps({"portMappings": _PORTS})}
    ),
    "capability arguments of every kind": Case(
        config={"capabilities": {"z": True, "a": True}},
        env={"CAP_ARGS": '{"z":[1,-2,1.5,"<\\u2028>",null,true,{"b":[],"a":{}}],"a":null}'},
    ),
    "empty capability arguments": Case(env={"CAP_ARGS": "{}"}),
    "both": Case(
        config={"capabilities": {"portMappings": True}},
        env={"CNI_ARGS": "A=1;B=2", "CAP_ARGS": json.dumps({"portMappings": _PORTS})},
    ),
    "interface by option": Case(words=("-i", "net1"), env={"CNI_IFNAME": "net2"}),
    "interface by long option": Case(words=("--ifname=net1",)),
    "interface by variable": Case(env={"CNI_IFNAME": "net2"}),
    "characters that Go escapes": Case(
        config={"x": '<>&\u2028\u2029\x7f\t"\\/é😀', "<&>": {"b": [1, 2.5, None, True], "a": {}}},
        answer=RESULT | {"dns": {"domain": "<>&\u2028\u2029\x01é😀"}},
    ),
    "a plugin's own name and version": Case(config={"name": "own", "cniVersion": "0.2.0"}),
    "reserved keys": Case(config={"prevResult": {"a": 1}, "runtimeConfig": {"b": 2}, "args": {"cni": {}}}),
    "versions to choose from": Case(fields={"cniVersion": "0.4.0", "cniVersions": ["9.0.0", "1.1.0"]}),
    "no version": Case(fields={"cniVersion": ""}, answer=LEGACY_RESULT),
    **{
        version: Case(fields={"cniVersion": version}, answer=answer | {"cniVersion": version})
        for version, answer in {
            "0.1.0": LEGACY_RESULT,
            "0.2.0": LEGACY_RESULT,
            "0.3.0": LABELLED_RESULT,
            "0.3.1": LABELLED_RESULT,
            "0.4.0": LABELLED_RESULT,
            "1.0.0": RESULT,
        }.items()
    },
    "a result of another version": Case(
        fields={"cniVersion": "1.1.0"}, answer=LEGACY_RESULT | {"cniVersion": "0.2.0"}
    ),
    "a newer result": Case(fields={"cniVersion": "0.4.0"}, answer=RESULT),
    "a result without a version": Case(answer={"ips": [{"address": "10.1.2.3/24"}]}),
    "an empty result": Case(answer={}),
    "null": Case(answer="null"),
    "a result with spaces": Case(answer=' {\n "cniVersion" : "1.0.0" }\n'),
    "a result with keys that nobody knows": Case(answer=RESULT | {"vendor.example/x": {"a": 1}}),
}
all_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@all_cases
def test_add_prints_and_caches_and_sends_the_very_bytes_of_go(cli: Cli, netns: str, case: Case) -> None:
    def outcome(tool: Tool) -> dict[str, Any]:
        cli.script(case.answer)
        network = cli.network(cli.noop(**case.config), **case.fields)
        printed = cli.succeed(tool, "add", network, netns, *case.words, **case.env)
        seen = {"printed": printed, "cached": cli.entries(), "told": cli.told()}
        cli.succeed(tool, "del", network, netns, *case.words, **case.env)
        assert cli.entries() == {}
        return seen

    go, netloom = map(outcome, BOTH)
    assert netloom["printed"] == go["printed"]
    assert netloom["cached"] == go["cached"]
    assert netloom["told"] == go["told"]
    assert len(netloom["cached"]) == 1


@ways
@all_cases
def test_check_and_del_send_the_same_whoever_added(
    cli: Cli, netns: str, case: Case, first: Tool, second: Tool
) -> None:
    network = cli.network(cli.noop(**case.config), **case.fields)

    def after(verb: str, tool: Tool) -> tuple[int, dict[str, Any]]:
        cli.script()
        done = cli.run(tool, verb, network, netns, *case.words, **case.env)
        return done.returncode, cli.told() if done.returncode == 0 else {}

    def add() -> None:
        cli.script(case.answer)
        cli.succeed(first, "add", network, netns, *case.words, **case.env)

    add()
    assert after("check", second) == after("check", first)
    own = after("del", first)
    add()
    assert after("del", second) == own
    assert own[0] == 0
    assert cli.entries() == {}


@pytest.mark.parametrize("verb", ["gc", "status"])
def test_verbs_about_a_network_send_the_very_bytes_of_go(cli: Cli, netns: str, verb: str) -> None:
    network = cli.network(cli.noop(x="<&>", capabilities={"portMappings": True}))

    def told(tool: Tool) -> dict[str, Any]:
        cli.script()
        environment = {"CNI_ARGS": "A=1", "CAP_ARGS": '{"portMappings":[]}'}
        assert cli.succeed(tool, verb, network, netns, **environment) == b""
        return cli.told()

    assert told(NETLOOM) == told(GO)


def test_a_chain_of_plugins_sees_and_leaves_the_same(cli: Cli, netns: str) -> None:
    network = cli.network(*(cli.noop(number, own=number) for number in (1, 2, 3)))
    answers: dict[int, Any] = {1: RESULT, 2: "PASSTHROUGH", 3: "INJECT-DNS"}

    def outcome(tool: Tool) -> dict[str, Any]:
        for number, answer in answers.items():
            cli.script(answer, number=number)
        printed = cli.succeed(tool, "add", network, netns)
        added = [cli.told(number) for number in answers]
        cached = cli.entries()
        cli.succeed(tool, "del", network, netns)
        return {
            "printed": printed,
            "cached": cached,
            "added": added,
            "deleted": [cli.told(number) for number in answers],
        }

    go, netloom = map(outcome, BOTH)
    assert netloom == go
    assert json.loads(netloom["printed"])["dns"] == {
        "nameservers": ["1.2.3.4"],
        "search": RESULT["dns"]["search"],
    }


def test_a_single_plugin_file_is_cached_as_go_caches_it(cli: Cli, netns: str) -> None:
    config = {"cniVersion": "1.0.0", "name": "old", "x": "<&>"} | cli.noop()
    (cli.configs / "old.conf").write_text(json.dumps(config, indent=4))

    def outcome(tool: Tool) -> tuple[bytes, dict[str, tuple[int, bytes]], dict[str, Any]]:
        cli.script(RESULT)
        printed = cli.succeed(tool, "add", "old", netns)
        seen = printed, cli.entries(), cli.told()
        cli.succeed(tool, "del", "old", netns)
        return seen

    assert outcome(NETLOOM) == outcome(GO)


def test_plugins_in_the_networks_directory_come_last_for_both(cli: Cli, netns: str) -> None:
    network = cli.network(cli.noop(1))
    (cli.configs / network).mkdir()
    for number in (3, 2):
        path = cli.configs / network / f"{number}.conf"
        path.write_text(json.dumps(cli.noop(number), indent=4))

    def outcome(tool: Tool) -> list[Any]:
        cli.script(RESULT, number=1)
        cli.script("PASSTHROUGH", number=2)
        cli.script("INJECT-DNS", number=3)
        printed = cli.succeed(tool, "add", network, netns)
        seen = [printed, cli.entries(), *(cli.told(number) for number in (1, 2, 3))]
        cli.succeed(tool, "del", network, netns)
        return seen

    assert outcome(NETLOOM) == outcome(GO)


def test_a_relative_netns_path_means_the_same_container(cli: Cli) -> None:
    network = cli.network(cli.noop())

    def told(tool: Tool, path: str) -> dict[str, Any]:
        cli.script(RESULT)
        cli.succeed(tool, "add", network, path)
        seen = cli.told()
        cli.succeed(tool, "del", network, path)
        return seen

    absolute = told(GO, str(cli.directory / "ns"))
    assert absolute["ContainerID"].startswith("cnitool-")
    for path in ("ns", "./x/../ns", f"{cli.directory}//ns/"):
        assert told(NETLOOM, path) == told(GO, path) == absolute


@ways
def test_attachments_of_either_are_listed(cli: Cli, netns: str, first: Tool, second: Tool) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    cli.succeed(first, "add", network, netns, "-i", "net1")
    cli.succeed(second, "add", network, netns, "-i", "net0")
    container = cli.told()["ContainerID"]

    listed = json.loads(cli.succeed(NETLOOM, "attachments", "--container", container, "--json"))

    assert listed == [
        {"network": network, "containerID": container, "ifName": ifname, "netns": netns}
        for ifname in ("net0", "net1")
    ]


@ways
def test_gc_collects_what_both_have_added(
    cli: Cli, new_netns: Callable[[], str], first: Tool, second: Tool
) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    cli.succeed(first, "add", network, new_netns(), CNI_ARGS="A=1")
    cli.succeed(second, "add", network, new_netns())
    cli.succeed(second, "gc", network, "unused")
    assert cli.entries() == {}
    assert cli.verbs() == ["ADD", "ADD", "DEL", "DEL", "GC"]


@ways
def test_gc_deletes_a_stale_attachment_as_it_was_added(
    cli: Cli, netns: str, first: Tool, second: Tool
) -> None:
    network = cli.network(cli.noop(capabilities={"mac": True}), cniVersion="1.0.0")
    cli.script(RESULT | {"cniVersion": "1.0.0"})
    cli.succeed(first, "add", network, netns, CNI_ARGS="A=<1>", CAP_ARGS='{"mac":"02:00:00:00:00:02"}')

    cli.succeed(second, "gc", network, "unused")

    told = cli.told()
    stdin = json.loads(told["StdinData"])
    assert (told["Command"], told["Netns"], told["Args"]) == ("DEL", netns, "A=<1>")
    assert stdin["runtimeConfig"] == {"mac": "02:00:00:00:00:02"}
    assert stdin["prevResult"] == RESULT | {"cniVersion": "1.0.0"}


def test_gc_with_a_list_keeps_what_go_added(cli: Cli, new_netns: Callable[[], str]) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    cli.succeed(GO, "add", network, new_netns())
    kept = cli.told()["ContainerID"]
    cli.succeed(GO, "add", network, new_netns())

    cli.succeed(NETLOOM, "gc", network, "--valid", f"{kept}:eth0")

    assert list(cli.entries()) == [f"{network}-{kept}-eth0"]
    valid = [{"containerID": kept, "ifname": "eth0"}]
    sent = json.loads(cli.told()["StdinData"])
    assert (sent["cni.dev/valid-attachments"], sent["cni.dev/attachments"]) == (valid, valid)


def test_gc_leaves_other_networks_alone(cli: Cli, netns: str) -> None:
    cli.script(RESULT)
    other = cli.network(cli.noop(), name="other")
    cli.succeed(GO, "add", other, netns)
    before = cli.entries()
    network = cli.network(cli.noop(), name="net")
    cli.succeed(NETLOOM, "gc", network)
    assert cli.entries() == before


@each
def test_status_fails_when_a_plugin_is_not_ready(cli: Cli, tool: Tool) -> None:
    network = cli.network(cli.noop(1), cli.noop(2), cli.noop(3))
    cli.script(number=1)
    cli.script(number=2, ReportError="the pool is empty", ReportErrorCode=50)
    cli.script(number=3)
    done = cli.run(tool, "status", network, "unused")
    assert done.returncode == 1
    assert b"the pool is empty" in done.stderr
    assert cli.verbs() == ["STATUS", "STATUS"]


@each
def test_verbs_newer_than_the_network_reach_no_plugin(cli: Cli, tool: Tool) -> None:
    network = cli.network(cli.noop(), cniVersion="1.0.0")
    cli.script()
    cli.succeed(tool, "status", network, "unused")
    cli.succeed(tool, "gc", network, "unused")
    assert cli.verbs() == []


@each
def test_disabled_verbs_reach_no_plugin(cli: Cli, netns: str, tool: Tool) -> None:
    network = cli.network(cli.noop(), disableCheck="TRUE", disableGC=True)
    cli.script(RESULT)
    cli.succeed(tool, "add", network, netns)
    cli.succeed(tool, "check", network, netns)
    cli.succeed(tool, "gc", network, "unused")
    assert cli.verbs() == ["ADD"]
    assert len(cli.entries()) == 1


@each
def test_a_failed_add_is_neither_cached_nor_undone(cli: Cli, netns: str, tool: Tool) -> None:
    network = cli.network(cli.noop(1), cli.noop(2), cli.noop(3))
    cli.script(RESULT, number=1)
    cli.script(number=2, ReportError="no room", ReportErrorCode=100)
    cli.script("PASSTHROUGH", number=3)
    done = cli.run(tool, "add", network, netns)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b'plugin type="noop" failed (add): no room' in done.stderr
    assert cli.verbs() == ["ADD", "ADD"]
    assert cli.entries() == {}


@ways
def test_a_failed_del_keeps_the_entry_for_the_other_to_retry(
    cli: Cli, netns: str, first: Tool, second: Tool
) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    cli.succeed(first, "add", network, netns)
    before = cli.entries()
    cli.script(ReportError="busy", ReportErrorCode=11)
    assert cli.run(first, "del", network, netns).returncode == 1
    assert cli.entries() == before
    cli.script()
    cli.succeed(second, "del", network, netns)
    assert cli.entries() == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b'{"kind":"cniCacheV1"',
        b'{"kind":"cniCacheV1","result":{"cniVersion":"9.9.9"}}',
        b'{"kind":"other","cniVersion":"1.1.0"}',
        b'{"kind":"cniCacheV1","result":null}',
        json.dumps(RESULT).encode(),
        json.dumps(LEGACY_RESULT | {"cniVersion": "0.2.0"}).encode(),
    ],
    ids=["empty", "garbage", "cut off", "unknown version", "other kind", "no result", "bare", "bare 0.2.0"],
)
@pytest.mark.parametrize("verb", ["check", "del"])
def test_an_entry_of_another_age_is_treated_as_go_treats_it(
    cli: Cli, netns: str, verb: str, content: bytes
) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    cli.succeed(GO, "add", network, netns)
    (entry,) = cli.cache.iterdir()

    def outcome(tool: Tool) -> tuple[int, dict[str, Any] | None, bool]:
        cli.script(Command="not called", CmdArgs={"StdinData": ""})
        entry.write_bytes(content)
        done = cli.run(tool, verb, network, netns)
        return done.returncode, cli.told(), entry.exists()

    assert outcome(NETLOOM) == outcome(GO)


@ways
def test_del_succeeds_for_what_is_gone_already(cli: Cli, netns: str, first: Tool, second: Tool) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    cli.succeed(first, "add", network, netns)
    cli.succeed(second, "del", network, netns)
    cli.succeed(first, "del", network, netns)
    cli.succeed(second, "del", network, netns)
    assert b"prevResult" not in cli.told()["StdinData"]


@each
@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"CNI_ARGS": "novalue"}, ()),
        ({"CNI_ARGS": "A="}, ()),
        ({"CNI_ARGS": "A=1;"}, ()),
        ({"CNI_ARGS": "A=1=2"}, ()),
        ({"CAP_ARGS": "[]"}, ()),
        ({"CAP_ARGS": "{"}, ()),
        ({"NETCONFPATH": "/nowhere"}, ()),
        ({"CNI_PATH": "/nowhere"}, ()),
        ({}, ("-i", "much-too-long-name")),
        ({}, ("-i", "a/b")),
    ],
    ids=lambda it: (
        " ".join(f"{key}={value}" for key, value in it.items()) if isinstance(it, dict) else " ".join(it)
    ),
)
def test_what_go_refuses_is_refused_before_a_plugin_runs(
    cli: Cli, netns: str, tool: Tool, env: dict[str, str], words: tuple[str, ...]
) -> None:
    network = cli.network(cli.noop())
    cli.script(RESULT)
    done = cli.run(tool, "add", network, netns, *words, **env)
    assert done.returncode != 0
    assert done.stdout == b""
    assert cli.verbs() == []
    assert cli.entries() == {}


@pytest.fixture
def bridge(cli: Cli) -> tuple[str, Path]:
    """A network of the reference plugins, and where host-local keeps its addresses."""
    addresses = cli.directory / "addresses"
    ipam = {"type": "host-local", "dataDir": str(addresses), "subnet": "10.88.0.0/24"}
    network = cli.network({"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": ipam})
    return network, addresses / network


def _addresses_of(netns: str) -> list[str]:
    done = subprocess.run(["ip", "-n", Path(netns).name, "-json", "addr"], capture_output=True, check=True)
    return [
        address["local"]
        for link in json.loads(done.stdout)
        if link["ifname"] == "eth0"
        for address in link["addr_info"]
        if address["family"] == "inet"
    ]


@ways
@pytest.mark.usefixtures("host")
def test_r30_a_real_attachment_is_checked_and_deleted_by_the_other(
    cli: Cli, bridge: tuple[str, Path], netns: str, first: Tool, second: Tool
) -> None:
    network, reservations = bridge
    plugins = str(PEERS / "plugins")
    cli.succeed(first, "add", network, netns, plugins=plugins)
    assert _addresses_of(netns) == ["10.88.0.2"]

    cli.succeed(second, "check", network, netns, plugins=plugins)
    cli.succeed(second, "status", network, netns, plugins=plugins)
    cli.succeed(second, "del", network, netns, plugins=plugins)

    assert _addresses_of(netns) == []
    assert cli.entries() == {}
    assert not (reservations / "10.88.0.2").exists()


@ways
@pytest.mark.usefixtures("host")
def test_damage_to_a_real_attachment_is_seen_by_the_other(
    cli: Cli, bridge: tuple[str, Path], netns: str, first: Tool, second: Tool
) -> None:
    network, _ = bridge
    plugins = str(PEERS / "plugins")
    cli.succeed(first, "add", network, netns, plugins=plugins)
    subprocess.run(["ip", "-n", Path(netns).name, "addr", "flush", "dev", "eth0"], check=True)
    assert cli.run(second, "check", network, netns, plugins=plugins).returncode == 1
    assert cli.run(first, "check", network, netns, plugins=plugins).returncode == 1


@ways
@pytest.mark.usefixtures("host")
def test_real_attachments_are_collected_by_the_other(
    cli: Cli, bridge: tuple[str, Path], new_netns: Callable[[], str], first: Tool, second: Tool
) -> None:
    network, reservations = bridge
    plugins = str(PEERS / "plugins")
    containers = [new_netns(), new_netns()]
    for netns in containers:
        cli.succeed(first, "add", network, netns, plugins=plugins)
    assert list(map(_addresses_of, containers)) == [["10.88.0.2"], ["10.88.0.3"]]

    cli.succeed(second, "gc", network, "unused", plugins=plugins)

    assert list(map(_addresses_of, containers)) == [[], []]
    assert cli.entries() == {}
    assert sorted(path.name for path in reservations.glob("10.*")) == []
