"""Errors of commands: why one could not do what it is for."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "command", title, meaning, remedy)


ENTRIES = (
    _entry(
        "usage",
        "invalid arguments",
        "There is no such command or option, an argument is missing, or an argument or a variable of the "
        "environment has an invalid value. Nothing was done.",
        "`netloom COMMAND --help` shows how to call it, with examples.",
    ),
    _entry(
        "needs-root",
        "root is required",
        "The command reads or changes what only root can.",
        "Run it as root, for example with `sudo`.",
    ),
    _entry(
        "not-agreed",
        "not confirmed",
        "The command asked before it removes something, and the answer was not yes. Nothing was done.",
        "Answer yes, or give --yes.",
    ),
    _entry(
        "others-at-work",
        "another `netloom up` or `netloom down` is running",
        "Only one of them runs at a time, and the other did not end in time.",
        "Wait for it, and try again. If it hangs, `ps` shows its process.",
    ),
    _entry(
        "log-unwritable",
        "the agent's log cannot be written",
        "The log of an agent that `netloom up` starts is agent.log in the state directory.",
        "Check the path: its permissions, and the space on its disk; or give another --state-dir.",
    ),
    _entry(
        "agent-ended",
        "the agent ended at once",
        "It was started, and ended before it served requests. The end of its log is shown.",
        "Correct what the log says, and run the command again.",
    ),
    _entry(
        "agent-slow",
        "the agent did not answer in time",
        "It was started and runs, but did not serve requests within --timeout, and was stopped again.",
        "Read its log, or give it more time with --timeout.",
    ),
    _entry(
        "agent-elsewhere",
        "the agent listens elsewhere",
        "A process has the journal, but no agent answers at the given socket.",
        "Give the --socket that it was started with, or stop it with `netloom down`.",
    ),
    _entry(
        "agent-halted",
        "the agent's process is stopped",
        "It received SIGSTOP, or a debugger holds it. It neither answers nor ends.",
        "`kill -CONT PROCESS` lets it continue. `kill -9 PROCESS` ends it: the next agent finishes or "
        "undoes what it was doing.",
    ),
    _entry(
        "agent-not-ending",
        "the agent does not end",
        "It was told to stop, and still runs after --timeout.",
        "Read its log. `kill -9 PROCESS` ends it: the next agent finishes or undoes what it was doing.",
    ),
    _entry(
        "agent-unproven",
        "the process is not known to be our agent",
        "The process that listens at the socket does not answer as an agent, and does not have the journal."
        " It was left alone.",
        "Give the --state-dir and --socket that the agent was started with.",
    ),
    _entry(
        "agent-unseen",
        "the agent runs in another PID namespace",
        "It answers, but its process is in another PID namespace, as in a container.",
        "Stop it where it was started: in its container, or with its service manager.",
    ),
    _entry(
        "agent-silent",
        "the agent does not answer",
        "Its process runs and listens, and does not answer: it is stopped, stuck, or very busy.",
        "The message says what is known about its process. `kill -9 PROCESS` ends it, `netloom up` starts "
        "another, which finishes or undoes what this one was doing; containers keep their networks.",
    ),
    _entry(
        "agent-strange",
        "the process at the socket is not an agent of netloom",
        "A process answers at the socket, but not as an agent does.",
        "Give the --socket that the agent was started with, or end the process that listens there.",
    ),
    _entry(
        "socket-foreign",
        "a process of another user listens in the agent's place",
        "The plugin asks only an agent of root, so nothing can be attached. That user was able to write to "
        "the socket's directory at some time.",
        "`netloom up` starts an agent, which takes the socket over. End the process, and find out how that "
        "user could write there.",
    ),
    _entry(
        "agent-not-running",
        "no agent answers",
        "No process listens at the agent's socket. Containers keep their networks, and can be deleted; "
        "nothing can be attached.",
        "`netloom up` starts an agent. If one should run already, its log says why it ended.",
    ),
    _entry(
        "agent-of-other-state",
        "the agent has its state elsewhere",
        "The agent at this socket was started with another state directory. `netloom up` and `netloom down` "
        "leave it as it is.",
        "Give its --state-dir, or another --socket. `netloom down --state-dir DIR` stops the agent with its "
        "state in DIR.",
    ),
    _entry(
        "node-of-another",
        "the host belongs to an agent with another state directory",
        "An agent that keeps its state elsewhere laid down the nft table on this host, and links of its "
        "containers are there, or it runs. Two agents would not know each other's links and rules. Nothing "
        "was changed.",
        "Give that agent's --state-dir. To use its journal from another directory, stop it, and put its "
        "journal there with `netloom journal restore`. Without its journal, `netloom up --adopt`: its "
        "containers keep their networks and become orphaned.",
    ),
    _entry(
        "node-unprepared",
        "the node cannot be prepared",
        "Before an agent serves requests, it switches on forwarding and lays down its nft table; the kernel"
        " refused.",
        "`netloom doctor` lists what is missing.",
    ),
    _entry(
        "socket-in-use",
        "the socket's path is in use",
        "Another agent answers at the socket, or the path is not a socket.",
        "Do what the message says, or give another --socket; `netloom status` shows the agent that runs.",
    ),
    _entry(
        "journal-in-use",
        "another agent has the journal",
        "One journal has one agent; the second refuses to start, and changes nothing.",
        "`netloom status` shows the agent that runs; `netloom down` stops it.",
    ),
    _entry(
        "journal-gone",
        "the journal is gone",
        "There was a journal in the state directory, and its file is missing: what is attached is unknown. "
        "Running containers keep their networks.",
        "Put the same file back if you have it. Otherwise `netloom down`, put a copy back with `netloom "
        "journal restore FILE` or start with an empty one, `netloom up`. Networks that the agent does not "
        "know are removed when their runtime deletes the container.",
    ),
    _entry(
        "journal-older",
        "a newer copy of the journal is there",
        "netloom has kept a copy beside the journal that knows later operations than the one to be "
        "restored: journal.db.rescued-1, from a journal that was removed while its agent ran, or "
        "journal.db.backup-4, from before a migration. Nothing was changed.",
        "Restore the newer one, which the message names; or give --force to restore the older one.",
    ),
    _entry(
        "journal-damaged",
        "the journal is damaged",
        "The file is not a journal of netloom, or SQLite cannot read it any more.",
        "`netloom journal verify` says what is wrong. Put a copy back: `netloom down`, `netloom journal "
        "restore FILE`, `netloom up`. Without a copy, move the file away instead, and `netloom up` starts "
        "with an empty one; running containers keep their networks until their runtime deletes them.",
    ),
    _entry(
        "journal-newer",
        "a later netloom wrote the journal",
        "This netloom does not know its schema. Nothing was changed.",
        "Run that later version, or give another state directory; docs/how-to/upgrade.md tells how to go "
        "back.",
    ),
    _entry(
        "journal-not-migrated",
        "the journal cannot be migrated to this version's schema",
        "A step of the migration failed and was rolled back; the file is as it was. An agent that runs with"
        " it continues.",
        "`netloom journal verify` tells whether another program has changed the file. If it is sound, this "
        "is a defect of netloom: stay with the version that runs, and report it with the archive that "
        "`netloom bundle` makes.",
    ),
    _entry(
        "journal-unwritable",
        "the journal cannot be written",
        "The disk is full, read-only or broken. A request that needs a change fails, and nothing of it "
        "happens; attached containers keep working.",
        "Check the disk of the state directory: space, mount, errors in `dmesg`.",
    ),
    _entry(
        "journal-unreadable",
        "the journal cannot be read",
        "Only root may read it, its state directory is missing, its disk fails, another process has locked "
        "it, or its path or that of its lock, journal.db.lock, is not a file.",
        "Run the command as root, and give the --state-dir that the agent was started with. netloom opens "
        "regular files only: move anything else away, and put the journal back; the agent creates a missing"
        " lock.",
    ),
    _entry(
        "plugin-not-built",
        "this installation has no plugin",
        "The static plugin is built when netloom is installed, and is not there.",
        "Install a wheel that has it, or build it with a C compiler: `make setup` in a checkout, or "
        "`pip install .`.",
    ),
    _entry(
        "file-unwritable",
        "a file cannot be written",
        "A file or directory that the command has to write could not be written.",
        "Check the path that the message names: its permissions, its type, and the space on its disk.",
    ),
    _entry(
        "output-unwritable",
        "standard output cannot be written",
        "It is closed, or its disk is full. A command that changes something checks that it is open before "
        "it begins; what was done before the failure stays done.",
        "Free space at the destination, or redirect the output elsewhere.",
    ),
    _entry(
        "network-file-foreign",
        "the network's file is not netloom's",
        "The network's file was not written by `netloom up`, or was changed since, and differs from the "
        "given options. It was left alone.",
        "Change that file, omit the options that differ, or replace it with --force.",
    ),
    _entry(
        "network-file-unreadable",
        "the network's file cannot be read",
        "The path of the network's file has something that cannot be read.",
        "Correct it or move it away.",
    ),
    _entry(
        "network-renamed",
        "the network has another name",
        "Containers are deleted by the name of their network, so `netloom up` does not rename one by itself.",
        "Write a file of its own for the other name, or rename this one with --force.",
    ),
    _entry(
        "network-unknown",
        "no such network",
        "Nothing is attached to a network of that name, and no such network is configured.",
        "`netloom ls` lists everything that is attached, `netloom status` every network of netloom.",
    ),
    _entry(
        "network-unnamed",
        "no network was named",
        "No network was named, and netloom does not have exactly one that could be meant.",
        "Name one; `netloom cni validate` lists those that are configured.",
    ),
    _entry(
        "bundle-exists",
        "the file exists already",
        "The archive would replace a file; or a device, a FIFO or a link, which --force does not replace "
        "either. Nothing was written.",
        "Give another name, or --force if it is a file.",
    ),
    _entry(
        "bundle-unwritable",
        "the archive cannot be written",
        "The archive's file could not be created or written. Nothing of it is left.",
        "Check the directory: its permissions, and the space on its disk; or give another FILE.",
    ),
    _entry(
        "ambiguous-name",
        "an ambiguous name",
        "The given name matches several containers, pods or interfaces. Nothing was done.",
        "Use one of the commands that the message lists: each means one of them. Or give more of the name, "
        "or NETWORK/CONTAINER/INTERFACE.",
    ),
    _entry(
        "not-attached",
        "nothing of that name is attached",
        "No attachment in the journal has that name now. It may have been detached, or was never attached.",
        "`netloom explain NAME` tells what happened to it; `netloom ls` lists what is attached.",
    ),
    _entry(
        "agent-refused",
        "the agent refused",
        "The agent answered that it could not do it; the message has the reason.",
        "Read its log, and try again; `netloom status` shows known problems.",
    ),
    _entry(
        "textual-missing",
        "the live view needs Textual",
        "`netloom top` draws with Textual, which is an extra of netloom and not installed.",
        "`pip install 'netloom[top]'` in the environment of netloom. `netloom top --json` shows the same "
        "numbers once, without Textual.",
    ),
    _entry(
        "agent-not-replaced",
        "the agent was not replaced",
        "An agent of this version was started as the successor of the one that runs, and failed. The "
        "running agent continues; the journal, the plugin and the socket are as they were, and no call has "
        "failed.",
        "Do what the new agent's log says, the end of which is shown, and run `netloom up` again.",
    ),
    _entry(
        "handover-refused",
        "the running agent does not hand over",
        "An agent asked the running one for its socket, and was refused: that one is in another network "
        "namespace, has another journal, or a service manager decides about its successor. The running "
        "agent continues.",
        "Do what the message says. Where systemd runs the agent: `systemctl restart netloom`, or `netloom "
        "up`.",
    ),
    _entry(
        "handover-withdrawn",
        "the former agent took its socket back",
        "The new agent got the socket, and took too long, or the other was told to stop meanwhile.",
        "Read the logs of both. `netloom status` shows which one runs now.",
    ),
    _entry(
        "systemd-not-running",
        "systemd does not run here",
        "This machine was not booted with systemd, so that it cannot run the agent. Nothing was done.",
        "`netloom up` without --systemd starts the agent itself. `netloom up --units-only DIR` "
        "writes the units "
        "for another machine.",
    ),
    _entry(
        "systemd-refused",
        "systemd failed",
        "`systemctl` failed; its output, and the last lines of the unit's log, are shown.",
        "`systemctl status netloom` and `journalctl -u netloom` tell more.",
    ),
    _entry(
        "agent-of-other-unit",
        "another unit runs the agent",
        "The agent belongs to a unit that `netloom up` did not write. Two units would end each other's "
        "agents in turn. Nothing was done.",
        "`systemctl disable --now UNIT`, and run the command again; or keep that unit, and give --no-agent.",
    ),
    _entry(
        "unit-foreign",
        "the unit is not netloom's",
        "`netloom up` did not write the unit of that name, or it was changed since. Nothing was done. "
        "Without a record of its author, a unit is netloom's if it is exactly as this version writes it.",
        "Put what you need into a drop-in (`systemctl edit netloom.service`), and replace the file with "
        "--force; or keep it, and give --no-agent.",
    ),
    _entry(
        "plugin-foreign",
        "the file at the plugin's path is not netloom's",
        "The plugin's path has a file that is not a plugin of netloom of any version. `netloom up` does "
        "nothing then, and `netloom doctor --fix` leaves it alone.",
        "Move it away, give another --plugin-dir, or replace it with --force.",
    ),
    _entry(
        "receipt-unreadable",
        "the list of installed files cannot be read",
        "installed.json in the state directory lists the files that `netloom up` wrote. It is damaged, or "
        "its path has something that can be neither read nor replaced; then nothing was done.",
        "Check what is there, and move it away; `netloom up` writes a new one.",
    ),
    _entry(
        "file-exists",
        "the file exists already",
        "A copy or an export replaces no file without --force. Nothing was done.",
        "Give another FILE, or --force.",
    ),
    _entry(
        "import-invalid",
        "the document is not a journal",
        "The whole document was checked before anything was changed: its form, its tables, every row, and "
        "references between rows. The message names the first error. Nothing was changed.",
        "Give an unchanged document that `netloom journal export` wrote, of this version or an earlier one.",
    ),
    _entry(
        "journal-not-empty",
        "the journal has attachments",
        "An import or a copy would forget them: running containers keep their networks, and the next agent "
        "does not know them. Nothing was changed.",
        "Delete their containers first, or give --force; the present journal is kept beside the new one.",
    ),
)
