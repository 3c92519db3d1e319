"""Help, usage errors and completion."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable

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


@pytest.mark.parametrize("words", [[], ["-h"]], ids=str)
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


def test_the_version_is_shown(stage: Stage) -> None:
    assert stage.run("--version") == Outcome(0, f"netloom {__version__}\n", "")


@pytest.mark.parametrize(
    "words", [["unknown"], ["cni", "unknown"], ["cni", "-i", "eth1", "unknown"]], ids=" ".join
)
def test_an_unknown_command_is_named_with_a_list_of_those_there_are(stage: Stage, words: list[str]) -> None:
    outcome = stage.run(*words)

    assert (outcome.status, outcome.stdout) == (2, "")
    assert "'unknown'" in outcome.stderr.splitlines()[0]
    assert f"\n  {'add' if words[0] == 'cni' else 'cni'} " in outcome.stderr


@pytest.mark.parametrize("words", ["cni --timeout 5 -h", "help cni add", "cni help add", "help cni", "help"])
def test_help_is_found_wherever_it_is_asked_for(stage: Stage, words: str) -> None:
    outcome = stage.run(*words.split())

    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(("usage: netloom cni add", "netloom"))


@pytest.mark.parametrize("words", ["cni --bogus", "cni -i", "cni --timeout", "cni --timeout 5"])
def test_options_without_a_command_are_an_error(stage: Stage, words: str) -> None:
    outcome = stage.run(*words.split())

    assert (outcome.status, outcome.stdout) == (2, "")
    assert "no command is given" in outcome.stderr.splitlines()[0]


def test_arguments_that_are_missing_are_named_and_no_others(stage: Stage) -> None:
    outcome = stage.run("cni", "add", "mynet")

    assert outcome.status == 2
    assert outcome.stderr.splitlines()[-1].endswith("required: NETNS")


@pytest.mark.parametrize("seconds", ["0", "soon"])
def test_a_deadline_must_be_a_time(stage: Stage, seconds: str) -> None:
    outcome = stage.run("cni", "status", "mynet", f"--timeout={seconds}")

    assert outcome.status == 2
    assert "--timeout" in outcome.stderr.splitlines()[-1]


def test_an_attachment_to_keep_must_have_both_names(stage: Stage) -> None:
    outcome = stage.run("cni", "gc", stage.recorded_network(), "--valid", "web")

    assert outcome.status == 2
    assert stage.verbs == []


@pytest.fixture(scope="module")
def completion(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script that users of bash evaluate."""
    stage = Stage(tmp_path_factory.mktemp("completion"))
    return stage.run("completion", "bash").stdout


Complete = Callable[..., list[str]]


@pytest.fixture
def complete(stage: Stage, completion: str) -> Complete:
    """What a real bash offers for the last word."""

    def offered(*words: str) -> list[str]:
        outcome = stage.shell(f"""
            {completion}
            complete -p netloom >/dev/null || exit 1
            COMP_WORDS=({shlex.join(["netloom", *words])})
            COMP_CWORD={len(words)}
            _netloom
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """)
        assert (outcome.status, outcome.stderr) == (0, "")
        return outcome.stdout.split()

    return offered


def test_bash_completes_commands(complete: Complete) -> None:
    assert complete("") == list(TREE)
    assert complete("cni", "a") == ["add", "attachments"]


def test_bash_completes_the_networks_that_are_there(stage: Stage, complete: Complete) -> None:
    stage.network("front", "any")
    stage.network("back", "any")
    (stage.networks / "broken.conflist").write_text("{")

    assert complete("cni", "add", "") == ["front", "back"]
    assert complete("cni", "-i", "eth1", "del", "--timeout", "5", "fr") == ["front"]


def test_bash_completes_options(complete: Complete) -> None:
    assert {"--ifname", "--cache-dir", "--timeout", "--cleanup", "--json", "--help"} <= set(
        complete("cni", "add", "mynet", "--")
    )
    assert complete("--v") == ["--version"]


def test_bash_completes_the_verb_after_options(complete: Complete) -> None:
    assert complete("cni", "-i", "eth1", "a") == ["add", "attachments"]


def test_bash_completes_plugins_and_versions(stage: Stage, complete: Complete) -> None:
    stage.recording_plugin("bridge")

    assert complete("cni", "version", "br") == ["bridge"]
    assert complete("cni", "convert", "--to", "1") == ["1.0.0", "1.1.0"]


def test_bash_offers_nothing_where_anything_may_stand(stage: Stage, complete: Complete) -> None:
    stage.network("front", "any")

    assert complete("cni", "add", "front", "--timeout", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(stage: Stage, shell: str) -> None:
    outcome = stage.run("completion", shell)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert " __complete " in outcome.stdout
    if installed := shutil.which(shell):
        subprocess.run([installed, "-n"], input=outcome.stdout.encode(), check=True)


def test_an_unknown_shell_is_refused_with_a_list(stage: Stage) -> None:
    outcome = stage.run("completion", "tcsh")

    assert outcome.status == 2
    assert all(shell in outcome.stderr for shell in ("bash", "zsh", "fish"))
