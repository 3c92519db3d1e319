"""Findings about attachments: their objects, their requests, and what their containers reach."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "finding", title, meaning, remedy)


_BY_ITSELF = "A running agent repairs it within a minute; `netloom up` starts one."
_DEFECT = (
    "This is a defect of netloom: please report it, with the archive that `netloom bundle` makes. "
    "Detaching and attaching corrects the attachment."
)

ENTRIES = (
    # Attachments.
    _entry(
        "netns-stale",
        "an attachment's namespace is gone",
        "The container's network namespace does not exist any more, and the runtime sent no DEL. Its "
        "addresses are still held.",
        "A running agent releases it half a minute after the namespace is gone; `netloom gc` does it at "
        "once.",
    ),
    _entry(
        "netns-busy",
        "a deleted namespace is still in use",
        "The container is deleted, but its namespace lives on, because a process runs in it, has it open, "
        "or it is mounted elsewhere. Its links stay until the namespace is gone.",
        "End or restart the processes that the message names.",
    ),
    _entry(
        "object-missing",
        "a part of an attachment is missing",
        "A link, an address, a route or an element of the firewall that the attachment is made of is not in "
        "the kernel.",
        _BY_ITSELF + " `netloom check --repair` does it at once. If its interface was renamed or moved, "
        "`--recreate` beside it makes the link again and ends its connections.",
    ),
    _entry(
        "object-changed",
        "a part of an attachment was changed",
        "An object is not as netloom made it. A running agent leaves it so, since an operator may have "
        "changed it on purpose.",
        "`netloom check --repair` restores it; or change it back by hand. If its interface was renamed or "
        "moved, add `--recreate`, which makes the link again and ends its connections.",
    ),
    _entry(
        "address-foreign",
        "an address that netloom did not give",
        "A container's link has an address that is in no plan: it was added by hand. The firewall drops "
        "packets from it, since only the attachment's own addresses may pass, and IPAM may give it to "
        "another container.",
        "Remove it with the command that the message has, or request it in the ADD.",
    ),
    _entry(
        "packets-refused",
        "a container sends packets that it may not send",
        "The node's table has dropped packets of a container in the last ten minutes. Their source was not "
        "one of its addresses, or they were router advertisements, redirects, or for an address that no "
        "host has. `netloom inspect` counts those of the last day.",
        "See what it sends with the command that the message has. An address that was added by hand is one "
        "cause: `netloom doctor --only addresses` lists those.",
    ),
    _entry(
        "table-broken",
        "netloom's nft table is incomplete",
        "Chains, rules or elements of the table are missing or changed, as after `nft flush ruleset`. Its "
        "protection and translation do not work until it is restored.",
        "A running agent restores it within a second; `netloom up` starts one.",
    ),
    _entry(
        "attachment-unfinished",
        "an attachment is half made or half gone",
        "An operation was interrupted. The attachment is neither in use nor lost.",
        _BY_ITSELF,
    ),
    _entry(
        "mode-unknown",
        "an attachment has a mode that this version does not know",
        "A later version of netloom attached it. The attachment keeps working. The agent repairs what its "
        "plan says, and DEL removes that; if the plan cannot be read either, DEL fails and nothing is lost.",
        "Run the version of netloom that made it, or a later one.",
    ),
    _entry(
        "plan-unreadable",
        "an attachment's plan cannot be read",
        "The journal's row has a later version or is damaged. The attachment keeps working, and can only be"
        " deleted.",
        "Delete its container; `netloom ls --wide` shows its names.",
    ),
    _entry(
        "result-unreadable",
        "an attachment's result cannot be read",
        "The journal's row has a later version or is damaged. The attachment keeps working. A repeated ADD "
        "makes it again, and CHECK fails.",
        "Delete its container; `netloom ls --wide` shows its names.",
    ),
    _entry(
        "operation-unreadable",
        "a row of the log cannot be read",
        "The timing of an operation is lost. Nothing else depends on it.",
        "Nothing to do: the log drops its oldest rows by itself.",
    ),
    _entry(
        "attachment-addressless",
        "an attachment has no address",
        "netloom writes both in one transaction, so another program has changed the journal.",
        "Delete its container, and create it again.",
    ),
    _entry(
        "journal-tables",
        "a table or a column of the journal is missing",
        "The file is a journal, but does not match its schema: another program has changed it.",
        "`netloom down`, put a copy back (`journal.db.backup-N` beside it is one) or move it away, "
        "`netloom up`.",
    ),
    _entry(
        "journal-dangling",
        "a row of the journal names a missing row",
        "An address or a port is held by an attachment that does not exist: another program has changed the"
        " journal.",
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
        "Delete that container with its runtime: that removes the link, too. If no container uses it, "
        "remove it with the command that the message has.",
    ),
    _entry(
        "journal-restorable",
        "a copy of the journal knows more than the journal",
        "There are links of netloom that are not in the journal, and a copy that netloom kept beside it "
        "knows them: the journal was lost and started again, or an older copy was restored.",
        "Put that copy back: `netloom down`, `netloom journal restore FILE`, `netloom up`. The message has "
        "the commands. If the journal has attachments that the copy lacks, delete their containers first.",
    ),
    _entry(
        "orphan-incomplete",
        "a container outside the journal may have lost services",
        "The journal was lost, and the nft table had been flushed or changed before an agent could read it."
        " The container keeps its link and its addresses. Its masquerade, isolation or host ports, as the "
        "message lists them, are lost.",
        "Delete that container with its runtime and create it again. If you have a copy of the journal that "
        "knows it, put that back: `netloom down`, `netloom journal restore FILE`, `netloom up`.",
    ),
    _entry(
        "element-orphaned",
        "an element of the firewall belongs to no attachment",
        "The table has an element or a chain that no attachment has.",
        "The agent removes it at its next start, unless its link is there.",
    ),
    _entry(
        "address-inconsistent",
        "journal and plan do not agree on an address",
        "The journal and a plan name different attachments for the same address.",
        _DEFECT,
    ),
    _entry(
        "address-twice",
        "two attachments have one address or link",
        "Two attachments' plans have the same address or host link.",
        _DEFECT,
    ),
    _entry(
        "address-orphaned",
        "an address without an attachment",
        "The journal holds an address for an attachment that does not exist.",
        _DEFECT,
    ),
    _entry(
        "port-inconsistent",
        "journal and plan do not agree on a host port",
        "The journal and a plan name different attachments for the same host port.",
        _DEFECT,
    ),
    _entry(
        "pool-miscounted",
        "a pool's numbers do not add up",
        "Free, held and resting addresses do not add up to the size of the pool.",
        _DEFECT,
    ),
    # Requests.
    _entry(
        "never-asked",
        "no ADD was seen for this container",
        "The journal has no operation with this name: the runtime has not asked netloom to attach it.",
        "Check which network the runtime uses: the message names the file that it finds first, if there is "
        "one. Read the runtime's own log; make sure that CNI is switched on in it.",
    ),
    _entry(
        "add-failed",
        "the last ADD failed",
        "The runtime asked for an attachment, and netloom could not make it; the message has the reason.",
        "Do what the error's own page says: `netloom explain CODE` with the code of the message.",
    ),
    _entry(
        "del-failed",
        "the last DEL failed",
        "The runtime asked to delete an attachment, and netloom could not; it will ask again.",
        "Do what the error's own page says: `netloom explain CODE` with the code of the message.",
    ),
    # Connectivity, as `netloom connectivity` finds it out by trying.
    _entry(
        "no-answer",
        "no answer, and the cause is unknown",
        "Links, routes, forwarding and other firewalls were checked, and nothing there explains the missing"
        " answer.",
        "`netloom doctor` checks the node as a whole. `netloom connectivity --keep` leaves the two "
        "containers, so that `tcpdump` on the host's end of their links shows how far a packet comes.",
    ),
    _entry(
        "route-missing",
        "a route is missing",
        "The container has no route to its destination, or the host has no route to the container, so that "
        "packets take another way or are dropped.",
        "A running agent restores routes of the host within a second, and those in containers within a "
        "minute; `netloom check --repair` does it at once. If one disappears again and again, another "
        "program removes it: `netloom doctor` looks for the usual ones.",
    ),
    _entry(
        "path-narrow",
        "the path takes smaller packets than the link",
        "Small packets pass, and one that fills the sender's link does not: the two ends of a link have "
        "different MTUs, or a link on the path has a smaller one. Connections open, and hang on large "
        "transfers.",
        "Make the MTUs of both ends of the link equal. netloom sets them equal, so another program has "
        "changed one. The message names the link if it is on this host.",
    ),
    _entry(
        "spoofing-passes",
        "a packet with a forged address arrived",
        "A container could send with a source address that is not its own. The rules of netloom's table "
        "that prevent that are not in force.",
        "`netloom doctor` compares the table with what it should be; a running agent restores it within a "
        "second.",
    ),
    _entry(
        "isolation-leaks",
        "containers that are kept apart reach each other",
        "The network's `isolation` is `containers`, and one container's packets arrive at another.",
        "`netloom doctor` compares the table with what it should be. Only traffic to host ports, and "
        "answers, may pass.",
    ),
    _entry(
        "limit-missed",
        "the measured rate is not the limit",
        "Traffic is faster than the limit allows, or much slower: the queue on the host's end of the link "
        "is missing or was replaced, or the machine was too busy to reach the limit.",
        "Measure again while the machine is quiet. `netloom check` compares the queues with the plan, `tc "
        "qdisc show` lists them.",
    ),
    _entry(
        "no-masquerade",
        "the gateway may have no route back",
        "The network does not masquerade outgoing traffic, and the next router did not answer: it may have "
        "no route to the pools.",
        "`netloom up --masquerade`, or `ipMasq` in the network's file; or a route to the pools by this host"
        " on the gateway.",
    ),
)
