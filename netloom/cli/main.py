"""Finds the command that is meant, runs it, and turns what it raises into words and an exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from .output import OutputFailed, ReaderGone, complain, say
from .status import FAILED, SIGNALLED, USAGE
from .tree import TREE, Command, Group, resolve


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as error:
        _tell_notes(error)
        return SIGNALLED + signal.SIGINT
    except SystemExit as error:
        _tell_notes(error)
        raise
    except ReaderGone:
        return 0
    except OutputFailed as error:
        complain(f"error: {error}")
        return FAILED


def _dispatch(words: list[str]) -> int:
    if words[:1] in (["--version"], ["-V"], ["version"]):
        say(f"netloom {__version__}")
        return 0
    if words[:1] == ["__complete"]:
        from .candidates import print_candidates

        return print_candidates(words[1:])
    if "help" in words[:2]:  # `netloom help cni add`, `netloom cni help add`
        words.remove("help")
        words = [*words, "--help"]
    path, node, rest = resolve(words)
    if isinstance(node, Command):
        return _run(path, node, rest)
    if rest and rest[0] not in ("-h", "--help"):
        problem = "no command is given" if rest[0].startswith("-") else f"there is no command {rest[0]!r}"
        complain(f"{' '.join(['netloom', *path])}: {problem}", "", *_help(path, node))
        return USAGE
    say(*_help(path, node))
    return 0


def _run(path: list[str], command: Command, words: list[str]) -> int:
    from importlib import import_module

    from .arguments import parser_for

    module = import_module(command.module)
    parser = parser_for(path, module)
    args = parser.parse_args(words)
    args.command = parser.prog
    # A command that is told to stop takes the plugin that it waits for along.
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)
    # Whoever started us may ignore it; we wait for plugins.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        status: int = module.run(args)
        return status
    except (OutputFailed, ReaderGone):
        raise
    except Exception as error:
        from .failure import report

        return report(error, args)


def _tell_notes(error: BaseException) -> None:
    """What the library has to say about an interruption: an attachment that may be left half made."""
    complain(*(f"also:  {note}" for note in getattr(error, "__notes__", ())))


def _terminate(number: int, _frame: object) -> NoReturn:
    sys.exit(SIGNALLED + number)


def _help(path: list[str], node: Group | None) -> list[str]:
    commands = TREE if node is None else node.commands
    name = " ".join(["netloom", *path])
    about = node.summary if node else "networks for containers and virtual machines"
    width = max(map(len, commands)) + 2
    lines = [f"{name}: {about}", "", f"usage: {name} COMMAND [options]", ""]
    lines += [f"  {word:{width}}{entry.summary}" for word, entry in commands.items()]
    lines += ["", f"`{name} COMMAND --help` tells more of each, with examples."]
    if node is None:
        lines.append("`netloom --version` prints the version.")
    return lines


if __name__ == "__main__":
    sys.exit(main())
