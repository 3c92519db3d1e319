"""JSON for programs, plain text on a terminal, and errors that a person can act on."""

from __future__ import annotations

import json

import pytest

from ..fixtures.cli import RESULT, Cli

pytestmark = pytest.mark.unit

NETNS = "/var/run/netns/cnitest"
CONTAINER = "cnitool-20c433bb2b1d6ede56d6"


def test_a_terminal_gets_a_result_to_read(cli: Cli) -> None:
    cli.recorded_network()

    outcome = cli.on_a_terminal("cni", "add", "mynet", NETNS, "--cache-dir", str(cli.cache))

    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == [
        "result of CNI 1.1.0",
        "interface   eth0         mac 02:00:00:00:00:01  /run/netns/web",
        "address     10.1.2.3/24  gateway 10.1.2.1       eth0",
        "route       0.0.0.0/0",
        "nameserver  10.1.2.1",
    ]


def test_a_terminal_gets_json_if_it_is_asked_for(cli: Cli) -> None:
    cli.recorded_network()

    outcome = cli.on_a_terminal("cni", "add", "mynet", NETNS, "--json", "--cache-dir", str(cli.cache))

    assert outcome.document == RESULT
    assert outcome.stdout.endswith("}\n")


def test_a_terminal_gets_old_results_to_read_as_well(cli: Cli) -> None:
    legacy = {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.2.3/24", "routes": [{"dst": "10.0.0.0/8"}]}}
    (cli.directory / "result.json").write_text(json.dumps(legacy))

    outcome = cli.on_a_terminal("cni", "convert", "--to", "0.1.0", "result.json")

    assert [line.split()[:2] for line in outcome.stdout.splitlines()[1:]] == [
        ["address", "10.1.2.3/24"],
        ["route", "10.0.0.0/8"],
    ]


def test_a_terminal_gets_attachments_as_a_table(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)

    outcome = cli.on_a_terminal("cni", "attachments", "--cache-dir", str(cli.cache))

    assert [line.split() for line in outcome.stdout.splitlines()] == [
        ["NETWORK", "CONTAINER", "INTERFACE", "NETNS"],
        ["mynet", CONTAINER, "eth0", NETNS],
    ]


def test_a_terminal_gets_findings_as_a_table_and_what_is_wrong_below(cli: Cli) -> None:
    cli.recorded_network("good")
    cli.network("bad", "missing")

    outcome = cli.on_a_terminal("cni", "validate")

    assert outcome.status == 3
    header, good, bad, blank, wrong = outcome.stdout.splitlines()
    assert header.split()[0] == "NETWORK"
    assert good.split() == ["good", "1.1.0", "fine", "recording", str(cli.networks / "00.conflist")]
    assert bad.split()[:3] == ["bad", "1.1.0", "wrong"]
    assert blank == ""
    assert '"missing"' in wrong
    assert wrong.startswith(str(cli.networks / "01.conflist"))


def test_a_terminal_gets_a_plugins_versions_in_a_sentence(cli: Cli) -> None:
    outcome = cli.on_a_terminal("cni", "version", cli.recording_plugin())

    assert outcome.stdout == "recording supports 0.4.0, 1.0.0, 1.1.0\n"


@pytest.mark.parametrize("command", ["attachments", "version recording"])
def test_json_can_be_forced_on_a_terminal(cli: Cli, command: str) -> None:
    cli.recorded_network()

    outcome = cli.on_a_terminal("cni", *command.split(), "--json", "--cache-dir", str(cli.cache))

    assert outcome.stdout.startswith(("[", "{"))
    assert outcome.document is not None


def test_a_terminal_is_not_sent_control_characters_of_others(cli: Cli) -> None:
    cli.recording_plugin(result={"cniVersion": "1.1.0", "interfaces": [{"name": "\x1b[2Jeth0"}]})
    cli.network("mynet", "recording")

    outcome = cli.on_a_terminal("cni", "add", "mynet", NETNS, "--cache-dir", str(cli.cache))

    assert "\x1b" not in outcome.stdout


def failing(cli: Cli) -> str:
    script = """echo "eth0 is taken" >&2
echo '{"cniVersion":"1.1.0","code":104,"msg":"no luck","details":"try another day"}'
exit 1"""
    return cli.network("mynet", cli.plugin("failing", script))


def test_an_error_says_what_failed_where_with_which_code_and_what_to_do(cli: Cli) -> None:
    outcome = cli.cni("add", failing(cli), NETNS)

    assert outcome.stdout == ""
    assert [line.partition(":")[0] for line in outcome.stderr.splitlines()] == [
        "error",
        "where",
        "said",
        "next",
    ]
    assert outcome.said["error"].endswith("no luck; try another day")
    assert outcome.said["where"] == f"code 104, plugin failing, attachment mynet/{CONTAINER}/eth0"
    assert outcome.said["said"] == "eth0 is taken"
    assert outcome.said["next"]


def test_an_error_is_a_json_object_if_asked_for(cli: Cli) -> None:
    outcome = cli.cni("add", failing(cli), NETNS, "--json")

    assert outcome.stdout == ""
    error = outcome.error
    assert error["error"].endswith("no luck; try another day")
    assert {key: error[key] for key in ("code", "msg", "details", "plugin", "stderr")} == {
        "code": 104,
        "msg": "no luck",
        "details": "try another day",
        "plugin": "failing",
        "stderr": "eth0 is taken\n",
    }
    assert set(error["attachment"].values()) == {"mynet", CONTAINER, "eth0"}
    assert error["next"]


def test_an_error_is_json_also_when_a_variable_makes_no_sense(cli: Cli) -> None:
    outcome = cli.cni("add", cli.recorded_network(), NETNS, "--json", env={"CNI_ARGS": "nonsense"})

    assert outcome.status == 2
    assert "CNI_ARGS" in outcome.error["error"]


def test_an_error_is_json_also_when_a_file_was_passed_over(cli: Cli) -> None:
    (cli.networks / "broken.conflist").write_text("{")

    outcome = cli.cni("add", failing(cli), NETNS, "--json")

    assert outcome.error["code"] == 104


def test_errors_name_an_attachment_with_the_same_keys_as_the_list_does(cli: Cli) -> None:
    outcome = cli.cni("add", failing(cli), NETNS, "--json")

    assert outcome.error["attachment"] == {"network": "mynet", "containerID": CONTAINER, "ifName": "eth0"}


def test_several_failures_are_all_told(cli: Cli) -> None:
    refusing = """echo '{"code":100,"msg":"not '$0'"}'; exit 1"""
    cli.network("mynet", cli.plugin("one", refusing), cli.plugin("two", refusing))

    outcome = cli.cni("gc", "mynet")

    assert outcome.status == 1
    assert ["bin/one" in outcome.stderr, "bin/two" in outcome.stderr] == [True, True]


def test_what_a_plugin_says_on_stderr_is_passed_on(cli: Cli) -> None:
    cli.network("mynet", cli.plugin("chatty", "echo 'by the way' >&2; echo '{}'"))

    outcome = cli.cni("add", "mynet", NETNS)

    assert (outcome.status, outcome.stderr) == (0, "by the way\n")
    assert outcome.document == {"cniVersion": "1.1.0"}


def test_a_file_that_was_passed_over_is_told_once(cli: Cli) -> None:
    (cli.networks / "broken.conflist").write_text("{")

    outcome = cli.cni("add", "other", NETNS)

    assert outcome.status == 3
    assert outcome.stderr.count("broken.conflist") == 1
