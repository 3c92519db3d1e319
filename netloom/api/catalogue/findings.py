"""Findings: what a look at the node shows to be wrong, without anybody having asked for anything."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "finding", title, meaning, remedy)


_BY_ITSELF = "A running agent sees to it within a minute; `netloom up` starts one."
_DEFECT = (
    "This is a defect of netloom: please report it, with what `netloom bundle` packs. Detaching and "
    "attaching brings the attachment to rights."
)

ENTRIES = (
    # The agent and its socket.
    _entry(
        "socket-removed",
        "the agent's socket was removed",
        "An agent runs, and the file of its socket is gone: no plugin reaches it.",
        "The agent makes it anew within a second; if it does not, restart it.",
    ),
    _entry(
        "socket-unreachable",
        "the agent cannot listen at its socket",
        "An agent runs, and no plugin reaches it: the file of its socket is gone, and the agent cannot make "
        "another, since the path is read-only, or something else is in its place. DELs are queued where that "
        "is possible, and all other requests fail with code 11.",
        "Clear the path that the message names; the agent listens there again within a second.",
    ),
    _entry(
        "path-untrusted",
        "another user could change a directory of netloom",
        "The directory of the socket or of the state, one above it, or a link that leads to it belongs to "
        "another user, or is writable by others. That user could answer in the agent's place, or give it "
        "another journal. The plugin asks no agent there: ADD fails with code 11, and DEL is queued. The "
        "agent and `netloom up` take the right to write from others where root owns the directory, and "
        "refuse any other.",
        "Make root the owner of the directory that the message names, and close it to others: `chown root: "
        "DIR` and `chmod go-w DIR`; or give another --socket or --state-dir.",
    ),
    _entry(
        "attachment-unrepaired",
        "an attachment has lost something that the agent cannot put back",
        "The agent found an address, a route or another object of the attachment missing, and the kernel "
        "refused to make it again. The container has no network, or only a part of it.",
        "The message names what the kernel said. `netloom check KEY` shows what is missing. Clear the cause; "
        "the agent tries again within a minute. Detaching and attaching makes the whole attachment again.",
    ),
    _entry(
        "route-diverted",
        "the host does not send a container's packets to its link",
        "All objects of the attachment are there, and a packet for the container still does not reach it, or "
        "one from it is refused. An `ip rule`, a blackhole route, or a route of another program comes first. "
        "VPN clients and routing daemons add such rules. The agent asks the kernel for each attachment once "
        "a minute; nothing is sent for it.",
        "`ip rule`, `ip -6 rule` and `ip route get ADDRESS` show what leads the packets away. Remove it, or "
        "exclude the pools from it.",
    ),
    _entry(
        "two-agents",
        "two agents on one node",
        "More than one agent of netloom runs in this network namespace, each with a state of its own. Each "
        "takes the other's links and routes for a stranger's.",
        "Stop the one that is not meant: `netloom down --state-dir DIR --socket PATH`.",
    ),
    _entry(
        "agent-outdated",
        "the agent is of another version than this command",
        "The files were upgraded, and the agent that runs was started before that.",
        "`netloom up` hands over to the new version, without a failed call.",
    ),
    _entry(
        "agent-troubled",
        "the agent knows of something in its way",
        "It runs and answers, and says itself that nothing can be attached now; the message has its words.",
        "Do as the message says; the agent's log tells more.",
    ),
    _entry(
        "metrics-unavailable",
        "metrics and health cannot be served",
        "The agent cannot listen at the address of `--metrics-listen`: another process has the port, or no "
        "link has the address. Attaching and detaching work; `/metrics`, `/livez` and `/readyz` are not "
        "served, or are served by the other process.",
        "Stop the other process, or start the agent with another `--metrics-listen`. The agent tries again "
        "at every tick.",
    ),
    _entry(
        "queued-dels",
        "DELs wait for an agent",
        "Containers were deleted while no agent answered; the plugin has written that down.",
        "The next agent does them before it serves: `netloom up`.",
    ),
    _entry(
        "agent-stuck",
        "a part of the agent makes no progress",
        "The agent runs, and its journal, its dataplane or its slow work has been at the same place for "
        "long: it hangs in a disk or in the kernel. Requests wait, and fail when their time is over.",
        "Restart the agent; containers keep their networks meanwhile. `dmesg` may say what hangs.",
    ),
    # The journal and the disk.
    _entry(
        "disk-full",
        "the disk of the state directory is full",
        "The journal takes no more changes, so nothing can be attached. What is attached works on.",
        "Free space on that disk; the agent goes on by itself.",
    ),
    _entry(
        "disk-nearly-full",
        "the disk of the state directory is nearly full",
        "Little space is left; once there is none, nothing can be attached.",
        "Free space on that disk.",
    ),
    _entry(
        "journal-read-only",
        "the journal cannot be written",
        "Its disk is mounted read-only, or its files may not be written. An ADD fails with code 5.",
        "Mount it writable (`mount -o remount,rw`), or set its permissions right; `dmesg` says whether the "
        "disk failed.",
    ),
    _entry(
        "journal-large",
        "the journal's log has grown",
        "What was written and is not folded into the journal yet takes much space. Somebody keeps the "
        "journal open for reading, and so keeps the agent from it.",
        "End whoever reads it, or restart the agent.",
    ),
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
        "`netloom up` restores the file as it was, also with changes that were made by hand. With `netloom "
        "up --keep-network` the agent does that by itself. To do without the network, run `netloom down "
        "--purge`, or make another one the node's: `netloom up --network OTHER`.",
    ),
    _entry(
        "network-broken",
        "a network's file cannot work",
        "Every ADD to it would be refused: a key is misspelled or has a value that makes no sense, or the "
        "file is no JSON.",
        "Mend what the message names; `netloom cni validate` checks it.",
    ),
    _entry(
        "network-typo",
        "an unknown key",
        "The network's file has a key that netloom does not know, and that looks like one that it does. It "
        "has no effect.",
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
        "A file in the directory of networks is no JSON, no network, or cannot be read. If it is the first "
        "by name, containerd has no network at all, and starts no pod: it takes the first file only, and "
        "gives up if that cannot be loaded. CRI-O and podman pass it over.",
        "Move it away with the command that the message has, or mend it; `netloom cni validate` checks every "
        "file.",
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
        "The pools of a network have given out all of their addresses of a family; those of deleted "
        "containers rest for a while before they are given again.",
        "If some rest, wait: `netloom pools` tells when the next is free. If none does, delete what is not "
        "needed (`netloom gc --dry-run` shows what is left over), or give the network another pool: "
        "`netloom up --network NAME --pool CIDR … --pool NEW_CIDR`, with every pool that it has, since those "
        "that are not named go; `netloom status` says how, word for word.",
    ),
    _entry(
        "pool-nearly-exhausted",
        "few addresses are left",
        "The pools of a network are nearly used up.",
        "Give the network another pool before it is: `netloom up --network NAME --pool CIDR … --pool "
        "NEW_CIDR`, with every pool that it has, since those that are not named go; `netloom status` says "
        "how, word for word.",
    ),
    _entry(
        "pool-overlap",
        "a pool overlaps a network of the host",
        "A container and a machine there may get the same address. netloom gives no address of the host, its "
        "gateways, its DNS servers and machines that the host has talked to; of others it cannot know. "
        "`netloom up` refuses a new pool that overlaps a network that the host is connected to; instead of "
        "a default pool that does, it takes a free private range, and says so.",
        "Exclude that part of the pool, or choose another: `netloom up --pool CIDR`. If these addresses are "
        "set aside for containers, `netloom up --pool CIDR --force` uses the pool.",
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
        "the host cannot give what the network needs",
        "A setting of the host, such as IPv6 switched off or an MTU below 1280, keeps containers from having "
        "addresses of a pool.",
        "Do what the message says.",
    ),
    _entry(
        "mtu-mismatch",
        "containers have a larger MTU than the uplink",
        "The network's links take larger packets than the host's uplink. Large packets of containers are "
        "refused or lost on the way, while small ones pass: connections hang.",
        "Set the network's `mtu` to that of the uplink (0 follows it), and attach the containers again.",
    ),
    # The plugin.
    _entry(
        "plugin-missing",
        "the plugin is not where runtimes look for it",
        "The network names the plugin `netloom`, and none is at a place where it was installed: every ADD "
        "and DEL of a runtime that looks there alone fails.",
        "`netloom up` installs it at every place where it was.",
    ),
    _entry(
        "plugin-differs",
        "the plugin is of another version",
        "The executable in the plugin directory is not the one that belongs to this netloom.",
        "`netloom up` replaces it, in one step.",
    ),
    _entry(
        "plugin-not-executable",
        "the plugin cannot be executed",
        "The plugin is there, and its mode or its file system does not let it run.",
        "`netloom up` sets it right; a file system that is mounted with noexec cannot hold plugins.",
    ),
    _entry(
        "runtime-elsewhere",
        "a container runtime looks elsewhere",
        "The runtime's own configuration names other directories for networks or plugins than those where "
        "netloom's are, or has no CNI at all: its containers never come to netloom.",
        "Install where it looks, with `netloom up --conf-dir DIR --plugin-dir DIR`, or change its "
        "configuration and restart it.",
    ),
    _entry(
        "runtime-unreadable",
        "a container runtime's file cannot be read",
        "A file that a container runtime reads is damaged, or something else is in its place. Where that "
        "runtime looks for networks and plugins is told by its other files alone, and may not be so. It may "
        "not even start.",
        "Mend the file, or move it away.",
    ),
    # The kernel and its settings.
    _entry(
        "feature-missing",
        "the kernel lacks something that every node needs",
        "Attaching cannot work with this kernel.",
        "Do what the message says: a module, a kernel with that option, or a package.",
    ),
    _entry(
        "sysctl-forwarding",
        "the host does not forward",
        "Forwarding is switched off, so that no container reaches another, or the outside. If the agent "
        "cannot switch it on, networks with pools of that family are not ready.",
        "A running agent switches it on again within a second. If something switches it off over and over, "
        "find that in /etc/sysctl.d. If /proc/sys is read-only for the agent, set it on the host.",
    ),
    _entry(
        "sysctl-at-boot",
        "a file switches forwarding off",
        "A file that the system reads at boot, or when an administrator loads it, sets forwarding to 0. "
        "Until the agent switches it on again, no container reaches another, or the outside.",
        "Remove the line from the file that the message names, or set the value to 1 in a file of "
        "/etc/sysctl.d that sorts after it.",
    ),
    _entry(
        "node-address-missing",
        "the host lacks an address that every node has",
        "The agent gives the host 169.254.1.1 and fd6e:6574:6c6f:6f6d::1, as routes in the table `local`. "
        "One of them could not be added: another route is in its place, or IPv6 is switched off on lo while "
        "a network has an IPv6 pool. Host ports on 127.0.0.1 or ::1 do not work without it. Containers can "
        "be attached, and the other family is not affected.",
        "Do what the message says. The agent tries again every second.",
    ),
    _entry(
        "sysctl-in-the-way",
        "a setting of the kernel is in the way",
        "A sysctl has a value with which containers' packets are dropped, as strict reverse-path filtering "
        "can do.",
        "Set it as the message says, and in /etc/sysctl.d so that it stays.",
    ),
    _entry(
        "conntrack-full",
        "the kernel remembers as many connections as it can",
        "The table of connections, which all containers of a machine share, is full or nearly so. What would "
        "open another connection is dropped.",
        "Raise net.netfilter.nf_conntrack_max, and find who opens so many.",
    ),
    _entry(
        "foreign-drop",
        "another firewall drops traffic of containers",
        "A chain of another firewall (ufw, firewalld, Docker, rules of iptables or nftables) drops traffic "
        "that containers need, whatever netloom accepts: every table has to let a packet pass. netloom reads "
        "the rules and traces packets through them, in both directions. It is an error if a chain drops all "
        "traffic between containers, from containers to the outside, or from the host to containers, or the "
        "ARP or neighbour discovery by which the host and its gateway find each other on the uplink. It is a "
        "warning if a chain drops traffic from containers to the host or from the outside to host ports, as "
        "many firewalls do on purpose, if rules let a part of the traffic pass, or if a rule cannot be "
        "judged by reading, such as a rate limit (`may drop`).",
        "Run the commands that the message names: they open this chain for links named loom*, or for what is "
        "dropped on the uplink, in the words of the program that manages it. A warning that you want needs "
        "nothing.",
    ),
    _entry(
        "legacy-iptables",
        "iptables-legacy rules are active and also apply to containers",
        "Tables of iptables-legacy have rules. The kernel applies them beside the rules of nftables, and no "
        "`nft list` shows them. What they drop is a finding of its own, `foreign-drop`.",
        "`iptables-legacy-save` shows them; move them to nftables, or make sure that they let containers "
        "pass.",
    ),
    _entry(
        "networkd-interferes",
        "systemd-networkd removes routes and rules that it does not know",
        "With its defaults, systemd-networkd removes routes and rules that others made when it starts or "
        "reconfigures a link.",
        "Write ManageForeignRoutes=no and ManageForeignRoutingPolicyRules=no into a drop-in of "
        "networkd.conf; `netloom doctor --fix` does it.",
    ),
    _entry(
        "networkmanager-interferes",
        "NetworkManager manages containers' links",
        "NetworkManager runs and has not been told to leave links named loom* alone: it may take their "
        "addresses and settings.",
        "Write unmanaged-devices=interface-name:loom* into /etc/NetworkManager/conf.d; `netloom doctor "
        "--fix` does it.",
    ),
    _entry(
        "clock-jumped",
        "the clock was set",
        "The machine's clock and the time since boot do not agree with what the journal has written: "
        "somebody set the clock. Times in the log may be wrong; attachments and resting addresses are "
        "counted from boot, and are not affected.",
        "Let NTP keep the clock. When reading times in `netloom explain`, mind when it was set.",
    ),
    _entry(
        "package-missing",
        "a package is missing",
        "Something that netloom uses is not installed.",
        "Install the package that the message names.",
    ),
    _entry(
        "look-failed",
        "something could not be looked at",
        "One of the looks of `netloom doctor` could not be taken; the others were.",
        "Mend what the message names, and run it again.",
    ),
    # Attachments.
    _entry(
        "netns-stale",
        "an attachment's namespace is gone",
        "The container's network namespace is not there any more, and nobody sent a DEL. Its addresses are "
        "still held.",
        "A running agent releases it half a minute after the namespace is gone; `netloom gc` does it at "
        "once.",
    ),
    _entry(
        "netns-busy",
        "somebody holds a deleted namespace",
        "The container is deleted, and its namespace lives on, because a process runs in it, has it open, or "
        "it is mounted elsewhere. Its links stay until it goes.",
        "End or restart the processes that the message names.",
    ),
    _entry(
        "object-missing",
        "a part of an attachment is missing",
        "A link, an address, a route or an element of the firewall that the attachment is made of is not in "
        "the kernel.",
        _BY_ITSELF + " `netloom check --repair` does it at once. If its interface was renamed or moved, "
        "`--recreate` beside it makes its link anew; then its connections end.",
    ),
    _entry(
        "object-changed",
        "a part of an attachment was changed",
        "Something is not as netloom made it, and a running agent leaves it so, since somebody may have "
        "meant it.",
        "`netloom check --repair` makes it so again; or change it back by hand. If its interface was renamed "
        "or moved, `--recreate` beside it makes its link anew; then its connections end.",
    ),
    _entry(
        "address-foreign",
        "an address that netloom did not give",
        "A container's link has an address that is in no plan: somebody added it by hand. Nothing is sent "
        "from it, since the firewall lets only the attachment's own pass, and IPAM may give it to another.",
        "Remove it with the command that the message has, or ask for it when attaching.",
    ),
    _entry(
        "packets-refused",
        "a container sends what it may not",
        "The node's table has dropped packets of a container in the last ten minutes. Their source was not "
        "one of its addresses, or they were router advertisements, redirects, or for an address that no host "
        "has. `netloom inspect` counts those of the last day.",
        "See what it sends with the command that the message has. An address that was added by hand is one "
        "cause: `netloom doctor --only addresses` lists those.",
    ),
    _entry(
        "table-broken",
        "netloom's nft table is not whole",
        "Chains, rules or elements of the table are gone or changed, as after `nft flush ruleset`. What it "
        "guards and translates is open until it is laid down anew.",
        "A running agent lays it down anew within a second; `netloom up` starts one.",
    ),
    _entry(
        "attachment-unfinished",
        "an attachment is half made or half gone",
        "An operation was interrupted. It is neither in use nor lost.",
        _BY_ITSELF,
    ),
    _entry(
        "plan-unreadable",
        "an attachment's plan cannot be read",
        "The journal's row is of a later version or damaged. The attachment works on, and can only be "
        "deleted.",
        "Delete it with its container; `netloom ls --wide` has its names.",
    ),
    _entry(
        "result-unreadable",
        "an attachment's result cannot be read",
        "The journal's row is of a later version or damaged. The attachment works on; an ADD that is "
        "repeated "
        "makes it anew, and CHECK fails.",
        "Delete it with its container; `netloom ls --wide` has its names.",
    ),
    _entry(
        "operation-unreadable",
        "a row of the log cannot be read",
        "How long the parts of an operation took is not known any more. Nothing else depends on it.",
        "Nothing: the log forgets its oldest rows by itself.",
    ),
    _entry(
        "attachment-addressless",
        "an attachment has no address",
        "Both are written in one transaction, so somebody has changed the journal.",
        "Delete its container, and make it anew.",
    ),
    _entry(
        "journal-tables",
        "a table or a column of the journal is missing",
        "The file is a journal, and is not as its schema says: somebody has changed it.",
        "`netloom down`, put a copy back (`journal.db.backup-N` beside it is one) or move it away, "
        "`netloom up`.",
    ),
    _entry(
        "journal-dangling",
        "a row of the journal names one that is not there",
        "An address or a port is held by an attachment that does not exist: somebody has changed the "
        "journal.",
        "`netloom down`, put a copy back (`journal.db.backup-N` beside it is one) or move it away, "
        "`netloom up`.",
    ),
    _entry(
        "kernel-silent",
        "the kernel could not be asked",
        "A question about an attachment's objects failed; the message ends with the kernel's own words.",
        "Ask again with `netloom check`.",
    ),
    _entry(
        "link-orphaned",
        "a link of netloom is not in the journal",
        "There is a link with netloom's name and no attachment in the journal (it is orphaned), as after a "
        "journal was lost. A container may use it. So the link stays, its addresses stay reserved, and the "
        "agent keeps its masquerade, isolation and host ports.",
        "Delete that container with its runtime: the link goes, too. If none uses it, remove it with the "
        "command that the message has.",
    ),
    _entry(
        "journal-restorable",
        "a copy of the journal knows what this one does not",
        "Links of netloom are there that are not in the journal, and a copy that netloom has kept beside it "
        "knows them: the journal was lost and begun again, or an older copy was restored.",
        "Put that copy back: `netloom down`, `netloom journal restore FILE`, `netloom up`. The message has "
        "the commands. If the journal has attachments that the copy lacks, delete their containers first.",
    ),
    _entry(
        "orphan-incomplete",
        "a container outside the journal may have lost services",
        "The journal was lost, and the nft table had been flushed or changed before an agent could read it. "
        "The container keeps its link and its addresses. Masquerade, isolation or host ports that it had, as "
        "the message lists them, cannot be known any more.",
        "Delete that container with its runtime and create it again. If you have a copy of the journal that "
        "knows it, put that back: `netloom down`, `netloom journal restore FILE`, `netloom up`.",
    ),
    _entry(
        "element-orphaned",
        "an element of the firewall that belongs to nothing",
        "The table has an element or a chain that no attachment has.",
        "It goes with the agent's next start, unless its link is there.",
    ),
    _entry(
        "address-inconsistent",
        "journal and plan do not agree on an address",
        "Who holds an address and whose plan routes it are not the same.",
        _DEFECT,
    ),
    _entry(
        "address-twice",
        "one address or link of two attachments",
        "Two attachments' plans have the same address or host link.",
        _DEFECT,
    ),
    _entry(
        "address-orphaned",
        "an address is held by nobody",
        "The journal holds an address for an attachment that is not there.",
        _DEFECT,
    ),
    _entry(
        "port-inconsistent",
        "journal and plan do not agree on a host port",
        "Who holds a port of the host and whose plan maps it are not the same.",
        _DEFECT,
    ),
    _entry(
        "pool-miscounted",
        "a pool's numbers do not add up",
        "Free, held and resting addresses are not as many as the pool has.",
        _DEFECT,
    ),
    # Requests.
    _entry(
        "never-asked",
        "no ADD was seen for this container",
        "The journal knows no operation of this name: the runtime has not asked netloom to attach it.",
        "See which network the runtime uses: the message names the file that it finds first, if it finds "
        "any. Look at the runtime's own log; make sure that CNI is switched on in it.",
    ),
    _entry(
        "add-failed",
        "the last ADD failed",
        "The runtime asked for an attachment, and it could not be made; the message has the reason.",
        "Do what the error's own page says: `netloom explain CODE` with the code of the message.",
    ),
    _entry(
        "del-failed",
        "the last DEL failed",
        "The runtime asked for an attachment to go, and it could not; it will ask again.",
        "Do what the error's own page says: `netloom explain CODE` with the code of the message.",
    ),
)
