"""validate, version, attachments and convert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from netloom.cni.versions import ALL

from ..fixtures.cli import RESULT, Cli

pytestmark = pytest.mark.unit

NETNS = "/var/run/netns/cnitest"
CONTAINER = "cnitool-20c433bb2b1d6ede56d6"


def test_validate_finds_nothing_wrong_with_good_networks(cli: Cli) -> None:
    cli.recording_plugin()
    cli.network("first", {"type": "recording", "capabilities": {"portMappings": True, "mac": True}})
    cli.network("second", "recording", "recording", version="1.0.0")

    outcome = cli.run("cni", "validate", "--json")

    assert outcome.status == 0
    assert outcome.document == [
        {
            "path": str(cli.networks / "00.conflist"),
            "network": "first",
            "cniVersion": "1.1.0",
            "plugins": ["recording"],
            "capabilities": ["mac", "portMappings"],
            "errors": [],
            "warnings": [],
        },
        {
            "path": str(cli.networks / "01.conflist"),
            "network": "second",
            "cniVersion": "1.0.0",
            "plugins": ["recording", "recording"],
            "capabilities": [],
            "errors": [],
            "warnings": [],
        },
    ]


def test_validate_can_be_about_one_network(cli: Cli) -> None:
    cli.recorded_network("first")
    cli.network("second", "missing")

    outcome = cli.run("cni", "validate", "--json", "first")

    assert outcome.status == 0
    assert [it["network"] for it in outcome.document] == ["first"]


def test_validate_of_an_unknown_network_says_so(cli: Cli) -> None:
    cli.recorded_network()

    outcome = cli.run("cni", "validate", "other", "--json")

    assert (outcome.status, outcome.stdout) == (3, "")
    assert outcome.error["code"] == 7
    assert '"other"' in outcome.error["msg"]


def test_validate_of_a_network_without_a_name_finds_none(cli: Cli) -> None:
    cli.recorded_network()

    assert cli.run("cni", "validate", "").status == 3


def test_validate_reports_a_broken_file_among_good_ones(cli: Cli) -> None:
    cli.recorded_network("first")
    (cli.networks / "01-broken.conflist").write_text('{"cniVersion": "1.1.0", "na')
    cli.network("third", "recording")

    outcome = cli.run("cni", "validate", "--json")

    assert outcome.status == 3
    found = {Path(it["path"]).name: it for it in outcome.document}
    assert {it["network"] for it in found.values()} == {"first", None, "third"}
    assert [name for name, it in found.items() if it["errors"]] == ["01-broken.conflist"]


def test_validate_names_every_plugin_that_is_missing_or_too_old(cli: Cli) -> None:
    cli.network("mynet", "missing", cli.recording_plugin(), "absent", version="0.3.1")

    outcome = cli.run("cni", "validate", "--json")

    assert outcome.status == 3
    (finding,) = outcome.document
    assert ["missing" in finding["errors"][0], "recording" in finding["errors"][1]] == [True, True]
    assert '"0.3.1"' in finding["errors"][1]
    assert "absent" in finding["errors"][2]


def test_validate_finds_the_names_that_add_refuses(cli: Cli) -> None:
    cli.recorded_network("my net")

    assert cli.cni("add", "my net", NETNS).status == 3
    assert cli.run("cni", "validate").status == 3


POOLS = [{"cidr": "10.1.0.0/24"}]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "no pools"),
        ({"pools": [{"cidr": "10.1.0.0/33"}]}, "10.1.0.0/33"),
        ({"pools": POOLS, "cooldown": -1}, "cooldown"),
        ({"pools": POOLS, "mtu": 100}, "mtu 100"),
        ({"pools": POOLS, "mode": "bridged"}, "bridged"),
        ({"pools": POOLS, "ipam": {"type": "host-local"}}, "ipam"),
    ],
    ids=["no pools", "pool", "cooldown", "mtu", "mode", "ipam"],
)
def test_validate_finds_the_keys_of_our_own_plugin_that_add_refuses(
    cli: Cli, keys: dict[str, Any], said: str
) -> None:
    cli.recording_plugin("netloom")
    cli.network("shop", {"type": "netloom", **keys}, version="1.0.0")

    outcome = cli.run("cni", "validate", "--json")

    assert outcome.status == 3
    (error,) = outcome.document[0]["errors"]
    assert said in error


def test_validate_finds_nothing_wrong_with_a_network_of_our_own(cli: Cli) -> None:
    cli.recording_plugin("netloom")
    cli.network("shop", {"type": "netloom", "pools": POOLS}, version="1.0.0")

    assert cli.run("cni", "validate").status == 0


def test_validate_names_a_bad_network_name_once(cli: Cli) -> None:
    cli.recording_plugin("netloom")
    cli.network("my shop", {"type": "netloom", "pools": POOLS}, version="1.0.0")

    assert len(cli.run("cni", "validate", "--json").document[0]["errors"]) == 1


def test_version_shows_what_a_plugin_says(cli: Cli) -> None:
    outcome = cli.run("cni", "version", "--json", cli.recording_plugin())

    assert outcome.status == 0
    assert outcome.document == {
        "cniVersion": "1.1.0",
        "supportedVersions": ["0.4.0", "1.0.0", "1.1.0"],
    }
    assert cli.verbs == ["VERSION"]


def test_version_of_a_missing_plugin_says_where_it_was_looked_for(cli: Cli) -> None:
    outcome = cli.run("cni", "version", "missing")

    assert outcome.status == 3
    assert str(cli.plugins) in outcome.said["error"]
    assert "CNI_PATH" in outcome.said["next"]


def test_attachments_are_listed_with_four_facts_each(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)
    cli.cni("add", "mynet", "/run/netns/web", "-i", "net1")

    outcome = cli.cni("attachments", "--json")

    assert outcome.status == 0
    assert {
        "network": "mynet",
        "containerID": CONTAINER,
        "ifName": "eth0",
        "netns": NETNS,
    } in outcome.document
    assert [set(it) for it in outcome.document] == [{"network", "containerID", "ifName", "netns"}] * 2


def test_attachments_of_one_container_are_listed_alone(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)
    cli.cni("add", "mynet", "/run/netns/web")

    outcome = cli.cni("attachments", "--json", "--container", CONTAINER)

    assert [it["netns"] for it in outcome.document] == [NETNS]


def test_without_a_cache_there_are_no_attachments(cli: Cli) -> None:
    outcome = cli.cni("attachments", "--json")

    assert (outcome.status, outcome.document) == (0, [])
    assert not cli.cache.exists()


def test_a_broken_entry_does_not_hide_the_attachments_behind_it(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)
    (cli.cache / "results" / "a-broken-entry").write_text("{")
    (cli.cache / "results" / "b-a-directory").mkdir()

    assert [it["network"] for it in cli.cni("attachments", "--json").document] == ["mynet"]


LEGACY = {
    "cniVersion": "0.2.0",
    "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1", "routes": [{"dst": "0.0.0.0/0"}]},
    "dns": {"nameservers": ["10.1.2.1"]},
}
LABELLED = {
    **RESULT,
    "cniVersion": "0.4.0",
    "ips": [{"version": "4", **ip} for ip in RESULT["ips"]],
}


@pytest.mark.parametrize(("version", "expected"), [("0.2.0", LEGACY), ("1.1.0", RESULT)])
def test_convert_writes_a_result_in_another_version(cli: Cli, version: str, expected: dict[str, Any]) -> None:
    file = cli.directory / "result.json"
    file.write_text(json.dumps(RESULT))

    outcome = cli.run("cni", "convert", "--to", version, str(file))

    assert (outcome.status, outcome.document) == (0, expected)


def test_convert_reads_standard_input(cli: Cli) -> None:
    outcome = cli.run("cni", "convert", "--to", "0.4.0", stdin=json.dumps(RESULT))

    assert (outcome.status, outcome.document) == (0, LABELLED)


def test_convert_continues_what_add_printed(cli: Cli) -> None:
    cli.recorded_network()

    outcome = cli.shell(
        f"netloom cni add mynet {NETNS} --cache-dir {cli.cache} | netloom cni convert --to 0.2.0"
    )

    assert (outcome.status, outcome.document) == (0, LEGACY)


def test_convert_knows_every_version_and_no_other(cli: Cli) -> None:
    outcome = cli.run("cni", "convert", "--to", "2.0.0", stdin=json.dumps(RESULT))

    assert (outcome.status, outcome.stdout) == (2, "")
    assert all(version in outcome.stderr for version in ALL)


@pytest.mark.parametrize("text", ["", '{"cniVersion":"1.1.0","ips":[{"address":"?"}]}'])
def test_convert_of_something_else_is_a_decoding_failure(cli: Cli, text: str) -> None:
    outcome = cli.run("cni", "convert", "--to", "1.0.0", "--json", stdin=text)

    assert (outcome.status, outcome.stdout) == (1, "")
    assert outcome.error["code"] == 6
    assert "plugin" not in outcome.error["next"]


def test_convert_of_a_missing_file_names_it(cli: Cli) -> None:
    outcome = cli.run("cni", "convert", "--to", "1.0.0", "missing.json", "--json")

    assert outcome.status == 1
    assert outcome.error["code"] == 5
    assert "missing.json" in outcome.error["msg"]


def test_validate_warns_of_keys_that_look_like_ours_and_are_none(cli: Cli) -> None:
    cli.plugin("netloom", """echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'""")
    pools = [{"cidr": "10.1.0.0/24"}]
    cli.network("mynet", {"type": "netloom", "pools": pools, "Mtu": 1400, "pool": [], "colour": "red"})

    outcome = cli.run("cni", "validate", "--json")

    (finding,) = outcome.document
    assert (outcome.status, finding["errors"]) == (0, [])
    first, second = finding["warnings"]
    assert ("`Mtu`" in first, "`mtu`" in first, "`pool`" in second, "`pools`" in second) == (True,) * 4
    assert "`Mtu`" in cli.on_a_terminal("cni", "validate").stdout
