"""Print a completion script for a shell. It completes commands, options, networks, namespaces and plugins.

examples:
  bash   eval "$(netloom completion bash)"      in ~/.bashrc
  zsh    eval "$(netloom completion zsh)"       in ~/.zshrc, after compinit
  fish   netloom completion fish | source       in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib import import_module

from .output import say, write
from .tree import TREE, Group, resolve

_SCRIPTS = {
    "bash": """\
_netloom() {
    local IFS=$'\\n'
    COMPREPLY=($(netloom __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _netloom netloom
""",
    "zsh": """\
_netloom() {
    local -a candidates
    candidates=(${(f)"$(netloom __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    compadd -a candidates || _files
}
compdef _netloom netloom
""",
    "fish": """\
complete -c netloom -f -a '(netloom __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(_SCRIPTS), metavar="bash|zsh|fish")


def run(args: argparse.Namespace) -> int:
    write(_SCRIPTS[args.shell])
    return 0


def print_candidates(words: list[str]) -> int:
    """What may stand in the place of the last word, one a line; the scripts above ask for it."""
    *before, last = words or [""]
    fitting = [it for it in candidates(before) if it.startswith(last)]
    say(*(it for it in fitting if last.startswith("-") or not it.startswith("-")))
    return 0


def candidates(before: list[str]) -> list[str]:
    path, node, rest = resolve(before)
    if node is None:
        return [] if before else [*TREE, "--help", "--version"]
    if isinstance(node, Group):
        waiting_for_value = bool(before) and before[-1] in node.valued
        unknown = bool(rest) and not rest[0].startswith("-")
        return [] if unknown or waiting_for_value else [*node.commands, "--help"]
    from .arguments import parser_for

    return _for_command(parser_for(path, import_module(node.module)), rest)


def _for_command(parser: argparse.ArgumentParser, rest: list[str]) -> list[str]:
    options = {name: action for action in parser._actions for name in action.option_strings}
    if rest and rest[-1] in options and options[rest[-1]].nargs != 0:
        return _values(options[rest[-1]])
    positionals = [action for action in parser._actions if not action.option_strings]
    given = 0
    for previous, word in zip(["", *rest], rest, strict=False):
        takes_value = previous in options and options[previous].nargs != 0
        given += not word.startswith("-") and not takes_value
    values = _values(positionals[given]) if given < len(positionals) else []
    return [*values, *options]


def _values(action: argparse.Action) -> list[str]:
    if action.choices is not None:
        return list(action.choices)
    known = _KNOWN.get(action.dest)
    return known() if known else []


def _networks() -> list[str]:
    from ..cni import load_networks
    from .cni.target import config_dir

    return [loaded.network.name for loaded in load_networks(config_dir()).networks]


def _namespaces() -> list[str]:
    return [os.path.join("/run/netns", name) for name in _listed("/run/netns")]


def _plugins() -> list[str]:
    from .cni.target import plugin_dirs

    return [name for directory in plugin_dirs() for name in _listed(directory)]


def _containers() -> list[str]:
    from ..cni import Runtime

    return sorted({it.container_id for it in Runtime([]).attachments()})


def _attachments() -> list[str]:
    from ..cni import Runtime

    return [f"{it.container_id}:{it.ifname}" for it in Runtime([]).attachments()]


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


# By the name of the argument.
_KNOWN: dict[str, Callable[[], list[str]]] = {
    "network": _networks,
    "netns": _namespaces,
    "plugin": _plugins,
    "container": _containers,
    "valid": _attachments,
}
