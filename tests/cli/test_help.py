"""Help, usage errors and completion."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from netloom import __version__
from netloom.api.paths import DEFAULT_CONF_DIR, DEFAULT_PLUGIN_DIR, DEFAULT_SOCKET, DEFAULT_STATE_DIR
from netloom.cli.tree import TREE, Command
from netloom.cni.lock import LOCK_FILE

from ..fixtures.cli import Cli, Outcome

pytestmark = pytest.mark.unit

COMMANDS = [
    path
    for word, node in TREE.items()
    for path in ([word] if isinstance(node, Command) else [f"{word} {verb}" for verb in node.commands])
]
GROUPS = [word for word, node in TREE.items() if not isinstance(node, Command)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(cli: Cli, command: str) -> None:
    outcome = cli.run(*command.split(), "--help")

    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(f"usage: netloom {command} ")
    _, _, examples = outcome.stdout.partition("\nexamples:\n")
    assert f"netloom {command}" in examples


@pytest.mark.parametrize("words", [[], ["-h"]], ids=str)
def test_the_command_lists_its_commands(cli: Cli, words: list[str]) -> None:
    outcome = cli.run(*words)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert all(f"\n  {word} " in outcome.stdout for word in TREE)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_commands(cli: Cli, group: str) -> None:
    outcomes = {cli.run(group, *words) for words in ([], ["--help"])}

    assert len(outcomes) == 1
    (outcome,) = outcomes
    assert outcome.status == 0
    verbs = [command.split()[1] for command in COMMANDS if command.startswith(f"{group} ")]
    assert all(f"\n  {verb} " in outcome.stdout for verb in verbs)


def test_the_version_is_shown(cli: Cli) -> None:
    assert cli.run("--version") == Outcome(0, f"netloom {__version__}\n", "")


def test_an_interpreter_has_its_own_command(cli: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "netloom", "ls", "--help"], env=cli.env, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == cli.run("ls", "--help").stdout


@pytest.mark.parametrize(
    "words", [["unknown"], ["cni", "unknown"], ["cni", "-i", "eth1", "unknown"]], ids=" ".join
)
def test_an_unknown_command_is_named_with_a_list_of_those_there_are(cli: Cli, words: list[str]) -> None:
    outcome = cli.run(*words)

    assert (outcome.status, outcome.stdout) == (2, "")
    assert "'unknown'" in outcome.said["error"]
    assert f" {'add' if words[0] == 'cni' else 'cni'}, " in outcome.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("statsu", "status"),
        ("cni chekc", "check"),
        ("up --jsno", "--json"),
        ("cni add --ifnmae=eth1", "--ifname"),
        ("ls --stat-dir /x", "--state-dir"),
    ],
)
def test_what_is_misspelt_is_told_as_it_may_be_meant(cli: Cli, words: str, meant: str) -> None:
    outcome = cli.run(*words.split())

    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.said["next"].startswith(f"did you mean {meant}? ")


@pytest.mark.parametrize("words", ["top --once", "up --unlike", "ls --netns x", "frobnicate"])
def test_what_is_like_nothing_is_not_taken_for_something(cli: Cli, words: str) -> None:
    outcome = cli.run(*words.split())

    assert outcome.status == 2
    assert "did you mean" not in outcome.stderr


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("command", [*COMMANDS, *GROUPS, ""])
def test_help_is_as_wide_as_the_terminal_and_a_hundred_columns_at_most(
    cli: Cli, command: str, columns: int
) -> None:
    outcome = cli.on_a_terminal(*command.split(), "--help", columns=columns)

    # A command that somebody copies is left whole.
    lines = [it for it in outcome.stdout.splitlines() if not it.startswith(("  netloom ", "  CAP_ARGS="))]
    assert (outcome.status, outcome.stderr) == (0, "")
    assert max(map(len, lines)) <= min(columns, 100)


@pytest.mark.parametrize(
    "words",
    [
        "unknown",
        "cni --unknown",
        "cni unknown",
        "up --unknown",
        "cni add mynet",
        "up --mtu wide",
        "completion tcsh",
    ],
)
def test_every_wrong_call_is_told_like_any_other_error(cli: Cli, words: str) -> None:
    told, for_programs = cli.run(*words.split()), cli.run(*words.split(), "--json")

    assert (told.status, told.stdout) == (for_programs.status, for_programs.stdout) == (2, "")
    assert list(told.said) == ["error", "next", "more"]
    assert told.said["more"] == for_programs.error["see"] == "netloom explain usage"
    assert for_programs.error["code"] == "usage"
    assert for_programs.error["next"]


@pytest.mark.parametrize("words", ["cni --timeout 5 -h", "help cni add", "cni help add", "help cni", "help"])
def test_help_is_found_wherever_it_is_asked_for(cli: Cli, words: str) -> None:
    outcome = cli.run(*words.split())

    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(("usage: netloom cni add", "netloom"))


@pytest.mark.parametrize("words", ["cni --bogus", "cni -i", "cni --timeout", "cni --timeout 5"])
def test_options_without_a_command_are_an_error(cli: Cli, words: str) -> None:
    outcome = cli.run(*words.split())

    assert (outcome.status, outcome.stdout) == (2, "")
    assert "no command is given" in outcome.said["error"]


def test_arguments_that_are_missing_are_named_and_no_others(cli: Cli) -> None:
    outcome = cli.run("cni", "add", "mynet")

    assert outcome.status == 2
    assert outcome.said["error"].endswith("required: NETNS")


@pytest.mark.parametrize("seconds", ["0", "soon"])
def test_a_deadline_must_be_a_time(cli: Cli, seconds: str) -> None:
    outcome = cli.run("cni", "status", "mynet", f"--timeout={seconds}")

    assert outcome.status == 2
    assert "--timeout" in outcome.said["error"]


def test_help_of_down_names_the_places_that_a_purge_removes(cli: Cli) -> None:
    told = cli.run("down", "--help").stdout

    for place in (
        DEFAULT_STATE_DIR,
        os.path.dirname(DEFAULT_SOCKET),
        DEFAULT_CONF_DIR,
        DEFAULT_PLUGIN_DIR,
        LOCK_FILE,
    ):
        assert place in told


def test_an_attachment_to_keep_must_have_both_names(cli: Cli) -> None:
    outcome = cli.run("cni", "gc", cli.recorded_network(), "--valid", "web")

    assert outcome.status == 2
    assert cli.verbs == []


@pytest.fixture(scope="module")
def completion(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script that users of bash evaluate."""
    cli = Cli(tmp_path_factory.mktemp("completion"))
    return cli.run("completion", "bash").stdout


Complete = Callable[..., list[str]]


@pytest.fixture
def complete(cli: Cli, completion: str) -> Complete:
    """What a real bash offers for the last word."""

    def offered(*words: str) -> list[str]:
        outcome = cli.shell(f"""
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


def test_bash_completes_the_networks_that_are_there(cli: Cli, complete: Complete) -> None:
    cli.network("front", "any")
    cli.network("back", "any")
    (cli.networks / "broken.conflist").write_text("{")

    assert complete("cni", "add", "") == ["front", "back"]
    assert complete("cni", "-i", "eth1", "del", "--timeout", "5", "fr") == ["front"]


def test_bash_completes_options(complete: Complete) -> None:
    assert {"--ifname", "--cache-dir", "--timeout", "--cleanup", "--json", "--help"} <= set(
        complete("cni", "add", "mynet", "--")
    )
    assert complete("--v") == ["--version"]


def test_bash_completes_the_verb_after_options(complete: Complete) -> None:
    assert complete("cni", "-i", "eth1", "a") == ["add", "attachments"]


def test_bash_completes_plugins_and_versions(cli: Cli, complete: Complete) -> None:
    cli.recording_plugin("bridge")

    assert complete("cni", "version", "br") == ["bridge"]
    assert complete("cni", "convert", "--to", "1") == ["1.0.0", "1.1.0"]


def test_bash_offers_nothing_where_anything_may_stand(cli: Cli, complete: Complete) -> None:
    cli.network("front", "any")

    assert complete("cni", "add", "front", "--timeout", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(cli: Cli, shell: str) -> None:
    outcome = cli.run("completion", shell)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert " __complete " in outcome.stdout
    if installed := shutil.which(shell):
        subprocess.run([installed, "-n"], input=outcome.stdout.encode(), check=True)


def test_an_unknown_shell_is_refused_with_a_list(cli: Cli) -> None:
    outcome = cli.run("completion", "tcsh")

    assert outcome.status == 2
    assert all(shell in outcome.stderr for shell in ("bash", "zsh", "fish"))
