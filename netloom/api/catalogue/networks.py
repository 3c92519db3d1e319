"""Findings about networks: their files, their pools and their MTU; and errors of kernel objects."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "finding", title, meaning, remedy)


def _of_kernel(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "kernel", title, meaning, remedy)


ENTRIES = (
    # Networks and their files.
    _entry(
        "network-none",
        "no network of netloom is configured",
        "Runtimes find no network with netloom's plugin, so no container gets one.",
        "`netloom up` writes one.",
    ),
    _entry(
        "network-file-missing",
        "a network's file is missing",
        "`netloom up` configured this network, or containers are attached to it, and no file in the "
        "directory of networks has it any more. Runtimes cannot attach containers to it. `podman network "
        "prune` and `podman system prune` delete the file while no container uses the network.",
        "`netloom up` restores the file as it was, with changes that were made by hand. With `netloom up "
        "--keep-network` the agent does that by itself. If you do not need the network, run `netloom down "
        "--purge`, or make another one the node's: `netloom up --network OTHER`.",
    ),
    _entry(
        "network-broken",
        "a network's file is invalid",
        "Every ADD to it would be refused: a key is misspelled or has an invalid value, or the file is not "
        "JSON.",
        "Correct what the message names; `netloom cni validate` checks it.",
    ),
    _entry(
        "network-typo",
        "an unknown key",
        "The network's file has a key that netloom does not know, and that looks like one that it does. The"
        " key has no effect.",
        "Spell it as the message says, or remove it.",
    ),
    _entry(
        "network-shadowed",
        "another network comes first",
        "Runtimes such as containerd and CRI-O use the first file of the directory by name, and that is not "
        "netloom's: containers get the other network.",
        "Move the other file away, or rename one so that netloom's sorts first.",
    ),
    _entry(
        "network-unloadable",
        "a file that no runtime can load",
        "A file in the directory of networks is not JSON, not a network, or cannot be read. If it is the "
        "first by name, containerd has no network at all, and starts no pod: it takes the first file only, "
        "and gives up if that cannot be loaded. CRI-O and podman ignore it.",
        "Move it away with the command that the message has, or correct it; `netloom cni validate` checks "
        "every file.",
    ),
    _entry(
        "network-twice",
        "two files of one network",
        "Two files have the same network name; which of them counts depends on the runtime.",
        "Remove one of them, or give it another name.",
    ),
    _entry(
        "other-cni",
        "another CNI is configured here, too",
        "Beside netloom's there are files of other container networks. Each container gets one of them, "
        "depending on the runtime.",
        "Keep those that you use, and move the others away.",
    ),
    _entry(
        "pool-exhausted",
        "no address is left",
        "The pools of a network have no free address of a family left. Addresses of deleted containers rest"
        " for a while before they are given again.",
        "If some addresses rest, wait: `netloom pools` tells when the next is free. Otherwise delete "
        "containers that are not needed (`netloom gc --dry-run` shows leaks), or give the network another "
        "pool: `netloom up --network NAME --pool CIDR … --pool NEW_CIDR`. Name every pool that it has, "
        "since pools that are not named are removed; `netloom status` shows the exact command.",
    ),
    _entry(
        "pool-nearly-exhausted",
        "few addresses are left",
        "The pools of a network are nearly used up.",
        "Give the network another pool in time: `netloom up --network NAME --pool CIDR … --pool NEW_CIDR`. "
        "Name every pool that it has, since pools that are not named are removed; `netloom status` shows "
        "the exact command.",
    ),
    _entry(
        "pool-overlap",
        "a pool overlaps a network of the host",
        "A container and a machine there may get the same address. netloom never gives an address of the "
        "host, its gateways, its DNS servers or machines that the host has talked to; it cannot know "
        "others. `netloom up` refuses a new pool that overlaps a network that the host is connected to; "
        "instead of a default pool that does, it takes a free private range, and says so.",
        "Exclude that part of the pool, or choose another: `netloom up --pool CIDR`. If these addresses are"
        " reserved for containers, `netloom up --pool CIDR --force` uses the pool.",
    ),
    _entry(
        "address-clash",
        "a container has the address of the host, or of a machine beside it",
        "The pool overlaps a network that the host is on, and an attachment got an address before the host "
        "knew that another machine has it: its gateway, its DNS server, or one that it has talked to. This "
        "host and its containers reach the container instead of that machine. netloom gives no such address "
        "once the host knows the machine. Or the host itself got the address later: then packets for the "
        "container stay on the host.",
        "Delete that container and attach it again: it gets another address. Then exclude the host's network "
        "from the pool (`exclude` in the network's file), or give the network another pool.",
    ),
    _entry(
        "host-lacks",
        "the host cannot provide what the network needs",
        "A setting of the host, such as IPv6 switched off or an MTU below 1280, prevents containers from "
        "having addresses of a pool.",
        "Do what the message says.",
    ),
    _entry(
        "mtu-mismatch",
        "containers have a larger MTU than the uplink",
        "The network's links take larger packets than the host's uplink. Large packets of containers are "
        "refused or lost, while small ones pass: connections hang.",
        "Set the network's `mtu` to that of the uplink (0 follows it), and attach the containers again.",
    ),
    _of_kernel(
        "kernel-refused",
        "the kernel refused a request",
        "A request to the kernel failed; the message ends with the kernel's own words. What the plan had "
        "made until then was rolled back.",
        "`netloom plan check` shows what is missing; `netloom doctor` lists what this kernel can do.",
    ),
    _of_kernel(
        "kernel-conflict",
        "a different object is there",
        "In the place of an object there is one that is different, or that is not netloom's. It was left "
        "untouched.",
        "Correct or remove what is in the way, if no other program needs it; or use another name.",
    ),
    _of_kernel(
        "kernel-lacks",
        "this kernel lacks a feature",
        "The kernel has no support for an object: it was built without it, or its module cannot be loaded.",
        "`netloom doctor` lists every feature, what needs it, and the kernel's option that brings it.",
    ),
    _of_kernel(
        "kernel-forbids",
        "not permitted",
        "The kernel lets only root, or a process with CAP_NET_ADMIN and CAP_SYS_ADMIN, do this.",
        "Run it as root; in a container, give it both capabilities.",
    ),
    _of_kernel(
        "plan-invalid",
        "a plan that cannot be read",
        "The file is not a plan, has a later version, or needs a namespace that was not given.",
        "Correct what the message names; docs/reference/plan.md lists every object and field.",
    ),
    _of_kernel(
        "object-invalid",
        "an invalid value of an object",
        "A field of an object has a value that no kernel takes.",
        "Correct the value that the message names.",
    ),
    _of_kernel(
        "namespace-invalid",
        "not a network namespace",
        "The path or name is not a network namespace, or it is one that must not be used here.",
        "Give the namespace as a path, such as /run/netns/NAME, or as its name. To remove what a deleted "
        "namespace has left on the host, omit it.",
    ),
    _of_kernel(
        "library-missing",
        "a shared library is not installed",
        "netloom uses nftables through the library libnftables, which is not installed.",
        "Install the package that the message names: `apt install libnftables1` on Debian.",
    ),
    _of_kernel(
        "kernel-deadline",
        "not done in time",
        "The kernel was busy for longer than was allowed. The message says how far the operation came.",
        "Try again, or give it more time.",
    ),
)
