"""How the command ends: exit statuses, deadlines, signals, and readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ..fixtures.cli import NETLOOM, PATIENCE, Cli, HangingPlugin

pytestmark = [pytest.mark.unit, pytest.mark.slow]

NETNS = "/run/netns/web"


def test_a_plugin_that_fails_is_1(cli: Cli) -> None:
    cli.network("mynet", cli.plugin("failing", "exit 7"))

    assert cli.cni("add", "mynet", NETNS).status == 1


def test_a_command_line_that_makes_no_sense_is_2(cli: Cli) -> None:
    cli.recorded_network()

    assert cli.cni("add", "mynet", NETNS, "--no-such-option").status == 2
    assert cli.verbs == []


def test_a_wrong_configuration_is_3(cli: Cli) -> None:
    cli.network("mynet", "missing")

    assert cli.cni("add", "mynet", NETNS).status == 3


@pytest.mark.parametrize("verb", ["add", "del"])
def test_a_deadline_is_124_and_ends_the_plugin_with_its_helpers(
    cli: Cli, hanging: HangingPlugin, verb: str
) -> None:
    cli.network("mynet", hanging.name)

    outcome = cli.cni(verb, "mynet", NETNS, "--timeout", "3", "--json")

    assert (outcome.status, outcome.stdout) == (124, "")
    assert outcome.error["code"] == 11
    assert "--timeout" in outcome.error["next"]
    hanging.wait_until_it_hangs()
    assert hanging.helper_ended()


def test_a_deadline_is_for_all_plugins_together(cli: Cli, hanging: HangingPlugin) -> None:
    cli.network("mynet", cli.recording_plugin(), hanging.name, cli.recording_plugin("third"))

    outcome = cli.cni("add", "mynet", NETNS, "--timeout", "5", "--json")

    assert (outcome.status, outcome.error["plugin"]) == (124, hanging.name)
    assert "third" not in {call.config["type"] for call in cli.calls if call.verb == "ADD"}


def test_an_attachment_that_another_run_works_on_is_busy(cli: Cli, hanging: HangingPlugin) -> None:
    cli.network("mynet", hanging.name)
    first = cli.start("cni", "add", "mynet", NETNS, "--cache-dir", str(cli.cache))
    hanging.wait_until_it_hangs()

    outcome = cli.cni("add", "mynet", NETNS, "--timeout", "0.05", "--json")

    first.terminate()
    first.communicate(timeout=PATIENCE)
    assert outcome.status == 124
    assert outcome.error["code"] == 11
    assert "busy" in outcome.error["msg"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_the_plugin_with_its_helpers(
    cli: Cli, hanging: HangingPlugin, number: signal.Signals, status: int
) -> None:
    cli.network("mynet", hanging.name)
    process = cli.start("cni", "add", "mynet", NETNS, "--cache-dir", str(cli.cache))
    hanging.wait_until_it_hangs()

    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE)

    assert process.returncode == status
    assert hanging.helper_ended()
    assert stdout == b""
    assert b"Traceback" not in stderr
    assert os.listdir(cli.cache / "results") == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_a_plugin_that_has_only_just_started(
    cli: Cli, number: signal.Signals, status: int
) -> None:
    """On one processor, and without being preempted, the plugin signals before its start has returned."""
    script = f"echo $$ > {{fifo}}\nkill -{int(number)} $PPID\nexec sleep 1000\n"
    hanging = HangingPlugin(cli, "hasty", script)
    cli.network("mynet", hanging.name)
    processor = min(os.sched_getaffinity(0))

    outcome = cli.cni("add", "mynet", NETNS, prefix=["taskset", "-c", str(processor), "chrt", "--batch", "0"])

    hanging.wait_until_it_hangs()
    ended = hanging.helper_ended()
    hanging.close()
    assert (outcome.status, ended) == (status, True)


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGHUP,)],
    ids=["TERM TERM", "INT INT", "HUP"],
)
def test_no_signal_and_no_second_one_leaves_the_plugin_running(
    cli: Cli, hanging: HangingPlugin, signals: tuple[signal.Signals, ...]
) -> None:
    cli.network("mynet", hanging.name)
    process = cli.start("cni", "add", "mynet", NETNS, "--cache-dir", str(cli.cache))
    hanging.wait_until_it_hangs()

    for number in signals:
        process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE)

    assert process.returncode == 128 + signals[0]
    assert b"Traceback" not in stderr
    assert hanging.helper_ended()


def test_a_parent_that_ignores_its_children_changes_nothing(cli: Cli) -> None:
    cli.recorded_network()

    outcome = cli.shell(f"trap '' CHLD; exec netloom cni add mynet {NETNS} --cache-dir {cli.cache}")

    assert outcome.status == 0
    assert cli.verbs == ["ADD"]


def test_a_reader_that_has_seen_enough_is_no_error(cli: Cli) -> None:
    cli.recorded_network()
    add = f"netloom cni add mynet {NETNS} --cache-dir {cli.cache}"

    outcome = cli.shell(f"{add} | head -c1 >/dev/null; echo ${{PIPESTATUS[0]}}")

    assert (outcome.stdout, outcome.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("--version", ""),
        ("--version", "1"),
        ("cni --help", "1"),
        ("cni add --help", ""),
        ("cni version recording", ""),
        ("__complete cni ", ""),
    ],
)
def test_a_reader_that_is_gone_is_no_error(cli: Cli, words: str, unbuffered: str) -> None:
    cli.recording_plugin()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [NETLOOM, *words.split(" ")],
            env={**cli.env, "PYTHONUNBUFFERED": unbuffered},
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
        )

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "stdout"),
    [("--version", ">/dev/full"), ("cni version recording", ">/dev/full"), ("cni version recording", ">&-")],
)
def test_output_that_cannot_be_written_is_one_sentence(cli: Cli, words: str, stdout: str) -> None:
    cli.recording_plugin()

    outcome = cli.shell(f"netloom {words} {stdout}")

    assert outcome.status == 1
    assert len(outcome.stderr.splitlines()) <= 3


def test_output_that_cannot_be_written_is_an_error_for_programs_too(cli: Cli) -> None:
    cli.recording_plugin()

    outcome = cli.shell("netloom cni version recording --json >/dev/full")

    assert (outcome.status, outcome.error["code"]) == (1, "output-unwritable")


def test_a_closed_stdin_is_one_sentence(cli: Cli) -> None:
    outcome = cli.shell("netloom cni convert --to 1.0.0 <&-")

    assert outcome.status in (1, 2)
    assert outcome.stderr.startswith("error: ")
