"""Bad names, variables, directories and plugins: the right code, a clear sentence, and nothing is run."""

from __future__ import annotations

import os

import pytest

from ..fixtures.cli import Cli

pytestmark = pytest.mark.unit

NETNS = "/run/netns/web"
LONG = "a" * 4096


@pytest.mark.parametrize("name", ["../mynet", ""])
def test_a_strange_network_name_is_simply_not_found(cli: Cli, name: str) -> None:
    cli.recorded_network()

    outcome = cli.cni("add", name, NETNS, "--json")

    assert (outcome.status, outcome.stdout, cli.verbs) == (3, "", [])
    assert outcome.error["code"] == 7


@pytest.mark.parametrize(
    ("verb", "name"),
    [("add", "../../x"), ("del", "..")],
)
def test_an_interface_name_that_the_kernel_refuses_runs_no_plugin(cli: Cli, verb: str, name: str) -> None:
    outcome = cli.cni(verb, cli.recorded_network(), NETNS, "-i", name, "--json")

    assert (outcome.status, outcome.stdout, cli.verbs) == (1, "", [])
    assert outcome.error["code"] == 4


@pytest.mark.parametrize(
    "words", [["add", LONG, NETNS], ["add", "mynet", NETNS, "-i", LONG], ["version", LONG]], ids=len
)
def test_an_error_does_not_repeat_a_long_name_in_full(cli: Cli, words: list[str]) -> None:
    cli.recorded_network()

    outcome = cli.cni(*words)

    assert outcome.status in (1, 3)
    assert len(outcome.stderr) < 2000


@pytest.mark.parametrize(
    "words",
    [
        [b"add", b"mynet", b"/run/netns/\xff"],
        [b"add", b"\xff", b"/run/netns/web"],
        [b"gc", b"mynet", b"--valid", b"\xff:eth0"],
    ],
    ids=["netns", "network", "attachment to keep"],
)
def test_bytes_that_are_no_text_are_refused_before_a_plugin_runs(cli: Cli, words: list[bytes]) -> None:
    cli.recorded_network()

    outcome = cli.run(b"cni", *words, "--json", "--cache-dir", str(cli.cache))

    assert outcome.status in (1, 2, 3)
    assert cli.verbs == []


def test_bytes_that_are_no_text_in_arguments_are_refused_before_a_plugin_runs(cli: Cli) -> None:
    args = {"CNI_ARGS": os.fsdecode(b"KEY=\xff")}

    outcome = cli.cni("add", cli.recorded_network(), NETNS, env=args)

    assert outcome.status in (1, 2)
    assert cli.verbs == []


def test_directories_of_any_name_can_be_reported(cli: Cli) -> None:
    cli.recorded_network()
    strange = cli.directory / os.fsdecode(b"net\xff.d")
    cli.networks.rename(strange)

    outcome = cli.run("cni", "validate", "--json", env={"NETCONFPATH": str(strange)})

    assert outcome.status == 0
    assert [it["network"] for it in outcome.document] == ["mynet"]


@pytest.mark.parametrize("args", ["A=B;;C=", "A=B=C", LONG], ids=len)
def test_broken_cni_args_are_refused_before_a_plugin_runs(cli: Cli, args: str) -> None:
    outcome = cli.cni("add", cli.recorded_network(), NETNS, env={"CNI_ARGS": args})

    assert (outcome.status, outcome.stdout, cli.verbs) == (2, "", [])
    assert "CNI_ARGS" in outcome.said["error"]
    assert len(outcome.stderr) < 2000


@pytest.mark.parametrize("args", ["[]", '{"a":' * 2000], ids=len)
def test_broken_capability_arguments_are_refused_before_a_plugin_runs(cli: Cli, args: str) -> None:
    outcome = cli.cni("add", cli.recorded_network(), NETNS, env={"CAP_ARGS": args})

    assert (outcome.status, outcome.stdout, cli.verbs) == (2, "", [])
    assert "CAP_ARGS" in outcome.said["error"]


def test_a_missing_directory_of_networks_is_named(cli: Cli) -> None:
    outcome = cli.cni("add", "mynet", NETNS, env={"NETCONFPATH": "/no/such/directory"})

    assert outcome.status == 3
    assert "/no/such/directory" in outcome.said["error"]
    assert "NETCONFPATH" in outcome.said["next"]


def test_without_a_variable_networks_are_looked_for_where_runtimes_keep_them(cli: Cli) -> None:
    outcome = cli.run("cni", "status", "no-such-network", env={"NETCONFPATH": ""})

    assert outcome.status == 3
    assert "/etc/cni/net.d" in outcome.said["error"]


@pytest.mark.parametrize("verb", ["add", "validate"])
def test_a_file_in_the_place_of_the_directory_of_networks_is_an_io_failure(cli: Cli, verb: str) -> None:
    file = cli.directory / "a-file"
    file.touch()
    words = ["mynet", NETNS] if verb == "add" else []

    outcome = cli.cni(verb, *words, "--json", env={"NETCONFPATH": str(file)})

    assert (outcome.status, outcome.stdout) == (1, "")
    assert outcome.error["code"] == 5
    assert str(file) in outcome.error["msg"]


def test_a_directory_of_networks_that_may_not_be_read_is_an_io_failure(
    cli: Cli, bound_by_permissions: tuple[str, ...]
) -> None:
    cli.recorded_network()
    cli.networks.chmod(0)

    outcome = cli.cni("add", "mynet", NETNS, "--json", prefix=bound_by_permissions)

    cli.networks.chmod(0o700)
    assert (outcome.status, outcome.error["code"]) == (1, 5)
    assert "Permission denied" in outcome.error["msg"]


def test_a_network_that_may_not_be_read_does_not_hide_the_others(
    cli: Cli, bound_by_permissions: tuple[str, ...]
) -> None:
    (cli.networks / "00-secret.conflist").touch(0)
    cli.recorded_network()

    outcome = cli.cni("add", "mynet", NETNS, prefix=bound_by_permissions)

    assert outcome.status == 0
    assert "00-secret.conflist" in outcome.stderr


def test_a_fifo_among_the_networks_is_not_waited_for(cli: Cli) -> None:
    os.mkfifo(cli.networks / "00-fifo.conflist")

    assert cli.cni("add", cli.recorded_network(), NETNS).status == 0


@pytest.mark.parametrize(
    ("verb", "plugin"),
    [
        ("add", "../../bin/sh"),
        ("add", "../proof"),
        ("del", "../proof"),
        ("status", "../proof"),
        ("validate", "../proof"),
    ],
)
def test_a_plugin_type_is_never_a_path(cli: Cli, verb: str, plugin: str) -> None:
    """CVE-2021-20206."""
    proof = cli.directory / "ran"
    (cli.directory / "proof").write_text(f"#!/bin/sh\ntouch {proof}\n")
    (cli.directory / "proof").chmod(0o755)
    cli.network("evil", plugin)
    words = ["evil"] if verb in ("status", "validate") else ["evil", NETNS]

    outcome = cli.cni(verb, *words)

    assert outcome.status == 3
    assert not proof.exists()
    assert "invalid plugin name" in outcome.stdout + outcome.stderr


def test_version_asks_no_plugin_outside_the_plugin_directories(cli: Cli) -> None:
    outcome = cli.run("cni", "version", "../../bin/sh", "--json")

    assert (outcome.status, outcome.error["code"]) == (3, 7)


@pytest.mark.parametrize(
    "script",
    [
        "",
        """echo '{"cniVersion":"1.1.0","ips":['""",
        "printf '\\377'",
        "head -c 50000000 /dev/zero",
    ],
    ids=["nothing", "half a JSON", "no UTF-8", "50 MB"],
)
def test_a_plugin_that_answers_nonsense_is_a_decoding_failure(cli: Cli, script: str) -> None:
    cli.network("mynet", cli.plugin("odd", script))

    outcome = cli.cni("add", "mynet", NETNS, "--json")

    assert (outcome.status, outcome.stdout) == (1, "")
    assert (outcome.error["code"], outcome.error["plugin"]) == (6, "odd")
    assert len(outcome.stderr) < 2000
    assert os.listdir(cli.cache / "results") == []


def test_a_plugin_that_answers_null_said_nothing_as_with_libcni(cli: Cli) -> None:
    cli.network("mynet", cli.plugin("null", "echo null"))

    outcome = cli.cni("add", "mynet", NETNS)

    assert (outcome.status, outcome.document) == (0, {"cniVersion": "1.1.0"})


@pytest.mark.parametrize(
    ("script", "words"),
    [("kill -9 $$", "killed"), ("echo oops >&2; exit 1", "oops")],
)
def test_a_plugin_that_fails_without_a_word_is_told_by_its_end(cli: Cli, script: str, words: str) -> None:
    cli.network("mynet", cli.plugin("mute", script))

    outcome = cli.cni("add", "mynet", NETNS)

    assert outcome.status == 1
    assert words in outcome.said["error"]


def test_a_plugin_that_floods_stderr_does_not_flood_the_terminal(cli: Cli) -> None:
    script = "head -c 30000000 /dev/zero | tr '\\0' x >&2; exit 1"
    cli.network("mynet", cli.plugin("noisy", script))

    outcome = cli.cni("add", "mynet", NETNS)

    assert outcome.status == 1
    assert len(outcome.stderr) < 10_000


def test_a_plugin_that_cannot_be_executed_is_an_io_failure(cli: Cli) -> None:
    (cli.plugins / "plain").write_text("not a program")
    cli.network("mynet", "plain")

    outcome = cli.cni("add", "mynet", NETNS, "--json")

    assert (outcome.status, outcome.error["code"]) == (1, 5)
    assert str(cli.plugins / "plain") in outcome.error["msg"]
