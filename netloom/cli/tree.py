"""The tree of commands. It names their modules; `main` imports a module when its command runs.

A command's module has `arguments(parser)`, which declares its options, and `run(args)`, which
returns the exit status. Its docstring is its help: a first paragraph, then details and examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Command(NamedTuple):
    summary: str
    module: str


class Group(NamedTuple):
    """`valued` are options with a value that are accepted before the group's command."""

    summary: str
    commands: Mapping[str, Command]
    valued: frozenset[str] = frozenset()


TREE: Mapping[str, Command | Group] = {
    "cni": Group(
        "attach namespaces to networks with CNI plugins, as cnitool does",
        {
            "add": Command("attach a namespace to a network", "netloom.cli.commands.cni.add"),
            "check": Command("check an attachment with its plugins", "netloom.cli.commands.cni.check"),
            "del": Command("detach a namespace from a network", "netloom.cli.commands.cni.delete"),
            "gc": Command("delete attachments that are no longer valid", "netloom.cli.commands.cni.gc"),
            "status": Command("ask the plugins whether they are ready", "netloom.cli.commands.cni.status"),
            "validate": Command(
                "check configurations and their plugins", "netloom.cli.commands.cni.validate"
            ),
            "version": Command(
                "show the CNI versions that a plugin supports", "netloom.cli.commands.cni.version"
            ),
            "attachments": Command(
                "list the attachments in the result cache", "netloom.cli.commands.cni.attachments"
            ),
            "convert": Command("convert a result to another CNI version", "netloom.cli.commands.cni.convert"),
        },
        valued=frozenset({"-i", "--ifname", "--container-id", "--cache-dir", "--timeout"}),
    ),
    "up": Command("set up this node: plugin, agent, network configuration", "netloom.cli.commands.up"),
    "down": Command("stop the agent, or uninstall netloom", "netloom.cli.commands.down"),
    "status": Command(
        "show whether the node works: agent, attachments, pools", "netloom.cli.commands.status"
    ),
    "ls": Command("list attachments", "netloom.cli.commands.ls"),
    "ports": Command("list host ports and the containers that hold them", "netloom.cli.commands.ports"),
    "pools": Command("show the address pools and their usage", "netloom.cli.commands.pools"),
    "events": Command("show or follow the log of operations", "netloom.cli.commands.events"),
    "top": Command("show live rates, latencies, pools and events", "netloom.cli.commands.top"),
    "inspect": Command("show an attachment in detail", "netloom.cli.commands.inspect"),
    "check": Command("compare attachments with the kernel, and repair them", "netloom.cli.commands.check"),
    "gc": Command("delete leaked attachments of removed containers", "netloom.cli.commands.gc"),
    "explain": Command(
        "explain an error code, or what happened to a container, pod or address",
        "netloom.cli.commands.explain",
    ),
    "plan": Group(
        "show, apply, check or remove a plan of kernel objects",
        {
            "show": Command("show the plan of the next ADD", "netloom.cli.commands.plan.show"),
            "apply": Command("create the objects of a plan", "netloom.cli.commands.plan.apply"),
            "check": Command("compare a plan with the kernel", "netloom.cli.commands.plan.check"),
            "remove": Command("remove the objects of a plan", "netloom.cli.commands.plan.remove"),
        },
        valued=frozenset({"--netns", "--container-id", "-i", "--ifname", "--conf-dir", "--state-dir"}),
    ),
    "journal": Group(
        "verify, back up, restore, export or import the journal",
        {
            "verify": Command(
                "verify the journal's file, tables and rows", "netloom.cli.commands.journal.verify"
            ),
            "backup": Command("copy the journal to a file", "netloom.cli.commands.journal.backup"),
            "restore": Command("restore the journal from a backup", "netloom.cli.commands.journal.restore"),
            "export": Command("write the journal as a JSON document", "netloom.cli.commands.journal.export"),
            "import": Command(
                "create the journal from an exported document", "netloom.cli.commands.journal.importing"
            ),
        },
        valued=frozenset({"--state-dir"}),
    ),
    "agent": Command("run the node agent in the foreground", "netloom.cli.commands.agent"),
    "doctor": Command("check the node for problems, and fix them", "netloom.cli.commands.doctor"),
    "connectivity": Command(
        "test a network with two temporary containers", "netloom.cli.commands.connectivity"
    ),
    "bundle": Command("make an archive for a bug report", "netloom.cli.commands.bundle"),
    "completion": Command("print a completion script for a shell", "netloom.cli.commands.completion"),
}


def resolve(words: list[str]) -> tuple[list[str], Command | Group | None, list[str]]:
    """Returns the words that name a command, the command, and its remaining words.

    Options are accepted before a group's command, as in cnitool: `cni -i eth1 add …`.
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
