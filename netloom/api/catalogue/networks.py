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
        "Runtimes find no network that uses netloom's plugin, so netloom attaches no containers.",
        "`netloom up` configures a network.",
    ),
    _entry(
        "network-file-missing",
        "a network's file is missing",
        "`netloom up` configured this network, or containers are attached to it, but no file in the network "
        "configuration directory defines it any more. Runtimes cannot attach containers to it. `podman "
        "network prune` and `podman system prune` delete the file while no container uses the network.",
        "`netloom up` restores the file, including changes that were made by hand. With `netloom up "
        "--keep-network` the agent restores it by itself. If you do not need the network, run `netloom down "
        "--purge`, or make another network the node's: `netloom up --network OTHER`.",
    ),
    _entry(
        "network-broken",
        "a network's file is invalid",
        "Every ADD to this network fails: a key is misspelled or has an invalid value, or the file is not "
        "JSON.",
        "Correct what the message names. `netloom cni validate` checks the file.",
    ),
    _entry(
        "network-typo",
        "an unknown key in a network's file",
        "The network's file has a key that netloom does not know, but that resembles a known key. The key "
        "has no effect.",
        "Correct the key as the message says, or remove it.",
    ),
    _entry(
        "network-shadowed",
        "another network takes precedence",
        "Runtimes such as containerd and CRI-O use the first file by name in the network configuration "
        "directory. That file is not netloom's, so containers get the other network.",
        "Move the other file away, or rename a file so that netloom's sorts first.",
    ),
    _entry(
        "network-unloadable",
        "a file that no runtime can load",
        "A file in the network configuration directory is not JSON, is not a network, or cannot be read. "
        "containerd uses only the first file by name: if it cannot load that file, it has no network at "
        "all, and starts no pod. CRI-O and podman ignore such a file.",
        "Move the file away with the command in the message, or correct it. `netloom cni validate` checks "
        "every file.",
    ),
    _entry(
        "network-twice",
        "two files define the same network",
        "Two files have the same network name. The runtime decides which of them it uses.",
        "Remove one of the files, or change the network's name in one of them.",
    ),
    _entry(
        "other-cni",
        "another CNI network is configured",
        "The network configuration directory also has files of other container networks. The runtime "
        "decides which network a container gets.",
        "Keep the files that you use, and move the others away.",
    ),
    _entry(
        "pool-exhausted",
        "no address is left",
        "The pools of a network have no free address of one family. Addresses of deleted containers rest "
        "for a while before netloom assigns them again.",
        "If addresses are resting, wait: `netloom pools` shows when the next one is free. Otherwise delete "
        "containers that are not needed (`netloom gc --dry-run` lists leaks), or add a pool to the network: "
        "`netloom up --network NAME --pool CIDR … --pool NEW_CIDR`. Name every existing pool, since "
        "`netloom up` removes pools that are not named. `netloom status` shows the exact command.",
    ),
    _entry(
        "pool-nearly-exhausted",
        "few addresses are left",
        "The pools of a network are nearly used up.",
        "Add a pool to the network in time: `netloom up --network NAME --pool CIDR … --pool NEW_CIDR`. Name "
        "every existing pool, since `netloom up` removes pools that are not named. `netloom status` shows "
        "the exact command.",
    ),
    _entry(
        "pool-overlap",
        "a pool overlaps a network of the host",
        "A container and a machine in that network may get the same address. netloom never assigns an "
        "address of the host, its gateways, its DNS servers or machines that the host has communicated "
        "with, but it cannot know other machines. `netloom up` refuses a new pool that overlaps a network "
        "to which the host is connected. If the default pool overlaps one, `netloom up` uses a free private "
        "range instead and says so.",
        "Exclude that part of the pool, or choose another pool: `netloom up --pool CIDR`. If these "
        "addresses are reserved for containers, `netloom up --pool CIDR --force` uses the pool.",
    ),
    _entry(
        "address-clash",
        "a container has an address of the host or of a machine beside it",
        "The pool overlaps a network of the host, and an attachment got an address before the host knew "
        "that another machine has it: the host's gateway, its DNS server, or a machine that it has "
        "communicated with. This host and its containers reach the container instead of that machine. "
        "netloom does not assign such an address once the host knows the machine. Or the host itself got "
        "the address later: then packets for the container stay on the host.",
        "Delete the container and attach it again: it gets another address. Then exclude the host's network "
        "from the pool (`exclude` in the network's file), or give the network another pool.",
    ),
    _entry(
        "host-lacks",
        "the host does not support what the network needs",
        "A setting of the host prevents containers from having addresses of a pool. Examples are IPv6 "
        "switched off, or an MTU below 1280.",
        "Follow the message.",
    ),
    _entry(
        "mtu-mismatch",
        "containers have a larger MTU than the uplink",
        "The MTU of the network's links is larger than that of the host's uplink. Large packets of "
        "containers are refused or lost, while small ones pass, so connections hang.",
        "Set the network's `mtu` to that of the uplink (0 follows the uplink), and attach the containers "
        "again.",
    ),
    _of_kernel(
        "kernel-refused",
        "the kernel refused a request",
        "A request to the kernel failed. The message ends with the kernel's error. netloom rolled back what "
        "the plan had created until then.",
        "`netloom plan check` shows what is missing. `netloom doctor` lists what this kernel supports.",
    ),
    _of_kernel(
        "kernel-conflict",
        "a different object exists",
        "In the place of an object there is a different one, or one that is not netloom's. netloom did not "
        "touch it.",
        "Correct or remove the existing object if no other program needs it, or use another name.",
    ),
    _of_kernel(
        "kernel-lacks",
        "this kernel lacks a feature",
        "The kernel does not support an object: it was built without the feature, or cannot load the module.",
        "`netloom doctor` lists every feature, what needs it, and the kernel option that enables it.",
    ),
    _of_kernel(
        "kernel-forbids",
        "not permitted",
        "The kernel permits this only to root, or to a process with CAP_NET_ADMIN and CAP_SYS_ADMIN.",
        "Run the command as root. In a container, grant both capabilities.",
    ),
    _of_kernel(
        "plan-invalid",
        "a plan that cannot be read",
        "The file is not a plan, has a later format version, or needs a namespace that was not given.",
        "Correct what the message names. docs/reference/plan.md describes every object and field.",
    ),
    _of_kernel(
        "object-invalid",
        "an invalid value in an object",
        "A field of an object has a value that no kernel accepts.",
        "Correct the value that the message names.",
    ),
    _of_kernel(
        "namespace-invalid",
        "not a network namespace",
        "The path or name is not a network namespace, or it is a namespace that must not be used here.",
        "Give the namespace as a path, such as /run/netns/NAME, or by its name. To remove what a deleted "
        "namespace has left on the host, omit it.",
    ),
    _of_kernel(
        "library-missing",
        "a shared library is not installed",
        "netloom controls nftables through the library libnftables, which is not installed.",
        "Install the package that the message names: `apt install libnftables1` on Debian.",
    ),
    _of_kernel(
        "kernel-deadline",
        "the operation did not finish in time",
        "The kernel was busy for longer than the time limit. The message shows how far the operation came.",
        "Try again, or allow more time.",
    ),
)
