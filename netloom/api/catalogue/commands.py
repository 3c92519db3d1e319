"""Errors of commands: why one could not do what it is for."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "command", title, meaning, remedy)


ENTRIES = (
    _entry(
        "usage",
        "called in a way that cannot work",
        "There is no such command or option, an argument is missing, or one has a value that the command "
        "cannot take; so may a variable of the environment. Nothing was done.",
        "`netloom COMMAND --help` shows how it is called, with examples.",
    ),
    _entry(
        "needs-root",
        "only root may",
        "The command reads or changes what only root can.",
        "Run it as root, as with `sudo`.",
    ),
    _entry(
        "not-agreed",
        "nobody said yes",
        "The command asked before it removes something, and the answer was not yes. Nothing was done.",
        "Say yes, or give --yes.",
    ),
    _entry(
        "others-at-work",
        "another `netloom up` or `netloom down` is at work",
        "Two of them would be in each other's way, so they take turns; the other did not end in time.",
        "Wait for it, and try again. If it hangs, `ps` names its process.",
    ),
    _entry(
        "log-unwritable",
        "the agent's log cannot be written",
        "The log of an agent that `netloom up` starts is agent.log in the state directory.",
        "Look at the path: its permissions, and space on its disk; or give another --state-dir.",
    ),
    _entry(
        "agent-ended",
        "the agent ended at once",
        "It was started, and ended before it served. Its last words are shown.",
        "Mend what it says, and run the command again.",
    ),
    _entry(
        "agent-slow",
        "the agent did not answer in time",
        "It was started and runs, but did not serve within --timeout, and was stopped again.",
        "Look at its log, or give it more time with --timeout.",
    ),
    _entry(
        "agent-elsewhere",
        "the agent listens elsewhere",
        "A process has the journal, and nobody answers at the socket that was given.",
        "Give the --socket that it was started with, or stop it with `netloom down`.",
    ),
    _entry(
        "agent-halted",
        "the agent's process is stopped",
        "Somebody sent it SIGSTOP, or a debugger holds it. It neither answers nor ends.",
        "`kill -CONT PROCESS` lets it go on. `kill -9 PROCESS` ends it: the next agent finishes or undoes "
        "what it was doing.",
    ),
    _entry(
        "agent-not-ending",
        "the agent does not end",
        "It was told to stop, and is still there after --timeout.",
        "Look at its log. `kill -9 PROCESS` ends it: the next agent finishes or undoes what it was doing.",
    ),
    _entry(
        "agent-unproven",
        "it could not be proved to be our agent",
        "Something listens at the socket that gives no answer of an agent, and does not have the journal. It "
        "was left alone.",
        "Give the --state-dir and --socket that the agent was started with.",
    ),
    _entry(
        "agent-unseen",
        "the agent runs where it cannot be seen",
        "It answers, and its process is in another PID namespace, as in a container.",
        "Stop it where it was started: in its container, or with its service manager.",
    ),
    _entry(
        "agent-silent",
        "the agent does not answer",
        "Its process runs and listens, and gives no answer: stopped, stuck, or very busy.",
        "The message says what is known of its process. `kill -9 PROCESS` ends it, `netloom up` starts "
        "another, which finishes or undoes what this one was doing; containers keep their networks.",
    ),
    _entry(
        "agent-strange",
        "what listens there is no agent of netloom",
        "Somebody answers at the socket, and not as an agent does.",
        "Give the --socket that the agent was started with, or end what listens there.",
    ),
    _entry(
        "socket-foreign",
        "a process of another user listens in the agent's place",
        "The plugin asks only an agent of root's, so nothing can be attached. The user could write to the "
        "socket's directory at some time.",
        "`netloom up` starts an agent, which takes the place. End the process, and find out how that user "
        "could write there.",
    ),
    _entry(
        "agent-not-running",
        "no agent answers",
        "Nobody listens at the agent's socket. Containers keep their networks, and can be deleted; nothing "
        "can be attached.",
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
        "The nft table on this host was laid down by an agent that keeps its state elsewhere, and links of "
        "its containers are there, or it runs. Two agents would take each other's links and rules for "
        "nobody's. Nothing was changed.",
        "Give that agent's --state-dir. To go on from another directory with its journal, stop it, and put "
        "its journal there with `netloom journal restore`. Without its journal, `netloom up --adopt`: its "
        "containers keep their networks and become orphaned.",
    ),
    _entry(
        "node-unprepared",
        "the node cannot be prepared",
        "Before an agent serves, it makes the host forward and lays down its nft table; the kernel refused.",
        "`netloom doctor` lists what is missing.",
    ),
    _entry(
        "socket-in-use",
        "the socket's place is taken",
        "Another agent answers at the socket, or something that is no socket is in its place.",
        "Do as the message says, or give another --socket; `netloom status` tells who runs.",
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
        "There was a journal in the state directory, and its file is not there any more: what is attached is "
        "unknown. Containers that run keep their networks.",
        "Put the same file back if you have it. Else `netloom down`, put a copy back with `netloom journal "
        "restore FILE` or begin with an empty one, `netloom up`. What the agent does not know then goes when "
        "its runtime deletes the container.",
    ),
    _entry(
        "journal-older",
        "a newer copy of the journal is there",
        "netloom has kept a copy beside the journal that knows of later operations than the one that was to "
        "be restored: journal.db.rescued-1, of a journal that was removed while its agent ran, or "
        "journal.db.backup-4, from before a migration. Nothing was changed.",
        "Restore the newer one, which the message names; or give --force, if the older one is meant.",
    ),
    _entry(
        "journal-damaged",
        "the journal is damaged",
        "The file is no journal of netloom, or SQLite cannot read it any more.",
        "`netloom journal verify` says what is wrong. Put a copy back: `netloom down`, `netloom journal "
        "restore FILE`, `netloom up`. Without a copy, move the file away instead, and `netloom up` begins "
        "with an empty one; containers that run keep their networks, which go when their runtime deletes "
        "them.",
    ),
    _entry(
        "journal-newer",
        "a later netloom wrote the journal",
        "Its schema is newer than this netloom can work with. Nothing was changed.",
        "Run that later version, or give another state directory; docs/how-to/upgrade.md tells how to go "
        "back.",
    ),
    _entry(
        "journal-not-migrated",
        "the journal cannot be given this version's schema",
        "A step of the migration failed; each is whole or did not happen, and the file is as it was. An "
        "agent that runs with it goes on.",
        "`netloom journal verify` tells whether somebody has changed the file. If it is sound, this is a "
        "defect of netloom: stay with the version that runs, and report it with what `netloom bundle` packs.",
    ),
    _entry(
        "journal-unwritable",
        "the journal cannot be written",
        "The disk is full, read-only or broken. A request that would need a change fails, and nothing of it "
        "happens; what is attached works on.",
        "Look at the disk of the state directory: space, mount, errors in `dmesg`.",
    ),
    _entry(
        "journal-unreadable",
        "the journal cannot be read",
        "Only root may read it, its state directory is not there, its disk fails, somebody has locked it, "
        "or something else than a file is at its path or at that of its lock, journal.db.lock.",
        "Run it as root, and give the --state-dir that the agent was started with. What is no file is not "
        "opened: move it away, and put the journal back; a lock is made anew.",
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
        "A file or directory that the command has to write could not be.",
        "Look at the path that the message names: its permissions, what is in its place, and space on its "
        "disk.",
    ),
    _entry(
        "output-unwritable",
        "standard output cannot be written",
        "It is closed, or what it goes to is full. A command that changes something looks whether it is open "
        "before it begins; what it has done by then is done.",
        "Make room where it goes, or let it go elsewhere.",
    ),
    _entry(
        "network-file-foreign",
        "somebody else's file is in the network's place",
        "The network's file was not written by `netloom up`, or was changed since, and differs from what was "
        "asked for. It was left alone.",
        "Change that file, leave out the options that differ, or replace it with --force.",
    ),
    _entry(
        "network-file-unreadable",
        "the network's file cannot be read",
        "Something is in the place of the network's file that cannot be read.",
        "Mend it or move it away.",
    ),
    _entry(
        "network-renamed",
        "a network that has another name",
        "Containers are deleted by the name of their network, so `netloom up` does not rename one by itself.",
        "Write a file of its own for the other name, or rename this one with --force.",
    ),
    _entry(
        "network-unknown",
        "no such network",
        "Nothing is attached to a network of that name, and none is configured.",
        "`netloom ls` lists everything that is attached, `netloom status` every network of netloom.",
    ),
    _entry(
        "network-unnamed",
        "which network?",
        "No network was named, and there is not exactly one of netloom's that could be meant.",
        "Name one; `netloom cni validate` lists those that are configured.",
    ),
    _entry(
        "bundle-exists",
        "a file of that name is there",
        "The archive would take the place of a file that is there already; or of a device, a FIFO or a link, "
        "which --force does not replace either. Nothing was written.",
        "Give another name, or --force if it is a file.",
    ),
    _entry(
        "bundle-unwritable",
        "the archive cannot be written",
        "The archive's file could not be made or filled. Nothing of it is left.",
        "Look at the directory: its permissions, and space on its disk; or give another FILE.",
    ),
    _entry(
        "ambiguous-name",
        "a name that several have",
        "What was given names several containers, pods or interfaces. Nothing was done.",
        "Take one of the commands that the message lists: each means one of them. Or give more of the name, "
        "or NETWORK/CONTAINER/INTERFACE.",
    ),
    _entry(
        "not-attached",
        "nothing of that name is attached",
        "No attachment of the journal has that name now. It may have been detached, or never was attached.",
        "`netloom explain NAME` tells what became of it; `netloom ls` lists what is attached.",
    ),
    _entry(
        "agent-refused",
        "the agent refused",
        "It answered that it could not do what it was asked for; the message has its words.",
        "Look at its log, and try again; `netloom status` tells what it knows to be wrong.",
    ),
    _entry(
        "textual-missing",
        "the live view needs Textual",
        "`netloom top` draws with Textual, which is an extra of netloom's and not installed.",
        "`pip install 'netloom[top]'`, into the environment that netloom is in. `netloom top --json` shows "
        "the same numbers once, without it.",
    ),
    _entry(
        "agent-not-replaced",
        "the agent was not replaced",
        "An agent of this version was started to follow the one that runs, and could not. The one "
        "that ran goes "
        "on; the journal, the plugin and the socket are as they were, and no call has failed.",
        "Do as the new agent's last words say, which are shown, and run `netloom up` again.",
    ),
    _entry(
        "handover-refused",
        "the agent that runs does not hand over",
        "An agent asked the one that runs for its socket, and was refused: it lives in another "
        "network namespace, "
        "has another journal, or a service manager decides who follows. The one that runs goes on.",
        "Do as the message says. Where systemd runs the agent: `systemctl restart netloom`, or `netloom up`.",
    ),
    _entry(
        "handover-withdrawn",
        "the agent that ran has taken its socket back",
        "The new agent was given the socket, and took too long, or the other was told to stop meanwhile.",
        "Look at the logs of both. `netloom status` tells who runs now.",
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
        "systemd did not do what it was asked for",
        "`systemctl` failed; its words, and the last lines of the unit's log, are shown.",
        "`systemctl status netloom` and `journalctl -u netloom` tell more.",
    ),
    _entry(
        "agent-of-other-unit",
        "another unit runs the agent",
        "The agent belongs to a unit that `netloom up` did not write. Two of them would take turns "
        "in ending each "
        "other's. Nothing was done.",
        "`systemctl disable --now UNIT`, and again; or leave it so, and give --no-agent.",
    ),
    _entry(
        "unit-foreign",
        "the unit is somebody else's",
        "A unit of that name is there which `netloom up` did not write, or which was changed since. Nothing "
        "was done. Where it is not written down who wrote it, what is to the letter as this version writes "
        "it is netloom's.",
        "Put what you need into a drop-in (`systemctl edit netloom.service`), and replace the file with "
        "--force; or keep it, and give --no-agent.",
    ),
    _entry(
        "plugin-foreign",
        "somebody else's file is in the plugin's place",
        "Where the plugin is to be installed there is a file of its name that is no plugin of netloom, of "
        "whatever version. `netloom up` does nothing then, and `netloom doctor --fix` leaves it alone.",
        "Move it away, give another --plugin-dir, or replace it with --force.",
    ),
    _entry(
        "receipt-unreadable",
        "what was installed cannot be read",
        "installed.json in the state directory has the files that `netloom up` wrote. It is damaged, or "
        "something is in its place that can be neither read nor replaced; then nothing was done.",
        "Look at what is there, and move it away; `netloom up` writes a new one.",
    ),
    _entry(
        "file-exists",
        "the file is there already",
        "A copy or an export replaces no file unless it is told to. Nothing was done.",
        "Give another FILE, or --force.",
    ),
    _entry(
        "import-invalid",
        "the document is no journal",
        "It was judged as a whole before anything was changed: its form, its tables, every row, and "
        "what rows say "
        "of each other. The message has the first thing that is wrong. Nothing was changed.",
        "Give a document that `netloom journal export` wrote, as it wrote it, and of this version or "
        "an earlier one.",
    ),
    _entry(
        "journal-not-empty",
        "the journal has attachments",
        "An import or a copy would forget them: containers that run keep their networks, and the next agent "
        "does not know "
        "whose they are. Nothing was changed.",
        "Delete their containers first, or give --force; the journal that was there is kept beside "
        "the new one.",
    ),
)
