"""Parsers of commands, built from their modules; options that many commands share; the layout of help."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Sequence
from textwrap import dedent, fill
from types import ModuleType
from typing import NoReturn

from ..api.paths import (
    DEFAULT_CONF_DIR,
    DEFAULT_SOCKET,
    DEFAULT_STATE_DIR,
    Place,
    default_conf_dir,
    default_socket,
    default_state_dir,
)
from .terminal.output import write

# Longer lines are hard to read, however wide the terminal is.
_WIDEST = 100
_PARAGRAPHS = re.compile(r"\n{2,}")
# A line of an example or a list: the term, and its description beside it.
_BESIDE = re.compile(r"( +\S.*?\S {2,})(\S.*)")


def help_width() -> int:
    """Returns the width of help. For a pager, the variable COLUMNS sets it."""
    import shutil  # slow to import, and only help needs it

    return min(shutil.get_terminal_size().columns, _WIDEST)


class Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=help_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_set(it, width, indent) for it in _PARAGRAPHS.split(text))


def _set(paragraph: str, width: int, indent: str) -> str:
    if "\n " in paragraph:
        return "\n".join(_line(it, width) for it in paragraph.split("\n"))
    return _filled(paragraph, width, indent, indent)


def _line(text: str, width: int) -> str:
    parts = _BESIDE.fullmatch(text)
    if parts is None or len(text) <= width:
        return text
    beginning, said = parts.groups()
    return _filled(said, width, beginning, " " * len(beginning))


def _filled(text: str, width: int, first: str, others: str) -> str:
    return fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


# sockaddr_un has room for 108, the last of which is zero.
_SOCKET_PATH_MAX = 107


def add_place(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)
    parser.add_argument(
        "--socket",
        metavar="PATH",
        type=_socket_path,
        default=default_socket(),
        help=f"path of the agent's socket (default: $NETLOOM_SOCKET or {DEFAULT_SOCKET})",
    )


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        type=absolute,
        default=default_state_dir(),
        help=f"state directory, which holds the journal (default: $NETLOOM_STATE_DIR or {DEFAULT_STATE_DIR})",
    )


def add_conf_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf-dir",
        metavar="DIR",
        type=absolute,
        default=default_conf_dir(),
        help=f"directory of network configurations (default: $NETCONFPATH or {DEFAULT_CONF_DIR})",
    )


def absolute(text: str) -> str:
    """Makes a path absolute, since an agent that the command starts has another working directory."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    try:
        return os.path.abspath(text)
    except OSError as cause:
        raise argparse.ArgumentTypeError(
            f"is relative, and the current directory does not exist: {cause}"
        ) from None


def nameable(text: str) -> str:
    """Accepts only a path that is UTF-8, since the receipt, which lists it, is JSON."""
    path = absolute(text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("its path is not UTF-8, which netloom needs to record it") from None
    return path


def _socket_path(text: str) -> str:
    path = absolute(text)
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise argparse.ArgumentTypeError(f"a socket's path may have at most {_SOCKET_PATH_MAX} bytes: {path}")
    return path


def place_of(args: argparse.Namespace) -> Place:
    """Returns the places of the node's files: from the command's options, else the defaults."""
    return Place(
        args.state_dir,
        getattr(args, "socket", default_socket()),
        getattr(args, "conf_dir", default_conf_dir()),
        getattr(args, "plugin_dir", None),
    )


# Seconds. poll(2) counts milliseconds in an int, which ends at 24 days.
_LONGEST = 1_000_000
_TIMES = "use 02:13, 2026-11-16 02:13, 2026-11-16T02:13:00Z, 10m ago, or @ with seconds since 1970"


class Parser(argparse.ArgumentParser):
    """Raises usage errors in the form of all commands: with a code and a next step."""

    words: Sequence[str] = ()

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises `UsageError`."""
        self.words = words
        return self.parse_args(words)

    def format_help(self) -> str:
        self.formatter_class = Help
        return super().format_help()

    def print_help(self, file: object = None) -> None:
        del file
        write(self.format_help())

    def error(self, message: str) -> NoReturn:
        from ..ops.errors import UsageError
        from .completion import meant

        known = self._option_string_actions
        given = [word.partition("=")[0] for word in self.words if word.startswith("--")]
        raise UsageError(message, meant([word for word in given if word not in known], known, self.prog))


def _fixed_width(prog: str) -> argparse.HelpFormatter:
    """The formatter while options are declared, since argparse formats each of them once.

    Asking for the terminal's width imports a module and takes some milliseconds; only help needs it.
    """
    return argparse.RawDescriptionHelpFormatter(prog, width=80)


def parser_for(path: Sequence[str], module: ModuleType) -> Parser:
    """Returns a command's parser. Its help is the module's docstring."""
    about, _, examples = dedent(module.__doc__ or "").strip().partition("\n\n")
    parser = Parser(
        prog=" ".join(["netloom", *path]),
        description=about,
        epilog=examples,
        formatter_class=_fixed_width,
        allow_abbrev=False,
    )
    module.arguments(parser)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, errors included")


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of seconds, such as 30 or 0.5")
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text[:20]}")
    if value > _LONGEST:
        raise argparse.ArgumentTypeError(f"must be at most {_LONGEST} (eleven days), not {text[:20]}")
    return value


def point_in_time(text: str) -> float:
    """Returns seconds since 1970, from a time in any of the accepted forms."""
    from ..api.times import time_at

    found = time_at(text, time.time())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a time: {_TIMES}")
    return found


def time_or_duration(text: str) -> float:
    """Also accepts a duration, such as 10m: the time that long ago."""
    from ..api.times import duration_of

    duration = duration_of(text)
    return point_in_time(text) if duration is None else time.time() - duration
