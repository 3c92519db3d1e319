"""Help, usage errors and completion."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from netloom import __version__
from netloom.cli.tree import TREE, Command

from .stage import Outcome, Stage

pytestmark = pytest.mark.unit

COMMANDS = [
    path
    for word, node in TREE.items()
    for path in ([word] if isinstance(node, Command) else [f"{word} {verb}" for verb in node.commands])
]
GROUPS = [word for word, node in TREE.items() if not isinstance(node, Command)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(stage: Stage, command: str) -> None:
    outcome = stage.run(*command.split(), "--help")

    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(f"usage: netloom {command} ")
    _, _, examples = outcome.stdout.partition("\nexamples:\n")
    assert f"netloom {command}" in examples


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]], ids=str)
def test_the_command_lists_its_commands(stage: Stage, words: list[str]) -> None:
    outcome = stage.run(*words)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert all(f"\n  {word} " in outcome.stdout for word in TREE)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_commands(stage: Stage, group: str) -> None:
    outcomes = {stage.run(group, *words) for words in ([], ["--help"])}

    assert len(outcomes) == 1
    (outcome,) = outcomes
    assert outcome.status == 0
    verbs = [command.split()[1] for command in COMMANDS if command.startswith(f"{group} ")]
    assert all(f"\n  {verb} " in outcome.stdout for verb in verbs)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_shown(stage: Stage, option: str) -> None:
    assert stage.run(option) == Outcome(0, f"netloom {__version__}\n", "")


@pytest.mark.parametrize(
    "words", [["unknown"], ["cni", "unknown"], ["cni", "-i", "eth1", "unknown"]], ids=" ".join
)
def test_an_unknown_command_is_named_with_a_list_of_those_there_are(stage: Stage, words: list[str]) -> None:
    outcome = stage.run(*words)

    assert (outcome.status, outcome.stdout) == (2, "")
    assert "'unknown'" in outcome.stderr.splitlines()[0]
    assert f"\n  {'add' if words[0] == 'cni' else 'cni'} " in outcome.stderr


def test_arguments_that_are_missing_are_named_and_no_others(stage: Stage) -> None:
    outcome = stage.run("cni", "add", "mynet")

    assert outcome.status == 2
    assert outcome.stderr.splitlines()[-1].endswith("required: NETNS")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_deadline_must_be_a_time(stage: Stage, seconds: str) -> None:
    outcome = stage.run("cni", "status", "mynet", f"--timeout={seconds}")

    assert outcome.status == 2
    assert "--timeout" in outcome.stderr.splitlines()[-1]


@pytest.mark.parametrize("text", ["web", "web:", ":eth0", ":"])
def test_an_attachment_to_keep_must_have_both_names(stage: Stage, text: str) -> None:
    outcome = stage.run("cni", "gc", stage.recorded_network(), "--valid", text)

    assert outcome.status == 2
    assert stage.verbs == []


def completions(stage: Stage, *words: str) -> list[str]:
    """What a real bash offers for the last word."""
    script = f"""
        eval "$(netloom completion bash)"
        complete -p netloom >/dev/null || exit 1
        COMP_WORDS=({shlex.join(["netloom", *words])})
        COMP_CWORD={len(words)}
        _netloom
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    outcome = stage.shell(script)
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.stdout.split()


def test_bash_completes_commands(stage: Stage) -> None:
    assert completions(stage, "") == list(TREE)
    assert completions(stage, "cni", "a") == ["add", "attachments"]


def test_bash_completes_the_networks_that_are_there(stage: Stage) -> None:
    stage.network("front", "any")
    stage.network("back", "any")
    (stage.networks / "broken.conflist").write_text("{")

    assert completions(stage, "cni", "add", "") == ["front", "back"]
    assert completions(stage, "cni", "-i", "eth1", "del", "fr") == ["front"]
    assert completions(stage, "cni", "check", "--timeout", "5", "b") == ["back"]


def test_bash_completes_options(stage: Stage) -> None:
    assert {"--ifname", "--cache-dir", "--timeout", "--cleanup", "--json", "--help"} <= set(
        completions(stage, "cni", "add", "mynet", "--")
    )
    assert completions(stage, "--v") == ["--version"]


def test_bash_completes_options_before_the_verb_and_the_verb_after_them(stage: Stage) -> None:
    assert completions(stage, "cni", "-i", "eth1", "a") == ["add", "attachments"]


def test_bash_completes_plugins_versions_and_shells(stage: Stage) -> None:
    stage.recording_plugin("bridge")

    assert completions(stage, "cni", "version", "br") == ["bridge"]
    assert completions(stage, "cni", "convert", "--to", "1") == ["1.0.0", "1.1.0"]
    assert completions(stage, "completion", "") == ["bash", "fish", "zsh"]


def test_bash_offers_nothing_where_anything_may_stand(stage: Stage) -> None:
    stage.network("front", "any")

    assert completions(stage, "cni", "add", "front", "--timeout", "") == []
    assert completions(stage, "unknown", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(stage: Stage, shell: str) -> None:
    outcome = stage.run("completion", shell)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert "netloom __complete" in outcome.stdout
    if installed := shutil.which(shell):
        subprocess.run([installed, "-n"], input=outcome.stdout.encode(), check=True)


def test_an_unknown_shell_is_refused_with_a_list(stage: Stage) -> None:
    outcome = stage.run("completion", "tcsh")

    assert outcome.status == 2
    assert all(shell in outcome.stderr for shell in ("bash", "zsh", "fish"))
