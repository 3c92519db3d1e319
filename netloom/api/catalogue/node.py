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
        "An agent runs, but the file of its socket was deleted, so plugins cannot reach the agent.",
        "The agent creates the file again within a second. If it does not, restart the agent.",
    ),
    _entry(
        "socket-unreachable",
        "the agent cannot listen at its socket",
        "An agent runs, but plugins cannot reach it: the file of its socket was deleted, and the agent "
        "cannot create it again, because the path is read-only or something else is in its place. DELs are "
        "queued where that is possible. All other requests fail with code 11.",
        "Clear the path in the message. The agent listens there again within a second.",
    ),
    _entry(
        "path-untrusted",
        "another user could change a directory of netloom",
        "The directory of the socket or of the state, a directory above it, or a link that leads to it "
        "belongs to another user or is writable by others. That user could answer in place of the agent, or "
        "give it another journal. The plugin contacts no agent there: ADD fails with code 11, and DEL is "
        "queued. The agent and `netloom up` remove the write permission of others from a directory that "
        "root owns, and refuse any other.",
        "Make root the owner of the directory in the message, and remove the write permission of others: "
        "`chown root: DIR` and `chmod go-w DIR`. Or use another --socket or --state-dir.",
    ),
    _entry(
        "attachment-unrepaired",
        "the agent cannot repair an attachment",
        "An address, a route or another object of the attachment is missing, and the kernel refused to "
        "create it again. The container has no network, or only a part of it.",
        "The message has the kernel's error. `netloom check KEY` shows what is missing. Remove the cause: "
        "the agent tries again within a minute. To create the whole attachment again, detach it and attach "
        "it again.",
    ),
    _entry(
        "route-diverted",
        "the host does not route a container's packets to its link",
        "All objects of the attachment exist, but a packet for the container does not reach it, or one from "
        "it is refused. An `ip rule`, a blackhole route, or a route of another program takes precedence. "
        "VPN clients and routing daemons add such rules. The agent queries the kernel for each attachment "
        "once a minute, and sends no packets for it.",
        "`ip rule`, `ip -6 rule` and `ip route get ADDRESS` show what diverts the packets. Remove it, or "
        "exclude the pools from it.",
    ),
    _entry(
        "two-agents",
        "two agents on one node",
        "More than one netloom agent runs in this network namespace, each with its own state. Neither knows "
        "the other's links and routes.",
        "Stop the agent that should not run: `netloom down --state-dir DIR --socket PATH`.",
    ),
    _entry(
        "agent-outdated",
        "the agent's version differs from that of this command",
        "netloom was upgraded after the running agent was started.",
        "`netloom up` hands over to an agent of the new version, without a failed call.",
    ),
    _entry(
        "agent-troubled",
        "the agent reports a problem",
        "The agent runs and answers, but reports that nothing can be attached now. The message has the "
        "reason.",
        "Follow the message. The agent's log has more.",
    ),
    _entry(
        "metrics-unavailable",
        "metrics and health cannot be served",
        "The agent cannot listen at the address of `--metrics-listen`: another process uses the port, or no "
        "link has the address. Attaching and detaching work. `/metrics`, `/livez` and `/readyz` are not "
        "served, or the other process serves them.",
        "Stop the other process, or start the agent with another `--metrics-listen`. The agent tries again "
        "at every tick.",
    ),
    _entry(
        "queued-dels",
        "DELs are queued for an agent",
        "Containers were deleted while no agent answered, and the plugin queued the DELs.",
        "`netloom up` starts an agent, which processes them before it serves requests.",
    ),
    _entry(
        "agent-stuck",
        "a part of the agent makes no progress",
        "The agent runs, but its journal, its dataplane or its background work has made no progress for a "
        "long time: it waits for a disk or for the kernel. Requests wait until they time out.",
        "Restart the agent. Containers keep their networks meanwhile. `dmesg` may show what hangs.",
    ),
    # The journal and the disk.
    _entry(
        "disk-full",
        "the disk of the state directory is full",
        "The journal cannot be changed, so nothing can be attached. Attached containers keep working.",
        "Free space on that disk. The agent then continues by itself.",
    ),
    _entry(
        "disk-nearly-full",
        "the disk of the state directory is nearly full",
        "Little space is left. When the disk is full, nothing can be attached.",
        "Free space on that disk.",
    ),
    _entry(
        "journal-read-only",
        "the journal is read-only",
        "The journal's disk is mounted read-only, or its files are not writable. An ADD fails with code 5.",
        "Mount the disk writable (`mount -o remount,rw`), or correct the permissions of the files. `dmesg` "
        "shows whether the disk failed.",
    ),
    _entry(
        "journal-large",
        "the journal's WAL is large",
        "The write-ahead log (WAL) of the journal uses much space. Another process keeps the journal open "
        "for reading, so the agent cannot finish a checkpoint.",
        "End the process that reads the journal, or restart the agent.",
    ),
    # The plugin.
    _entry(
        "plugin-missing",
        "the plugin is not where runtimes look for it",
        "A network uses the plugin `netloom`, but the plugin is missing from a directory where it was "
        "installed. Every ADD and DEL of a runtime that looks only there fails.",
        "`netloom up` installs the plugin again in every such directory.",
    ),
    _entry(
        "plugin-differs",
        "the plugin has another version",
        "The executable in the plugin directory does not belong to this version of netloom.",
        "`netloom up` replaces it, in one step.",
    ),
    _entry(
        "plugin-not-executable",
        "the plugin cannot be executed",
        "The plugin exists, but its mode or its file system does not allow it to run.",
        "`netloom up` corrects the mode. A file system that is mounted with noexec cannot hold plugins.",
    ),
    _entry(
        "runtime-elsewhere",
        "a container runtime uses other directories",
        "The runtime's configuration names other directories for networks or plugins than those that "
        "netloom uses, or has no CNI at all. netloom never sees the runtime's containers.",
        "Install into the runtime's directories with `netloom up --conf-dir DIR --plugin-dir DIR`, or "
        "change the runtime's configuration and restart it.",
    ),
    _entry(
        "runtime-unreadable",
        "a container runtime's file cannot be read",
        "A file that a container runtime reads is damaged, or something else is in its place. netloom took "
        "the runtime's directories from its other files alone, so they may be wrong. The runtime itself may "
        "not even start.",
        "Correct the file, or move it away.",
    ),
    # The kernel and its settings.
    _entry(
        "feature-missing",
        "the kernel lacks a required feature",
        "netloom cannot attach containers with this kernel.",
        "Follow the message: it names a module, a kernel option, or a package.",
    ),
    _entry(
        "sysctl-forwarding",
        "the host does not forward packets",
        "Forwarding is switched off, so containers reach neither each other nor the outside. If the agent "
        "cannot switch it on, networks with pools of that family are not ready.",
        "A running agent switches it on again within a second. If a program switches it off repeatedly, "
        "find its setting in /etc/sysctl.d. If /proc/sys is read-only for the agent, set it on the host.",
    ),
    _entry(
        "sysctl-at-boot",
        "a file switches forwarding off",
        "A file that the system reads at boot, or when an administrator loads it, sets forwarding to 0. "
        "Until the agent switches it on again, containers reach neither each other nor the outside.",
        "Remove the line from the file that the message names, or set the value to 1 in a file of "
        "/etc/sysctl.d that sorts after it.",
    ),
    _entry(
        "node-address-missing",
        "the host lacks an address that netloom needs",
        "The agent gives the host 169.254.1.1 and fd6e:6574:6c6f:6f6d::1, as routes in the table `local`. "
        "It could not add one of them: another route is in its place, or IPv6 is switched off on lo while a "
        "network has an IPv6 pool. Without it, host ports on 127.0.0.1 or ::1 do not work. Containers can "
        "be attached, and the other family is not affected.",
        "Follow the message. The agent tries again every second.",
    ),
    _entry(
        "node-object-missing",
        "the host lacks an object that a network's mode needs",
        "A mode needs a setting, a link or a route of the host itself, and the agent cannot create it. "
        "Networks of that family are not ready. Attachments stay as they are.",
        "Follow the message. The agent tries again every second.",
    ),
    _entry(
        "sysctl-in-the-way",
        "a kernel setting drops packets",
        "The value of a sysctl makes the kernel drop containers' packets, as strict reverse-path filtering "
        "can do.",
        "Set it to the value in the message, and also in /etc/sysctl.d so that it persists.",
    ),
    _entry(
        "conntrack-full",
        "the connection tracking table is full",
        "All containers of a machine share the kernel's connection tracking table, which is full or nearly "
        "full. The kernel drops packets that would open another connection.",
        "Increase net.netfilter.nf_conntrack_max, and find the program that opens so many connections.",
    ),
    _entry(
        "foreign-drop",
        "another firewall drops traffic of containers",
        "A chain of another firewall (ufw, firewalld, Docker, rules of iptables or nftables) drops traffic "
        "that containers need. A packet has to pass every table, so netloom's own rules cannot let it "
        "through. netloom reads the rules and traces packets through them, in both directions. It is an "
        "error if a chain drops all traffic between containers, from containers to the outside, or from the "
        "host to containers, or the ARP or neighbour discovery by which the host and its gateway find each "
        "other on the uplink. It is a warning if a chain drops traffic from containers to the host or from "
        "the outside to host ports, as many firewalls do on purpose, if rules let a part of the traffic "
        "pass, or if a rule cannot be judged by reading, such as a rate limit (`may drop`).",
        "Run the commands in the message. They use the program that manages the chain, and open the chain "
        "for links named loom*, or for the packets dropped on the uplink. If you want what a warning "
        "describes, do nothing.",
    ),
    _entry(
        "legacy-iptables",
        "iptables-legacy rules are active and also apply to containers",
        "Tables of iptables-legacy have rules. The kernel applies them in addition to the rules of "
        "nftables, and `nft list` does not show them. What they drop is reported as a separate finding, "
        "`foreign-drop`.",
        "`iptables-legacy-save` shows the rules. Move them to nftables, or make sure that they let "
        "containers' packets pass.",
    ),
    _entry(
        "networkd-interferes",
        "systemd-networkd removes routes and rules of other programs",
        "With its defaults, systemd-networkd removes routes and rules of other programs when it starts or "
        "reconfigures a link.",
        "Set ManageForeignRoutes=no and ManageForeignRoutingPolicyRules=no in a drop-in of networkd.conf. "
        "`netloom doctor --fix` does this.",
    ),
    _entry(
        "networkmanager-interferes",
        "NetworkManager manages containers' links",
        "NetworkManager runs and is not configured to ignore links named loom*. It may remove their "
        "addresses and settings.",
        "Set unmanaged-devices=interface-name:loom* in /etc/NetworkManager/conf.d. `netloom doctor --fix` "
        "does this.",
    ),
    _entry(
        "clock-jumped",
        "the system clock was set",
        "The system clock and the time since boot do not agree with the times in the journal: the clock was "
        "set. Times in the log may be wrong. Attachments and resting addresses use the time since boot, and "
        "are not affected.",
        "Let NTP keep the clock. When you read times in `netloom explain`, remember when the clock was set.",
    ),
    _entry(
        "package-missing",
        "a package is missing",
        "A program or library that netloom uses is not installed.",
        "Install the package that the message names.",
    ),
    _entry(
        "look-failed",
        "a check could not run",
        "One of the checks of `netloom doctor` could not run. The others did.",
        "Correct what the message names, and run `netloom doctor` again.",
    ),
)
