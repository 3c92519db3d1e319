"""Errors with numbers: those of the CNI specification, and those of netloom's own plugin from 100 on."""

from __future__ import annotations

from .entry import Entry


def _entry(code: int, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(str(code), "cni", title, meaning, remedy)


ENTRIES = (
    _entry(
        0,
        "a plugin failed without saying why",
        "A plugin ended with a failure and printed no error of CNI's form. It may have been killed, or have "
        "crashed; what it left on its standard error is shown beside it.",
        "Read what the plugin said, and run it by hand with the same configuration. A plugin that was killed "
        "by the kernel for want of memory is named in `dmesg`.",
    ),
    _entry(
        1,
        "a version of CNI that somebody does not speak",
        "The configuration's `cniVersion`, a result, or a verb is of a version that the plugin does not "
        "know. CHECK needs 0.4.0, GC and STATUS need 1.1.0.",
        "`netloom cni version PLUGIN` shows what a plugin speaks; set the network's `cniVersion` to one that "
        "all of its plugins and the runtime know. podman 4 and containerd 1.6 read up to 1.0.0.",
    ),
    _entry(
        2,
        "a key or value that the plugin does not take",
        "The network's configuration, or an argument of the runtime's, has a key or a value that the plugin "
        "does not support. Nothing was changed.",
        "Take out or mend what the message names; `netloom cni validate` judges a file as an ADD would.",
    ),
    _entry(
        3,
        "the container is not known",
        "The request names no container, or one that is not attached. After this answer a runtime need not "
        "send DEL.",
        "`netloom ls --wide` lists what is attached; attach it first.",
    ),
    _entry(
        4,
        "a bad container ID, interface name or argument",
        "One of the CNI_* variables is missing or has a value that cannot be: a container ID with a slash, "
        "an interface name of more than 15 bytes, `CNI_ARGS` that are no KEY=VALUE pairs.",
        "Mend the value that the message names.",
    ),
    _entry(
        5,
        "the disk, or a file",
        "A file could not be read or written: the journal, the cache of results, a plugin that cannot be "
        "started. If it is the journal, nothing of the request has happened.",
        "Look at the path that the message names: its permissions, its mount (read-only?), and the space on "
        "its disk. `netloom status` says whether the journal takes changes again.",
    ),
    _entry(
        6,
        "something that is not the JSON it should be",
        "A configuration on standard input, or what a plugin printed, cannot be read.",
        "Run the plugin by hand and look at what it prints; look at the file with `netloom cni validate`.",
    ),
    _entry(
        7,
        "a configuration that cannot work",
        "The network's file has a value that makes no sense, names a plugin that is in none of the plugin "
        "directories, or there is no network of that name.",
        "`netloom cni validate` lists the networks that are there, and what is wrong with each. Plugins are "
        "looked for in `CNI_PATH`.",
    ),
    _entry(
        8,
        "a namespace that is none, or the host's own",
        "`CNI_NETNS` leads to no network namespace, or to the one that the plugin itself runs in, which is "
        "never attached to. Nothing was changed.",
        "Give the path of the container's namespace, such as /run/netns/NAME.",
    ),
    _entry(
        11,
        "try again later",
        "The request could not be served now: no agent answers, the node is busy, the agent is stopping, no "
        "address is left, or another user could answer at the agent's socket. Nothing is half done, and "
        "runtimes try again by themselves.",
        "`netloom status` says which of these it is; `netloom up` starts an agent.",
    ),
    _entry(
        50,
        "nothing can be attached now",
        "STATUS: an ADD to this network would fail, and the message says why. What is attached works on.",
        "`netloom status` and `netloom doctor` name the cause and what to do.",
    ),
    _entry(
        51,
        "nothing can be attached, and what is attached may be cut off",
        "STATUS: an ADD would fail, and containers that are attached may not reach each other.",
        "`netloom status` and `netloom doctor` name the cause and what to do.",
    ),
    _entry(
        100,
        "the kernel refused",
        "The kernel did not make a part of the attachment, and everything was taken back; or it is known to "
        "refuse, and nothing was begun: IPv6 is switched off, or the uplink's MTU is below 1280, and the "
        "network has an IPv6 pool. The message ends with the kernel's own words.",
        "`netloom doctor` lists what this kernel can do, and which settings are in the way.",
    ),
    _entry(
        101,
        "a requested address is another's",
        "The address that was asked for by name is held by another attachment, which the message names, by "
        "the host itself, or by a link of a journal that was lost.",
        "Ask for another address, or detach who holds it; `netloom explain ADDRESS` tells since when. Of a "
        "link, the message has the command that removes it.",
    ),
    _entry(
        102,
        "something that is not netloom's is in the way",
        "Where the attachment would be there is an interface, a route or a table that somebody else made. It "
        "was left alone, and nothing was changed.",
        "Remove what the message names if nobody needs it, or choose another interface name or address.",
    ),
    _entry(
        103,
        "not as ADD left it",
        "CHECK compared the attachment with the kernel, and they differ; the details name every difference.",
        "A running agent puts back what is missing within a minute. What somebody changed it leaves alone: "
        "`netloom check --repair` makes it so again.",
    ),
    _entry(
        104,
        "attached already, elsewhere or otherwise",
        "The container's interface is attached to this network already, in another namespace or with another "
        "configuration, as after a change of the network's file.",
        "Detach it first; `netloom ls --wide` shows where it is attached.",
    ),
    _entry(
        105,
        "a host port is another's",
        "The port of the host that was asked for leads to another container already.",
        "Take another port, or detach who holds it; `netloom ports` lists them.",
    ),
    _entry(
        999,
        "a defect",
        "Something happened that netloom did not expect. The agent's log has where.",
        "Please report it, with the archive that `netloom bundle` makes.",
    ),
)
