"""Findings about the node: the agent, the journal and its disk, the plugin, the kernel's settings."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "finding", title, meaning, remedy)


ENTRIES = (
    # The agent and its socket.
    _entry(
        "socket-removed",
        "the agent's socket was removed",
        "An agent runs, and the file of its socket is gone: no plugin reaches it.",
        "The agent creates it again within a second; if it does not, restart the agent.",
    ),
    _entry(
        "socket-unreachable",
        "the agent cannot listen at its socket",
        "An agent runs, and no plugin reaches it: the file of its socket is gone, and the agent cannot "
        "create it again, since the path is read-only, or something else is in its place. DELs are queued "
        "where that is possible, and all other requests fail with code 11.",
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
        "More than one agent of netloom runs in this network namespace, each with a state of its own. "
        "Neither knows the other's links and routes.",
        "Stop the agent that should not run: `netloom down --state-dir DIR --socket PATH`.",
    ),
    _entry(
        "agent-outdated",
        "the agent has another version than this command",
        "netloom was upgraded, and the agent that runs was started before that.",
        "`netloom up` hands over to the new version, without a failed call.",
    ),
    _entry(
        "agent-troubled",
        "the agent reports a problem",
        "It runs and answers, and reports that nothing can be attached now; the message has the reason.",
        "Do what the message says; the agent's log has more.",
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
        "Containers were deleted while no agent answered; the plugin has queued the DELs.",
        "The next agent does them before it serves requests: `netloom up`.",
    ),
    _entry(
        "agent-stuck",
        "a part of the agent makes no progress",
        "The agent runs, and its journal, its dataplane or its background work has made no progress for a "
        "long time: it waits for a disk or for the kernel. Requests wait, and fail when their time is over.",
        "Restart the agent; containers keep their networks meanwhile. `dmesg` may say what hangs.",
    ),
    # The journal and the disk.
    _entry(
        "disk-full",
        "the disk of the state directory is full",
        "The journal takes no more changes, so nothing can be attached. Attached containers keep working.",
        "Free space on that disk; the agent continues by itself.",
    ),
    _entry(
        "disk-nearly-full",
        "the disk of the state directory is nearly full",
        "Little space is left. When the disk is full, nothing can be attached.",
        "Free space on that disk.",
    ),
    _entry(
        "journal-read-only",
        "the journal cannot be written",
        "Its disk is mounted read-only, or its files may not be written. An ADD fails with code 5.",
        "Mount it writable (`mount -o remount,rw`), or correct its permissions; `dmesg` says whether the "
        "disk failed.",
    ),
    _entry(
        "journal-large",
        "the journal's WAL has grown",
        "The write-ahead log of the journal takes much space. Another process keeps the journal open for "
        "reading, so that the agent cannot finish a checkpoint.",
        "End the process that reads it, or restart the agent.",
    ),
    # The plugin.
    _entry(
        "plugin-missing",
        "the plugin is not where runtimes look for it",
        "The network names the plugin `netloom`, and it is missing at a place where it was installed: every"
        " ADD and DEL of a runtime that looks only there fails.",
        "`netloom up` installs it again at every such place.",
    ),
    _entry(
        "plugin-differs",
        "the plugin has another version",
        "The executable in the plugin directory is not the one that belongs to this netloom.",
        "`netloom up` replaces it, in one step.",
    ),
    _entry(
        "plugin-not-executable",
        "the plugin cannot be executed",
        "The plugin is there, and its mode or its file system does not let it run.",
        "`netloom up` corrects the mode; a file system that is mounted with noexec cannot hold plugins.",
    ),
    _entry(
        "runtime-elsewhere",
        "a container runtime looks elsewhere",
        "The runtime's own configuration names other directories for networks or plugins than those where "
        "netloom's are, or has no CNI at all: netloom never sees its containers.",
        "Install where it looks, with `netloom up --conf-dir DIR --plugin-dir DIR`, or change its "
        "configuration and restart it.",
    ),
    _entry(
        "runtime-unreadable",
        "a container runtime's file cannot be read",
        "A file that a container runtime reads is damaged, or something else is in its place. netloom "
        "learned the runtime's directories from its other files alone, and may be wrong. The runtime may "
        "not even start.",
        "Correct the file, or move it away.",
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
        "A running agent switches it on again within a second. If a program switches it off again and "
        "again, find its setting in /etc/sysctl.d. If /proc/sys is read-only for the agent, set it on the "
        "host.",
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
        "node-object-missing",
        "the host lacks an object that a network's mode needs",
        "A mode needs a setting, a link or a route of the host itself, and the agent cannot make it. "
        "Networks of that family are not ready; attachments stay as they are.",
        "Do what the message says. The agent tries again every second.",
    ),
    _entry(
        "sysctl-in-the-way",
        "a kernel setting drops packets",
        "A sysctl has a value with which containers' packets are dropped, as strict reverse-path filtering "
        "can do.",
        "Set it as the message says, and in /etc/sysctl.d so that it stays.",
    ),
    _entry(
        "conntrack-full",
        "the connection tracking table is full",
        "All containers of a machine share the kernel's connection tracking table, which is full or nearly "
        "full. Packets that would open another connection are dropped.",
        "Raise net.netfilter.nf_conntrack_max, and find the program that opens so many connections.",
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
        "The machine's clock and the time since boot do not agree with the times in the journal: the clock "
        "was set. Times in the log may be wrong; attachments and resting addresses are counted from boot, "
        "and are not affected.",
        "Let NTP keep the clock. When you read times in `netloom explain`, remember when it was set.",
    ),
    _entry(
        "package-missing",
        "a package is missing",
        "Something that netloom uses is not installed.",
        "Install the package that the message names.",
    ),
    _entry(
        "look-failed",
        "a check could not run",
        "One of the checks of `netloom doctor` could not run; the others did.",
        "Correct what the message names, and run it again.",
    ),
)
