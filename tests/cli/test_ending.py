"""How the command ends: exit statuses, deadlines, signals, and readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from .stage import NETLOOM, PATIENCE, HangingPlugin, Stage

pytestmark = pytest.mark.unit

NETNS = "/run/netns/web"


def test_a_plugin_that_fails_is_1(stage: Stage) -> None:
    stage.network("mynet", stage.plugin("failing", "exit 7"))

    assert stage.cni("add", "mynet", NETNS).status == 1


def test_a_command_line_that_makes_no_sense_is_2(stage: Stage) -> None:
    stage.recorded_network()

    assert stage.cni("add", "mynet", NETNS, "--no-such-option").status == 2
    assert stage.verbs == []


def test_a_wrong_configuration_is_3(stage: Stage) -> None:
    stage.network("mynet", "missing")

    assert stage.cni("add", "mynet", NETNS).status == 3


@pytest.mark.parametrize("verb", ["add", "del"])
def test_a_deadline_is_124_and_ends_the_plugin_with_its_helpers(
    stage: Stage, hanging: HangingPlugin, verb: str
) -> None:
    stage.network("mynet", hanging.name)

    outcome = stage.cni(verb, "mynet", NETNS, "--timeout", "3", "--json")

    assert (outcome.status, outcome.stdout) == (124, "")
    assert outcome.error["code"] == 11
    assert "--timeout" in outcome.error["next"]
    hanging.wait_until_it_hangs()
    assert hanging.helper_ended()


def test_a_deadline_is_for_all_plugins_together(stage: Stage, hanging: HangingPlugin) -> None:
    stage.network("mynet", stage.recording_plugin(), hanging.name, stage.recording_plugin("third"))

    outcome = stage.cni("add", "mynet", NETNS, "--timeout", "5", "--json")

    assert (outcome.status, outcome.error["plugin"]) == (124, hanging.name)
    assert "third" not in {call.config["type"] for call in stage.calls if call.verb == "ADD"}


def test_an_attachment_that_another_run_works_on_is_busy(stage: Stage, hanging: HangingPlugin) -> None:
    stage.network("mynet", hanging.name)
    first = stage.start("cni", "add", "mynet", NETNS, "--cache-dir", str(stage.cache))
    hanging.wait_until_it_hangs()

    outcome = stage.cni("add", "mynet", NETNS, "--timeout", "0.05", "--json")

    first.terminate()
    first.communicate(timeout=PATIENCE)
    assert outcome.status == 124
    assert outcome.error["code"] == 11
    assert "busy" in outcome.error["msg"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_the_plugin_with_its_helpers(
    stage: Stage, hanging: HangingPlugin, number: signal.Signals, status: int
) -> None:
    stage.network("mynet", hanging.name)
    process = stage.start("cni", "add", "mynet", NETNS, "--cache-dir", str(stage.cache))
    hanging.wait_until_it_hangs()

    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE)

    assert process.returncode == status
    assert hanging.helper_ended()
    assert stdout == b""
    assert b"Traceback" not in stderr
    assert os.listdir(stage.cache / "results") == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_a_plugin_that_has_only_just_started(
    stage: Stage, number: signal.Signals, status: int
) -> None:
    """On one processor, and without being preempted, the plugin signals before its start has returned."""
    script = f"echo $$ > {{fifo}}\nkill -{int(number)} $PPID\nexec sleep 1000\n"
    hanging = HangingPlugin(stage, "hasty", script)
    stage.network("mynet", hanging.name)
    processor = min(os.sched_getaffinity(0))

    outcome = stage.cni(
        "add", "mynet", NETNS, prefix=["taskset", "-c", str(processor), "chrt", "--batch", "0"]
    )

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
    stage: Stage, hanging: HangingPlugin, signals: tuple[signal.Signals, ...]
) -> None:
    stage.network("mynet", hanging.name)
    process = stage.start("cni", "add", "mynet", NETNS, "--cache-dir", str(stage.cache))
    hanging.wait_until_it_hangs()

    for number in signals:
        process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE)

    assert process.returncode == 128 + signals[0]
    assert b"Traceback" not in stderr
    assert hanging.helper_ended()


def test_a_parent_that_ignores_its_children_changes_nothing(stage: Stage) -> None:
    stage.recorded_network()

    outcome = stage.shell(f"trap '' CHLD; exec netloom cni add mynet {NETNS} --cache-dir {stage.cache}")

    assert outcome.status == 0
    assert stage.verbs == ["ADD"]


def test_a_reader_that_has_seen_enough_is_no_error(stage: Stage) -> None:
    stage.recorded_network()
    add = f"netloom cni add mynet {NETNS} --cache-dir {stage.cache}"

    outcome = stage.shell(f"{add} | head -c1 >/dev/null; echo ${{PIPESTATUS[0]}}")

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
def test_a_reader_that_is_gone_is_no_error(stage: Stage, words: str, unbuffered: str) -> None:
    stage.recording_plugin()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [NETLOOM, *words.split(" ")],
            env={**stage.env, "PYTHONUNBUFFERED": unbuffered},
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
        )

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "stdout"),
    [("--version", ">/dev/full"), ("cni version recording", ">/dev/full"), ("cni version recording", ">&-")],
)
def test_output_that_cannot_be_written_is_one_sentence(stage: Stage, words: str, stdout: str) -> None:
    stage.recording_plugin()

    outcome = stage.shell(f"netloom {words} {stdout}")

    assert outcome.status == 1
    assert len(outcome.stderr.splitlines()) <= 3


def test_output_that_cannot_be_written_is_an_error_for_programs_too(stage: Stage) -> None:
    stage.recording_plugin()

    outcome = stage.shell("netloom cni version recording --json >/dev/full")

    assert (outcome.status, outcome.error["code"]) == (1, "output-unwritable")


def test_a_closed_stdin_is_one_sentence(stage: Stage) -> None:
    outcome = stage.shell("netloom cni convert --to 1.0.0 <&-")

    assert outcome.status in (1, 2)
    assert outcome.stderr.startswith("error: ")
