"""Errors with numbers: those of the CNI specification, and from 100 on those of netloom's plugin."""

from __future__ import annotations

from .entry import Entry


def _entry(code: int, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(str(code), "cni", title, meaning, remedy)


ENTRIES = (
    _entry(
        0,
        "a plugin failed without a CNI error",
        "A plugin exited with a failure and printed no CNI error. It may have crashed or been killed. Its "
        "standard error output is shown with this error.",
        "Read the plugin's output, and run the plugin by hand with the same configuration. `dmesg` names a "
        "plugin that the kernel killed for lack of memory.",
    ),
    _entry(
        1,
        "an unsupported CNI version",
        "The configuration's `cniVersion`, a result or a verb has a version that the plugin does not "
        "support. CHECK needs 0.4.0; GC and STATUS need 1.1.0.",
        "`netloom cni version PLUGIN` shows which versions a plugin supports. Set the network's "
        "`cniVersion` to a version that all of its plugins and the runtime support. podman 4 and containerd "
        "1.6 support versions up to 1.0.0.",
    ),
    _entry(
        2,
        "a key or value that the plugin does not support",
        "The network's configuration or an argument of the runtime has a key or a value that the plugin "
        "does not support. Nothing was changed.",
        "Remove or correct what the message names. `netloom cni validate` checks a file by the same rules "
        "as an ADD.",
    ),
    _entry(
        3,
        "an unknown container",
        "The request names no container, or a container that is not attached. After this error a runtime "
        "need not send DEL.",
        "Attach the container first. `netloom ls --wide` lists what is attached.",
    ),
    _entry(
        4,
        "an invalid container ID, interface name or argument",
        "A CNI_* variable is missing or invalid, for example a container ID with a slash, an interface name "
        "longer than 15 bytes, or `CNI_ARGS` that are not KEY=VALUE pairs.",
        "Correct the value that the message names.",
    ),
    _entry(
        5,
        "a file or disk error",
        "netloom could not read or write a file, such as the journal or the cache of results, or could not "
        "start a plugin. If the journal failed, nothing of the request was done.",
        "Check the path in the message: its permissions, its mount (read-only?), and the free space on its "
        "disk. `netloom status` shows whether the journal can be written again.",
    ),
    _entry(
        6,
        "invalid JSON",
        "netloom cannot decode the configuration on standard input or the output of a plugin.",
        "Check the file with `netloom cni validate`, or run the plugin by hand and read its output.",
    ),
    _entry(
        7,
        "an invalid network configuration",
        "The network's file has an invalid value or names a plugin that is in none of the plugin "
        "directories, or no network has the given name.",
        "`netloom cni validate` lists the networks and the errors in each. Plugins are searched for in "
        "`CNI_PATH`.",
    ),
    _entry(
        8,
        "an invalid network namespace, or the host's own",
        "`CNI_NETNS` is not a network namespace, or it is the one in which the plugin itself runs. Nothing "
        "is ever attached to that one. Nothing was changed.",
        "Give the path of the container's namespace, such as /run/netns/NAME.",
    ),
    _entry(
        11,
        "try again later",
        "netloom could not serve the request now: no agent answers, the node is busy, the agent is "
        "stopping, no address is left, or another user could answer at the agent's socket. No partial "
        "change remains, and runtimes try again by themselves.",
        "`netloom status` shows the cause. `netloom up` starts an agent.",
    ),
    _entry(
        50,
        "nothing can be attached now",
        "STATUS reports that an ADD to this network would fail. The message has the reason. Attached "
        "containers keep working.",
        "`netloom status` and `netloom doctor` show the cause and what to do.",
    ),
    _entry(
        51,
        "nothing can be attached, and attached containers may be cut off",
        "STATUS reports that an ADD would fail, and that attached containers may not reach each other.",
        "`netloom status` and `netloom doctor` show the cause and what to do.",
    ),
    _entry(
        100,
        "the kernel refused",
        "The kernel refused to create a part of the attachment, and netloom rolled everything back. Or "
        "netloom did not begin, because the kernel would refuse: the network has an IPv6 pool, and IPv6 is "
        "switched off or the uplink's MTU is below 1280. The message ends with the kernel's error.",
        "`netloom doctor` lists what this kernel supports, and which settings prevent the operation.",
    ),
    _entry(
        101,
        "a requested address is in use",
        "The requested address is held by another attachment, which the message names, by the host itself, "
        "or by a link that was in a lost journal.",
        "Request another address, or detach the container that holds it. `netloom explain ADDRESS` shows "
        "since when it is held. If a link holds it, the message has the command that removes the link.",
    ),
    _entry(
        102,
        "an object of another program is in the way",
        "An interface, a route or a table of another program is where netloom would create its own. netloom "
        "did not touch it, and nothing was changed.",
        "Remove what the message names if it is not needed, or choose another interface name or address.",
    ),
    _entry(
        103,
        "the attachment differs from what ADD created",
        "CHECK compared the attachment with the kernel and found differences. The details of the error list "
        "each one.",
        "A running agent restores missing objects within a minute. It does not restore changed objects: "
        "`netloom check --repair` does.",
    ),
    _entry(
        104,
        "already attached in another namespace or with another configuration",
        "The container's interface is already attached to this network, in another namespace or with "
        "another configuration, for example because the network's file was changed.",
        "Detach it first. `netloom ls --wide` shows where it is attached.",
    ),
    _entry(
        105,
        "a host port is in use",
        "The requested host port already leads to another container.",
        "Use another host port, or detach the container that uses it. `netloom ports` lists the host ports "
        "in use.",
    ),
    _entry(
        999,
        "a defect of netloom",
        "netloom met an unexpected error. The agent's log shows where.",
        "Please report it, with the archive that `netloom bundle` creates.",
    ),
)
