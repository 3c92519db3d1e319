"""Which commands there are. Modules are named here and imported by `main` when they run.

A command's module has `arguments(parser)`, which declares what it takes, and `run(args)`, which
returns the exit status. Its docstring is its help: a first paragraph, then examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Command(NamedTuple):
    summary: str
    module: str


class Group(NamedTuple):
    """`valued` are the options that take a value and may stand before the group's command."""

    summary: str
    commands: Mapping[str, Command]
    valued: frozenset[str] = frozenset()


TREE: Mapping[str, Command | Group] = {
    "cni": Group(
        "attach namespaces to networks with CNI plugins, as cnitool does",
        {
            "add": Command("attach a namespace to a network", "netloom.cli.commands.cni.add"),
            "check": Command(
                "ask the plugins whether an attachment is sound", "netloom.cli.commands.cni.check"
            ),
            "del": Command("detach a namespace from a network", "netloom.cli.commands.cni.delete"),
            "gc": Command("remove what belongs to no valid attachment", "netloom.cli.commands.cni.gc"),
            "status": Command("ask the plugins whether they could attach", "netloom.cli.commands.cni.status"),
            "validate": Command(
                "check configurations and their plugins", "netloom.cli.commands.cni.validate"
            ),
            "version": Command("show the versions that a plugin speaks", "netloom.cli.commands.cni.version"),
            "attachments": Command(
                "list what the result cache knows", "netloom.cli.commands.cni.attachments"
            ),
            "convert": Command("write a result in another version", "netloom.cli.commands.cni.convert"),
        },
        valued=frozenset({"-i", "--ifname", "--container-id", "--cache-dir", "--timeout"}),
    ),
    "up": Command("make this machine a node", "netloom.cli.commands.up"),
    "down": Command("stop the agent, or remove all of netloom", "netloom.cli.commands.down"),
    "status": Command("show how the node is", "netloom.cli.commands.status"),
    "ls": Command("list attachments", "netloom.cli.commands.ls"),
    "ports": Command("list who holds which port of the host", "netloom.cli.commands.ports"),
    "pools": Command("show how full the pools are", "netloom.cli.commands.pools"),
    "events": Command("show what was asked and done, as it happens", "netloom.cli.commands.events"),
    "top": Command("watch the node live", "netloom.cli.commands.top"),
    "inspect": Command("show all that is known of an attachment", "netloom.cli.commands.inspect"),
    "check": Command("compare attachments with the kernel, and repair them", "netloom.cli.commands.check"),
    "gc": Command("remove what is left over of containers that are gone", "netloom.cli.commands.gc"),
    "explain": Command(
        "tell why something is as it is, and what an error means", "netloom.cli.commands.explain"
    ),
    "plan": Group(
        "kernel objects: what an ADD would make, or written down by hand",
        {
            "show": Command("show what an ADD would make", "netloom.cli.commands.plan.show"),
            "apply": Command("make the objects of a plan", "netloom.cli.commands.plan.apply"),
            "check": Command("compare a plan with the kernel", "netloom.cli.commands.plan.check"),
            "remove": Command("remove the objects of a plan", "netloom.cli.commands.plan.remove"),
        },
        valued=frozenset({"--netns", "--container-id", "-i", "--ifname", "--conf-dir", "--state-dir"}),
    ),
    "journal": Group(
        "what the node remembers: verify it, copy it, move it",
        {
            "verify": Command("look whether a journal is sound", "netloom.cli.commands.journal.verify"),
            "backup": Command(
                "copy the journal, beside a running agent", "netloom.cli.commands.journal.backup"
            ),
            "restore": Command("put such a copy back", "netloom.cli.commands.journal.restore"),
            "export": Command("write the journal as a JSON document", "netloom.cli.commands.journal.export"),
            "import": Command("make a journal of such a document", "netloom.cli.commands.journal.importing"),
        },
        valued=frozenset({"--state-dir"}),
    ),
    "agent": Command("run the node agent in the foreground", "netloom.cli.commands.agent"),
    "doctor": Command("look for everything that could be wrong, and mend it", "netloom.cli.commands.doctor"),
    "connectivity": Command("try what containers on a network need", "netloom.cli.commands.connectivity"),
    "bundle": Command("make an archive for a bug report", "netloom.cli.commands.bundle"),
    "completion": Command("print a completion script for a shell", "netloom.cli.commands.completion"),
}


def resolve(words: list[str]) -> tuple[list[str], Command | Group | None, list[str]]:
    """The words that name a command, the command, and what is left for it.

    Options may stand before a group's command, as cnitool allows: `cni -i eth1 add …`.
    """
    if not words or words[0] not in TREE:
        return [], None, words
    node, rest = TREE[words[0]], words[1:]
    if isinstance(node, Command):
        return words[:1], node, rest
    position = 0
    while position < len(rest) and rest[position].startswith("-"):
        position += 2 if rest[position] in node.valued else 1
    if position < len(rest):
        word, others = rest[position], rest[:position] + rest[position + 1 :]
        if word in node.commands:
            return [words[0], word], node.commands[word], others
        return words[:1], node, [word, *others]
    return words[:1], node, ["--help"] if {"-h", "--help"} & set(rest) else rest
