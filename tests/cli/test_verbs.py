"""add, check, del, gc and status: what plugins are told, and what cnitool's users may rely on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ..fixtures.cli import RESULT, Cli, Outcome

pytestmark = pytest.mark.unit

NETNS = "/var/run/netns/cnitest"
# The sample in cnitool's README.
CONTAINER = "cnitool-20c433bb2b1d6ede56d6"


def test_add_prints_the_result_and_keeps_it(cli: Cli) -> None:
    outcome = cli.cni("add", cli.recorded_network(), NETNS)

    assert outcome.status == 0
    assert outcome.document == RESULT
    assert outcome.stderr == ""
    entry = json.loads((cli.cache / "results" / f"mynet-{CONTAINER}-eth0").read_bytes())
    assert entry["result"] == RESULT
    assert entry["netns"] == NETNS


def test_add_tells_the_plugin_what_cnitool_would(cli: Cli) -> None:
    cli.cni("add", cli.recorded_network(), NETNS)

    (call,) = cli.calls
    assert call.env == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": CONTAINER,
        "CNI_NETNS": NETNS,
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "",
        "CNI_PATH": str(cli.plugins),
    }
    assert call.config == {"cniVersion": "1.1.0", "name": "mynet", "type": "recording"}


def test_a_container_is_known_by_the_hash_of_its_namespace(cli: Cli) -> None:
    cli.cni("add", cli.recorded_network(), "/var/run/netns/testing")

    assert cli.calls[0].env["CNI_CONTAINERID"] == "cnitool-77383ca0a0715733ca6f"


def test_a_relative_namespace_is_made_absolute(cli: Cli) -> None:
    cli.recorded_network()
    absolute = os.path.join(cli.directory, "ns", "web")

    for netns in ("./ns/../ns//web", absolute):
        assert cli.cni("add", "mynet", netns).status == 0

    assert {call.env["CNI_NETNS"] for call in cli.calls} == {absolute}
    assert len({call.env["CNI_CONTAINERID"] for call in cli.calls}) == 1


def test_check_and_del_give_the_plugin_the_cached_result(cli: Cli) -> None:
    cli.recorded_network()

    cli.cni("add", "mynet", NETNS)
    outcomes = [cli.cni(verb, "mynet", NETNS) for verb in ("check", "del")]

    assert outcomes == [Outcome(0, "", "")] * 2  # what is fine is not talked about
    assert cli.verbs == ["ADD", "CHECK", "DEL"]
    assert [call.config.get("prevResult") for call in cli.calls] == [None, RESULT, RESULT]


def test_del_forgets_the_attachment_and_may_be_repeated(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)

    for _ in range(2):
        assert cli.cni("del", "mynet", NETNS).status == 0
        assert os.listdir(cli.cache / "results") == []


def test_gc_without_a_list_removes_every_attachment_of_the_network(cli: Cli) -> None:
    cli.recorded_network()
    cli.network("other", "recording")
    for network, netns in (("mynet", "/a"), ("other", "/a")):
        cli.cni("add", network, netns)

    assert cli.cni("gc", "mynet", NETNS) == Outcome(0, "", "")

    assert cli.verbs[2:] == ["DEL", "GC"]
    assert "cni.dev/valid-attachments" not in cli.calls[-1].config
    left = cli.cni("attachments", "--json").document
    assert [attachment["network"] for attachment in left] == ["other"]


def test_gc_keeps_what_is_named_as_valid(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)
    cli.cni("add", "mynet", "/gone")

    assert cli.cni("gc", "mynet", "--valid", f"{CONTAINER}:eth0", "--valid", "web:net1").status == 0

    assert cli.verbs[2:] == ["DEL", "GC"]
    assert cli.calls[-1].config["cni.dev/valid-attachments"] == [
        {"containerID": CONTAINER, "ifname": "eth0"},
        {"containerID": "web", "ifname": "net1"},
    ]
    assert [it["netns"] for it in cli.cni("attachments", "--json").document] == [NETNS]


def test_status_needs_no_namespace(cli: Cli) -> None:
    assert cli.run("cni", "status", cli.recorded_network()) == Outcome(0, "", "")

    assert cli.verbs == ["STATUS"]


def test_status_passes_on_what_a_plugin_says(cli: Cli) -> None:
    cli.network("mynet", cli.plugin("tired", """echo '{"code":50,"msg":"not today"}'; exit 1"""))

    outcome = cli.run("cni", "status", "mynet", "--json")

    assert outcome.status == 1
    assert (outcome.error["code"], outcome.error["msg"]) == (50, "not today")


@pytest.mark.parametrize("version", ["1.0.0", "0.4.0", ""])
def test_status_of_a_network_without_that_verb_says_that_nobody_was_asked(cli: Cli, version: str) -> None:
    cli.network("old", cli.recording_plugin(), version=version)

    outcome = cli.run("cni", "status", "old")

    assert (outcome.status, outcome.stdout, cli.verbs) == (0, "", [])
    assert outcome.said["warning"].startswith("no plugin was asked: STATUS needs CNI 1.1.0")


def test_check_of_an_old_network_says_from_which_version_it_works(cli: Cli) -> None:
    cli.network("old", cli.recording_plugin(), version="0.3.1")

    outcome = cli.cni("check", "old", NETNS)

    assert outcome.status == 1
    assert "0.4.0" in outcome.said["next"]
    assert cli.verbs == []


@pytest.mark.parametrize("verb", ["add", "status"])
def test_words_after_the_namespace_are_ignored_as_by_cnitool(cli: Cli, verb: str) -> None:
    assert cli.cni(verb, cli.recorded_network(), NETNS, "and", "more").status == 0

    assert cli.verbs == [verb.upper()]


def test_the_interface_is_named_by_the_environment(cli: Cli) -> None:
    cli.cni("add", cli.recorded_network(), NETNS, env={"CNI_IFNAME": "net7"})

    assert cli.calls[0].env["CNI_IFNAME"] == "net7"


@pytest.mark.parametrize("option", [["-i", "net1"], ["--ifname=net1"]])
def test_the_option_for_the_interface_wins_over_the_environment(cli: Cli, option: list[str]) -> None:
    cli.cni("add", cli.recorded_network(), NETNS, *option, env={"CNI_IFNAME": "net7"})

    assert cli.calls[0].env["CNI_IFNAME"] == "net1"
    assert os.listdir(cli.cache / "results") == [f"mynet-{CONTAINER}-net1"]


def test_any_runtimes_container_can_be_named_by_its_id(cli: Cli) -> None:
    cli.recorded_network()

    for verb in ("add", "check", "del"):
        assert cli.cni(verb, "mynet", NETNS, "--container-id", "ea6e1eb0ff32").status == 0

    assert {call.env["CNI_CONTAINERID"] for call in cli.calls} == {"ea6e1eb0ff32"}
    assert os.listdir(cli.cache / "results") == []


@pytest.mark.parametrize("before", [["-i", "eth1"], ["--json", "--ifname=eth1"]])
def test_options_may_stand_before_the_verb(cli: Cli, before: list[str]) -> None:
    cli.recorded_network()

    outcome = cli.run("cni", *before, "add", "mynet", NETNS, "--cache-dir", str(cli.cache))

    assert outcome.status == 0
    assert cli.verbs == ["ADD"]
    assert cli.calls[0].env["CNI_IFNAME"] == "eth1"


def test_the_value_of_an_option_before_the_verb_is_not_taken_for_the_verb(cli: Cli) -> None:
    cli.recorded_network()

    cli.run("cni", "-i", "gc", "add", "mynet", NETNS, "--cache-dir", str(cli.cache))

    assert cli.verbs == ["ADD"]
    assert cli.calls[0].env["CNI_IFNAME"] == "gc"


def test_cni_args_reach_every_verb_about_an_attachment(cli: Cli) -> None:
    cli.recorded_network()
    env = {"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=web"}

    for verb in ("add", "check", "del"):
        assert cli.cni(verb, "mynet", NETNS, env=env).status == 0

    assert {call.env["CNI_ARGS"] for call in cli.calls} == {env["CNI_ARGS"]}


def test_capability_arguments_reach_the_plugins_that_declare_them(cli: Cli) -> None:
    cli.recording_plugin()
    capable = {"type": "recording", "capabilities": {"portMappings": True, "bandwidth": False}}
    cli.network("mynet", capable, "recording")
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]

    cli.cni("add", "mynet", NETNS, env={"CAP_ARGS": json.dumps({"portMappings": ports, "bandwidth": {}})})

    assert [call.config.get("runtimeConfig") for call in cli.calls] == [{"portMappings": ports}, None]


def test_plugins_are_looked_for_in_every_directory_in_order(cli: Cli) -> None:
    cli.recorded_network()
    path = f"{cli.directory / 'missing'}:{cli.plugins}:{cli.directory}"

    assert cli.cni("add", "mynet", NETNS, env={"CNI_PATH": path}).status == 0

    assert cli.calls[0].env["CNI_PATH"] == path


def test_the_cache_directory_is_made_when_it_is_needed(cli: Cli) -> None:
    cli.recorded_network()
    deep = cli.directory / "a" / "b"

    assert cli.run("cni", "add", "mynet", NETNS, "--cache-dir", str(deep)).status == 0
    assert cli.run("cni", "add", "mynet", NETNS, "--cache-dir", "relative").status == 0

    for cache in (deep, cli.directory / "relative"):
        assert os.listdir(cache / "results") == [f"mynet-{CONTAINER}-eth0"]
        assert (cache / "results").stat().st_mode & 0o777 == 0o700


def failing_second(cli: Cli) -> str:
    """A network whose second plugin refuses ADD."""
    cli.recording_plugin()
    script = """[ "$CNI_COMMAND" != ADD ] || { echo '{"code":100,"msg":"no luck"}'; exit 1; }"""
    return cli.network("mynet", "recording", cli.plugin("unlucky", script))


def test_a_failed_add_is_left_to_the_caller_as_with_cnitool(cli: Cli) -> None:
    outcome = cli.cni("add", failing_second(cli), NETNS)

    assert (outcome.status, outcome.stdout) == (1, "")
    assert cli.verbs == ["ADD"]
    assert os.listdir(cli.cache / "results") == []


def test_a_failed_add_is_undone_if_asked_for(cli: Cli) -> None:
    outcome = cli.cni("add", failing_second(cli), NETNS, "--cleanup", "--json")

    assert outcome.status == 1
    assert (outcome.error["code"], outcome.error["plugin"]) == (100, "unlucky")
    assert cli.verbs == ["ADD", "DEL"]
    assert os.listdir(cli.cache / "results") == []


def test_a_network_of_the_old_single_plugin_form_works(cli: Cli) -> None:
    document = {"cniVersion": "0.4.0", "name": "single", "type": cli.recording_plugin()}
    (cli.networks / "single.conf").write_text(json.dumps(document))

    assert cli.cni("add", "single", NETNS).status == 0

    assert cli.verbs == ["ADD"]


def test_a_broken_file_does_not_hide_the_networks_behind_it(cli: Cli, tmp_path: Path) -> None:
    (cli.networks / "00-broken.conflist").write_text('{"cniVersion": "1.1.0", "na')

    outcome = cli.cni("add", cli.recorded_network(), NETNS)

    assert outcome.status == 0
    assert outcome.document == RESULT
    assert outcome.stderr.startswith(f"warning: skipped {tmp_path / 'net.d' / '00-broken.conflist'}: ")
    assert len(outcome.stderr.splitlines()) == 1
