"""Errors of commands."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "command", title, meaning, remedy)


ENTRIES = (
    _entry(
        "usage",
        "invalid arguments",
        "The command or option does not exist, an argument is missing, or an argument or an environment "
        "variable has an invalid value. Nothing was done.",
        "`netloom COMMAND --help` shows the usage, with examples.",
    ),
    _entry(
        "needs-root",
        "root is required",
        "Only root can read or change what the command needs.",
        "Run the command as root, for example with `sudo`.",
    ),
    _entry(
        "not-agreed",
        "not confirmed",
        "The command asks before it removes something, and the answer was not yes. Nothing was done.",
        "Answer yes, or use --yes.",
    ),
    _entry(
        "others-at-work",
        "another `netloom up` or `netloom down` is running",
        "Only one `netloom up` or `netloom down` can run at a time, and the other did not finish in time.",
        "Wait until it has finished, and try again. If it hangs, `ps` shows its process.",
    ),
    _entry(
        "log-unwritable",
        "the agent's log cannot be written",
        "An agent that `netloom up` starts writes its log to agent.log in the state directory. This file "
        "cannot be written.",
        "Check the file's permissions and the free space on its disk, or use another --state-dir.",
    ),
    _entry(
        "agent-ended",
        "the agent ended at once",
        "The agent was started, but ended before it served requests. The end of its log is shown.",
        "Correct the cause that the log shows, and run the command again.",
    ),
    _entry(
        "agent-slow",
        "the agent did not answer in time",
        "The agent was started, but did not serve requests within --timeout. The command stopped it again.",
        "Read the agent's log, or use a longer --timeout.",
    ),
    _entry(
        "agent-elsewhere",
        "the agent listens at another socket",
        "A process uses the journal, but no agent answers at the given socket.",
        "Use the --socket with which the agent was started, or stop the agent with `netloom down`.",
    ),
    _entry(
        "agent-halted",
        "the agent's process is stopped",
        "The agent's process received SIGSTOP, or a debugger holds it. It neither answers nor ends.",
        "`kill -CONT PROCESS` lets it continue. `kill -9 PROCESS` ends it; the next agent completes or "
        "rolls back its unfinished operations.",
    ),
    _entry(
        "agent-not-ending",
        "the agent does not stop",
        "The agent was told to stop, but still runs after --timeout.",
        "Read its log. `kill -9 PROCESS` ends it; the next agent completes or rolls back its unfinished "
        "operations.",
    ),
    _entry(
        "agent-unproven",
        "the process may not be netloom's agent",
        "The process that listens at the socket does not answer like an agent, and does not use the "
        "journal. The command did not touch it.",
        "Use the --state-dir and --socket with which the agent was started.",
    ),
    _entry(
        "agent-unseen",
        "the agent runs in another PID namespace",
        "The agent answers, but its process runs in another PID namespace, for example in a container.",
        "Stop the agent where it was started: in its container, or with its service manager.",
    ),
    _entry(
        "agent-silent",
        "the agent does not answer",
        "The agent's process runs and listens, but does not answer: it is stopped, stuck, or very busy.",
        "The message says what is known about the process. `kill -9 PROCESS` ends it. `netloom up` starts "
        "another agent, which completes or rolls back its unfinished operations. Containers keep their "
        "networks.",
    ),
    _entry(
        "agent-strange",
        "the process at the socket is not an agent of netloom",
        "A process answers at the socket, but not like an agent.",
        "Use the --socket with which the agent was started, or end the process that listens there.",
    ),
    _entry(
        "socket-foreign",
        "another user's process listens at the agent's socket",
        "The plugin only contacts an agent that runs as root, so nothing can be attached. That user could "
        "write to the socket's directory at some time.",
        "`netloom up` starts an agent, which takes over the socket. End the other process, and find out how "
        "that user could write there.",
    ),
    _entry(
        "agent-not-running",
        "no agent answers",
        "No process listens at the agent's socket. Containers keep their networks and can be deleted, but "
        "nothing can be attached.",
        "`netloom up` starts an agent. If an agent should be running, its log shows why it ended.",
    ),
    _entry(
        "agent-of-other-state",
        "the agent uses another state directory",
        "The agent at this socket was started with another state directory. `netloom up` and `netloom down` "
        "do not touch it.",
        "Use the agent's --state-dir, or another --socket. `netloom down --state-dir DIR` stops the agent "
        "whose state is in DIR.",
    ),
    _entry(
        "node-of-another",
        "the host belongs to an agent with another state directory",
        "An agent with another state directory created the nft table on this host, and that agent still "
        "runs, or links of its containers exist. Two agents would not know each other's links and rules. "
        "Nothing was changed.",
        "Use that agent's --state-dir. To use its journal from another directory, stop the agent and put "
        "its journal there with `netloom journal restore`. If its journal is lost, run `netloom up "
        "--adopt`: the containers keep their networks and become orphaned.",
    ),
    _entry(
        "node-unprepared",
        "the node cannot be prepared",
        "Before an agent serves requests, it switches on forwarding and creates its nft table. The kernel "
        "refused.",
        "`netloom doctor` lists what is missing.",
    ),
    _entry(
        "socket-in-use",
        "the socket's path is in use",
        "Another agent answers at the socket, or the path is not a socket.",
        "Follow the message, or use another --socket. `netloom status` shows the running agent.",
    ),
    _entry(
        "journal-in-use",
        "another agent uses the journal",
        "Only one agent can use a journal. A second agent refuses to start, and changes nothing.",
        "`netloom status` shows the running agent. `netloom down` stops it.",
    ),
    _entry(
        "journal-gone",
        "the journal is missing",
        "The state directory had a journal, but its file is missing, so netloom does not know what is "
        "attached. Running containers keep their networks.",
        "If you still have the file, put it back. Otherwise run `netloom down`, restore a copy with "
        "`netloom journal restore FILE` or start with an empty journal, and run `netloom up`. Attachments "
        "that the agent does not know are removed when the runtime deletes their containers.",
    ),
    _entry(
        "journal-older",
        "a newer copy of the journal exists",
        "netloom keeps a copy beside the journal that has later operations than the one to be restored: "
        "journal.db.rescued-1, from a journal that was removed while its agent ran, or journal.db.backup-4, "
        "from before a migration. Nothing was changed.",
        "Restore the newer copy, which the message names, or use --force to restore the older one.",
    ),
    _entry(
        "journal-damaged",
        "the journal is damaged",
        "The file is not a netloom journal, or SQLite can no longer read it.",
        "`netloom journal verify` shows what is damaged. To restore a copy, run `netloom down`, `netloom "
        "journal restore FILE`, `netloom up`. Without a copy, move the file away instead: `netloom up` then "
        "starts with an empty journal. Running containers keep their networks until their runtime deletes "
        "them.",
    ),
    _entry(
        "journal-newer",
        "a later version of netloom wrote the journal",
        "This version does not know the journal's schema. Nothing was changed.",
        "Run the later version, or use another state directory. docs/how-to/upgrade.md describes how to "
        "downgrade.",
    ),
    _entry(
        "journal-not-migrated",
        "the journal cannot be migrated to this version's schema",
        "A step of the migration failed and was rolled back. The file is unchanged, and an agent that "
        "already uses it continues.",
        "`netloom journal verify` shows whether another program has changed the file. If the file is sound, "
        "this is a defect of netloom: keep the running version, and report the defect with the archive that "
        "`netloom bundle` creates.",
    ),
    _entry(
        "journal-unwritable",
        "the journal cannot be written",
        "The disk is full, read-only or broken. A request that needs to change the journal fails without "
        "effect. Attached containers keep working.",
        "Check the disk of the state directory: free space, mount options, and errors in `dmesg`.",
    ),
    _entry(
        "journal-unreadable",
        "the journal cannot be read",
        "Only root may read the journal, its state directory is missing, its disk fails, another process "
        "has locked it, or the path of the journal or of its lock, journal.db.lock, is not a file.",
        "Run the command as root, and use the --state-dir with which the agent was started. netloom only "
        "opens regular files: move anything else away, and put the journal back. The agent creates a "
        "missing lock.",
    ),
    _entry(
        "plugin-not-built",
        "this installation has no plugin",
        "The static plugin is built when netloom is installed, but this installation does not have it.",
        "Install a wheel that has the plugin, or build it with a C compiler: `make setup` in a checkout, or "
        "`pip install .`.",
    ),
    _entry(
        "file-unwritable",
        "a file cannot be written",
        "The command could not write a file or directory.",
        "Check the path in the message: its permissions, its type, and the free space on its disk.",
    ),
    _entry(
        "output-unwritable",
        "standard output cannot be written",
        "Standard output is closed, or its disk is full. A command that makes changes first checks that "
        "standard output is open. Changes that it made before the failure remain.",
        "Free space at the destination, or redirect the output elsewhere.",
    ),
    _entry(
        "network-file-foreign",
        "the network's file was not written by netloom",
        "`netloom up` did not write the network's file, or the file was changed since then, and it differs "
        "from the given options. `netloom up` did not change it.",
        "Change the file, omit the options that differ, or replace the file with --force.",
    ),
    _entry(
        "network-file-unreadable",
        "the network's file cannot be read",
        "What is at the path of the network's file cannot be read.",
        "Correct it or move it away.",
    ),
    _entry(
        "network-renamed",
        "the network has another name",
        "Runtimes delete containers by the name of their network, so `netloom up` does not rename a network "
        "by itself.",
        "Write a separate file for the other name, or rename this network with --force.",
    ),
    _entry(
        "network-unknown",
        "no such network",
        "Nothing is attached to a network of that name, and no such network is configured.",
        "`netloom ls` lists everything that is attached. `netloom status` lists every network of netloom.",
    ),
    _entry(
        "network-unnamed",
        "no network was named",
        "No network was named, and netloom does not have exactly one network to choose.",
        "Name a network. `netloom cni validate` lists the configured networks.",
    ),
    _entry(
        "bundle-exists",
        "the file exists already",
        "The archive would replace an existing file, or the path is a device, a FIFO or a link, which "
        "--force does not replace either. Nothing was written.",
        "Use another name, or --force if the path is a file.",
    ),
    _entry(
        "bundle-unwritable",
        "the archive cannot be written",
        "The archive's file could not be created or written. No part of it remains.",
        "Check the directory's permissions and the free space on its disk, or use another FILE.",
    ),
    _entry(
        "ambiguous-name",
        "an ambiguous name",
        "The name matches several containers, pods or interfaces. Nothing was done.",
        "Use one of the commands in the message: each names exactly one of them. Or use a longer part of "
        "the name, or NETWORK/CONTAINER/INTERFACE.",
    ),
    _entry(
        "not-attached",
        "nothing with that name is attached",
        "No attachment in the journal has that name now. It was detached, or was never attached.",
        "`netloom explain NAME` shows what happened to it. `netloom ls` lists what is attached.",
    ),
    _entry(
        "agent-refused",
        "the agent refused the request",
        "The agent answered that it could not serve the request. The message has the reason.",
        "Read the agent's log, and try again. `netloom status` shows known problems.",
    ),
    _entry(
        "textual-missing",
        "the live view needs Textual",
        "`netloom top` needs Textual, an optional dependency of netloom that is not installed.",
        "Run `pip install 'netloom[top]'` in netloom's environment. `netloom top --json` shows the same "
        "numbers once, without Textual.",
    ),
    _entry(
        "agent-not-replaced",
        "the agent was not replaced",
        "An agent of this version was started as the successor of the running one, but failed. The running "
        "agent continues. The journal, the plugin and the socket are unchanged, and no call failed.",
        "Correct the cause in the new agent's log, whose end is shown, and run `netloom up` again.",
    ),
    _entry(
        "handover-refused",
        "the running agent refused the handover",
        "An agent asked the running agent for its socket, and the running agent refused: it is in another "
        "network namespace, it has another journal, or a service manager decides about its successor. The "
        "running agent continues.",
        "Follow the message. If systemd runs the agent, use `systemctl restart netloom` or `netloom up`.",
    ),
    _entry(
        "handover-withdrawn",
        "the former agent took its socket back",
        "The new agent received the socket but took too long, or the former agent was told to stop in the "
        "meantime.",
        "Read the logs of both agents. `netloom status` shows which one runs now.",
    ),
    _entry(
        "systemd-not-running",
        "systemd does not run on this machine",
        "This machine was not booted with systemd, so systemd cannot run the agent. Nothing was done.",
        "`netloom up` without --systemd starts the agent itself. `netloom up --units-only DIR` writes the "
        "units for another machine.",
    ),
    _entry(
        "systemd-refused",
        "systemd failed",
        "`systemctl` failed. Its output and the last lines of the unit's log are shown.",
        "`systemctl status netloom` and `journalctl -u netloom` show more.",
    ),
    _entry(
        "agent-of-other-unit",
        "another unit runs the agent",
        "The agent belongs to a unit that `netloom up` did not write. Two units would end each other's "
        "agents in turn. Nothing was done.",
        "Run `systemctl disable --now UNIT`, and run the command again. Or keep that unit, and use "
        "--no-agent.",
    ),
    _entry(
        "unit-foreign",
        "the unit was not written by netloom",
        "`netloom up` did not write the unit of that name, or the unit was changed since then. Nothing was "
        "done. Without a record of who wrote it, a unit is netloom's only if it is exactly as this version "
        "writes it.",
        "Put your changes into a drop-in (`systemctl edit netloom.service`), and replace the file with "
        "--force. Or keep the file, and use --no-agent.",
    ),
    _entry(
        "plugin-foreign",
        "the file at the plugin's path is not a netloom plugin",
        "The file at the plugin's path is not a netloom plugin of any version. `netloom up` does nothing in "
        "this case, and `netloom doctor --fix` does not replace the file.",
        "Move the file away, use another --plugin-dir, or replace the file with --force.",
    ),
    _entry(
        "receipt-unreadable",
        "the list of installed files cannot be read",
        "installed.json in the state directory lists the files that `netloom up` wrote. It is damaged, or "
        "what is at its path can be neither read nor replaced. In the second case nothing was done.",
        "Check what is at the path, and move it away. `netloom up` writes a new file.",
    ),
    _entry(
        "file-exists",
        "the file exists already",
        "A copy or an export replaces a file only with --force. Nothing was done.",
        "Use another FILE, or --force.",
    ),
    _entry(
        "import-invalid",
        "the document is not a journal",
        "netloom checks the whole document before it changes anything: its form, its tables, every row, and "
        "references between rows. The message names the first error. Nothing was changed.",
        "Use an unchanged document that `netloom journal export` of this version or an earlier one wrote.",
    ),
    _entry(
        "journal-not-empty",
        "the journal has attachments",
        "An import or a copy would drop these attachments: running containers keep their networks, but the "
        "next agent does not know them. Nothing was changed.",
        "Delete their containers first, or use --force. The present journal is kept beside the new one.",
    ),
)
