"""Parsers for commands, made from their modules: options that many commands share, and the layout of help."""

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

# Lines that are longer than this are hard to read, however wide the terminal is.
_WIDEST = 100
_PARAGRAPHS = re.compile(r"\n{2,}")
# A line of an example or a list: what it is about, and beside it what there is to say.
_BESIDE = re.compile(r"( +\S.*?\S {2,})(\S.*)")


def help_width() -> int:
    """Also where it goes to a pager, which is told how wide it is by COLUMNS."""
    import shutil  # which only help needs

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
        help=f"where the agent listens (default {DEFAULT_SOCKET}, or $NETLOOM_SOCKET)",
    )


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        type=absolute,
        default=default_state_dir(),
        help=f"where the journal is (default {DEFAULT_STATE_DIR}, or $NETLOOM_STATE_DIR)",
    )


def add_conf_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf-dir",
        metavar="DIR",
        type=absolute,
        default=default_conf_dir(),
        help=f"where networks are configured (default {DEFAULT_CONF_DIR}, or $NETCONFPATH)",
    )


def absolute(text: str) -> str:
    """An agent that was started from here must find it from anywhere."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    try:
        return os.path.abspath(text)
    except OSError as cause:
        raise argparse.ArgumentTypeError(f"is relative, and there is no current directory: {cause}") from None


def nameable(text: str) -> str:
    """A directory whose path can be written down: receipts are JSON, which is text."""
    path = absolute(text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("its path is not UTF-8, and cannot be written down") from None
    return path


def _socket_path(text: str) -> str:
    path = absolute(text)
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise argparse.ArgumentTypeError(f"a socket's path may have {_SOCKET_PATH_MAX} bytes: {path}")
    return path


def place_of(args: argparse.Namespace) -> Place:
    """Where the node is that a command is about. What it has no option for is where it usually is."""
    return Place(
        args.state_dir,
        getattr(args, "socket", default_socket()),
        getattr(args, "conf_dir", default_conf_dir()),
        getattr(args, "plugin_dir", None),
    )


# Seconds. poll(2) counts milliseconds in an int, which ends at 24 days.
_LONGEST = 1_000_000
_TIMES = "write 02:13, 2026-11-16 02:13, 2026-11-16T02:13:00Z, 10m ago, or @ and seconds since 1970"


class Parser(argparse.ArgumentParser):
    """Says what is wrong as commands do: with a code, and what to do next."""

    words: Sequence[str] = ()

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises `UsageError`. Whoever reports that needs no more than is there by then."""
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


def _as_wide_as_any(prog: str) -> argparse.HelpFormatter:
    """For options that are declared, each of which argparse tries to format.

    To ask the terminal how wide it is takes a module, and some milliseconds; only help needs to know.
    """
    return argparse.RawDescriptionHelpFormatter(prog, width=80)


def parser_for(path: Sequence[str], module: ModuleType) -> Parser:
    """A command's parser. Its help is the module's docstring: the first paragraph, then examples."""
    about, _, examples = dedent(module.__doc__ or "").strip().partition("\n\n")
    parser = Parser(
        prog=" ".join(["netloom", *path]),
        description=about,
        epilog=examples,
        formatter_class=_as_wide_as_any,
        allow_abbrev=False,
    )
    module.arguments(parser)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs; errors too")


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of seconds, such as 30 or 0.5")
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, and is {text[:20]}")
    if value > _LONGEST:
        raise argparse.ArgumentTypeError(
            f"must be at most {_LONGEST}, which is eleven days, and is {text[:20]}"
        )
    return value


def point_in_time(text: str) -> float:
    """Seconds since 1970, from a time as people write it."""
    from ..api.times import time_at

    found = time_at(text, time.time())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no time: {_TIMES}")
    return found


def time_or_duration(text: str) -> float:
    """The same; a duration alone ends now."""
    from ..api.times import duration_of

    duration = duration_of(text)
    return point_in_time(text) if duration is None else time.time() - duration
