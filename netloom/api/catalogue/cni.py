"""Errors with numbers: those of the CNI specification, and those of netloom's own plugin from 100 on."""

from __future__ import annotations

from .entry import Entry


def _entry(code: int, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(str(code), "cni", title, meaning, remedy)


ENTRIES = (
    _entry(
        0,
        "a plugin failed without saying why",
        "A plugin ended with a failure and printed no CNI error. It may have crashed or been killed; what "
        "it wrote to standard error is shown beside it.",
        "Read what the plugin wrote, and run it by hand with the same configuration. `dmesg` names a plugin"
        " that the kernel killed for lack of memory.",
    ),
    _entry(
        1,
        "a version of CNI that is not supported",
        "The configuration's `cniVersion`, a result, or a verb has a version that the plugin does not know."
        " CHECK needs 0.4.0, GC and STATUS need 1.1.0.",
        "`netloom cni version PLUGIN` shows which versions a plugin supports; set the network's "
        "`cniVersion` to one that all of its plugins and the runtime know. podman 4 and containerd 1.6 read"
        " up to 1.0.0.",
    ),
    _entry(
        2,
        "a key or value that the plugin does not support",
        "The network's configuration, or an argument of the runtime, has a key or a value that the plugin "
        "does not support. Nothing was changed.",
        "Remove or correct what the message names; `netloom cni validate` judges a file as an ADD would.",
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
        "One of the CNI_* variables is missing or invalid: a container ID with a slash, an interface name "
        "of more than 15 bytes, `CNI_ARGS` that are not KEY=VALUE pairs.",
        "Correct the value that the message names.",
    ),
    _entry(
        5,
        "a file or the disk failed",
        "A file could not be read or written: the journal, the cache of results, or a plugin that cannot be"
        " started. If it is the journal, nothing of the request has happened.",
        "Check the path that the message names: its permissions, its mount (read-only?), and the space on "
        "its disk. `netloom status` says whether the journal takes changes again.",
    ),
    _entry(
        6,
        "invalid JSON",
        "The configuration on standard input, or the output of a plugin, cannot be decoded.",
        "Run the plugin by hand and read its output; check the file with `netloom cni validate`.",
    ),
    _entry(
        7,
        "a configuration that cannot work",
        "The network's file has an invalid value, names a plugin that is in none of the plugin directories,"
        " or there is no network of that name.",
        "`netloom cni validate` lists the networks, and what is wrong with each. Plugins are searched in "
        "`CNI_PATH`.",
    ),
    _entry(
        8,
        "an invalid namespace, or the host's own",
        "`CNI_NETNS` is not a network namespace, or it is the one that the plugin itself runs in, to which "
        "nothing is ever attached. Nothing was changed.",
        "Give the path of the container's namespace, such as /run/netns/NAME.",
    ),
    _entry(
        11,
        "try again later",
        "The request could not be served now: no agent answers, the node is busy, the agent is stopping, no"
        " address is left, or another user could answer at the agent's socket. Nothing is half done, and "
        "runtimes try again by themselves.",
        "`netloom status` says which of these it is; `netloom up` starts an agent.",
    ),
    _entry(
        50,
        "nothing can be attached now",
        "STATUS: an ADD to this network would fail, and the message says why. Attached containers keep "
        "working.",
        "`netloom status` and `netloom doctor` name the cause and what to do.",
    ),
    _entry(
        51,
        "nothing can be attached, and attached containers may be cut off",
        "STATUS: an ADD would fail, and attached containers may not reach each other.",
        "`netloom status` and `netloom doctor` name the cause and what to do.",
    ),
    _entry(
        100,
        "the kernel refused",
        "The kernel did not create a part of the attachment, and everything was rolled back; or it is known"
        " to refuse, and nothing was begun: IPv6 is switched off, or the uplink's MTU is below 1280, and "
        "the network has an IPv6 pool. The message ends with the kernel's own words.",
        "`netloom doctor` lists what this kernel can do, and which settings prevent it.",
    ),
    _entry(
        101,
        "a requested address is in use",
        "The requested address is held by another attachment, which the message names, by the host itself, "
        "or by a link of a journal that was lost.",
        "Request another address, or detach the container that holds it; `netloom explain ADDRESS` tells "
        "since when. For a link, the message has the command that removes it.",
    ),
    _entry(
        102,
        "an object of another program is in the way",
        "Where the attachment would be there is an interface, a route or a table that another program made."
        " It was left alone, and nothing was changed.",
        "Remove what the message names if it is not needed, or choose another interface name or address.",
    ),
    _entry(
        103,
        "not as ADD left it",
        "CHECK compared the attachment with the kernel, and they differ; the details name every difference.",
        "A running agent restores what is missing within a minute. It leaves changed objects alone: "
        "`netloom check --repair` restores those.",
    ),
    _entry(
        104,
        "already attached, elsewhere or with another configuration",
        "The container's interface is attached to this network already, in another namespace or with another "
        "configuration, as after a change of the network's file.",
        "Detach it first; `netloom ls --wide` shows where it is attached.",
    ),
    _entry(
        105,
        "a host port is in use",
        "The requested port of the host leads to another container already.",
        "Use another port, or detach the container that holds it; `netloom ports` lists them.",
    ),
    _entry(
        999,
        "a defect of netloom",
        "Something happened that netloom did not expect. The agent's log says where.",
        "Please report it, with the archive that `netloom bundle` makes.",
    ),
)
