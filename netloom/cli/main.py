"""Finds the command, runs it, and turns its exceptions into messages and an exit status."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..api.text import printable
from .exit_status import FAILED, SIGNALLED
from .terminal.output import OutputFailed, ReaderGone, complain, say
from .tree import TREE, Command, Group, resolve


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as error:
        _print_notes(error)
        return SIGNALLED + signal.SIGINT
    except SystemExit as error:
        _print_notes(error)
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
        from .completion import print_candidates

        return print_candidates(words[1:])
    if "help" in words[:2]:  # `netloom help cni add`, `netloom cni help add`
        words.remove("help")
        words = [*words, "--help"]
    path, node, rest = resolve(words)
    if isinstance(node, Command):
        return _run(path, node, rest)
    if rest and rest[0] not in ("-h", "--help"):
        return _no_command(path, node, rest)
    say(*_help(path, node))
    return 0


def _run(path: list[str], command: Command, words: list[str]) -> int:
    from importlib import import_module

    from .arguments import parser_for

    # Objects that an import creates stay alive: collecting garbage among them would cost time in vain.
    gc.disable()
    module = import_module(command.module)
    gc.freeze()
    gc.enable()
    parser = parser_for(path, module)
    try:
        args = parser.parsed(words)
    except (OutputFailed, ReaderGone):
        raise
    except Exception as error:
        return _report(error, parser.prog, words)
    args.command = parser.prog
    args.called = words
    # A command that is terminated must also end the plugin that it waits for.
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)
    # The parent process may have set it to be ignored, but waiting for plugins needs the default.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        status: int = module.run(args)
        # With --json, an error would have carried them.
        complain(*(f"warning: {printable(it)}" for it in getattr(args, "warnings", ())))
        return status
    except ReaderGone:
        raise
    except OutputFailed as error:
        from ..ops.errors import OperationFailed
        from .failure import report

        advice = "free space where the output is written, or redirect it to another place"
        return report(OperationFailed(str(error), advice, code="output-unwritable"), args)
    except Exception as error:
        from .failure import report

        return report(error, args)


def _no_command(path: list[str], node: Group | None, words: list[str]) -> int:
    from ..ops.errors import UsageError
    from .completion import meant

    name = " ".join(["netloom", *path])
    known = list(TREE if node is None else node.commands)
    if words[0].startswith("-"):
        text, advice = "no command is given", ""
    else:
        text, advice = f"there is no command {words[0]!r}", meant(words[:1], known, name)
    advice = advice or f"`{name} --help` describes the commands: {', '.join(known)}"
    return _report(UsageError(f"{name}: {text}", advice), name, words)


def _report(error: Exception, command: str, words: list[str]) -> int:
    """Reports an error that is raised before the arguments are parsed."""
    from argparse import Namespace

    from .failure import report

    return report(error, Namespace(command=command, json="--json" in words))


def _print_notes(error: BaseException) -> None:
    """Prints what the library notes about an interruption, such as an attachment that may be incomplete."""
    complain(*(f"also:  {note}" for note in getattr(error, "__notes__", ())))


def _terminate(number: int, _frame: object) -> NoReturn:
    sys.exit(SIGNALLED + number)


def _help(path: list[str], node: Group | None) -> list[str]:
    from .arguments import help_width
    from .terminal.tables import laid_out

    commands = TREE if node is None else node.commands
    name = " ".join(["netloom", *path])
    about = node.summary if node else "networks for containers and virtual machines"
    lines = [f"{name}: {about}", "", f"usage: {name} COMMAND [options]", ""]
    rows = [[word, entry.summary] for word, entry in commands.items()]
    lines += [f"  {line}" for line in laid_out(rows, help_width() - 2)]
    lines += ["", f"`{name} COMMAND --help` describes a command, with examples."]
    if node is None:
        lines.append("`netloom --version` prints the version.")
    return lines


if __name__ == "__main__":
    sys.exit(main())
