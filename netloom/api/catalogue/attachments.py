"""Findings about attachments: their kernel objects, their requests, and their connectivity."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "finding", title, meaning, remedy)


_REPAIRED = "A running agent repairs this within a minute. `netloom up` starts an agent."
_DEFECT = (
    "This is a defect of netloom: please report it, with the archive that `netloom bundle` creates. "
    "To correct the attachment, detach it and attach it again."
)

ENTRIES = (
    # Attachments.
    _entry(
        "netns-stale",
        "an attachment's network namespace no longer exists",
        "The container's network namespace no longer exists, but the runtime sent no DEL. The attachment "
        "still holds its addresses.",
        "A running agent releases the attachment half a minute after the namespace was deleted. `netloom "
        "gc` releases it at once.",
    ),
    _entry(
        "netns-busy",
        "a deleted namespace is still in use",
        "The container was deleted, but its network namespace still exists: a process runs in it, a process "
        "has it open, or it is mounted elsewhere. The container's links stay until the namespace is deleted.",
        "End or restart the processes that the message names.",
    ),
    _entry(
        "object-missing",
        "a kernel object of an attachment is missing",
        "A link, an address, a route or a firewall element of the attachment is missing in the kernel.",
        _REPAIRED
        + " `netloom check --repair` repairs it at once. If the interface was renamed or moved, add "
        "`--recreate`: it creates the link again, which ends the container's connections.",
    ),
    _entry(
        "object-changed",
        "a kernel object of an attachment was changed",
        "An object differs from what netloom created. A running agent does not change it back, since an "
        "operator may have changed it on purpose.",
        "`netloom check --repair` restores it, or change it back by hand. If the interface was renamed or "
        "moved, add `--recreate`: it creates the link again, which ends the container's connections.",
    ),
    _entry(
        "address-foreign",
        "an address that netloom did not assign",
        "A container's link has an address that is in no plan: it was added by hand. The firewall drops "
        "packets from this address, since a container may only send from the addresses of its attachment. "
        "IPAM may assign the address to another container.",
        "Remove the address with the command in the message, or request it in the ADD.",
    ),
    _entry(
        "packets-refused",
        "a container sends packets that netloom drops",
        "netloom's nft table dropped packets of a container in the last ten minutes. Their source was not "
        "an address of the container, or they were router advertisements, redirects, or packets to an "
        "address that no host has. `netloom inspect` counts the packets that were dropped in the last day.",
        "The command in the message shows what the container sends. One cause is an address that was added "
        "by hand: `netloom doctor --only addresses` lists such addresses.",
    ),
    _entry(
        "table-broken",
        "netloom's nft table is incomplete",
        "Chains, rules or elements of the table are missing or were changed, for example by `nft flush "
        "ruleset`. Protection and NAT of containers do not work until the table is restored.",
        "A running agent restores the table within a second. `netloom up` starts an agent.",
    ),
    _entry(
        "attachment-unfinished",
        "an attachment is only partly created or deleted",
        "An operation on the attachment was interrupted. The attachment is not in use, and netloom still "
        "knows about it.",
        _REPAIRED,
    ),
    _entry(
        "mode-unknown",
        "an attachment has a mode that this version does not know",
        "A later version of netloom created the attachment. The attachment keeps working. The agent repairs "
        "the objects in its plan, and DEL removes them. If the plan cannot be read either, DEL fails and "
        "nothing is lost.",
        "Run the version of netloom that created the attachment, or a later one.",
    ),
    _entry(
        "plan-unreadable",
        "an attachment's plan cannot be read",
        "A later version wrote the row in the journal, or the row is damaged. The attachment keeps working, "
        "but can only be deleted.",
        "Delete the attachment's container. `netloom ls --wide` shows its names.",
    ),
    _entry(
        "result-unreadable",
        "an attachment's result cannot be read",
        "A later version wrote the row in the journal, or the row is damaged. The attachment keeps working. "
        "CHECK fails, and a repeated ADD creates the attachment again.",
        "Delete the attachment's container. `netloom ls --wide` shows its names.",
    ),
    _entry(
        "operation-unreadable",
        "a row of the operation log cannot be read",
        "The timing of one operation is lost. Nothing else depends on it.",
        "No action is needed: the log deletes its oldest rows by itself.",
    ),
    _entry(
        "attachment-addressless",
        "an attachment has no address",
        "netloom writes an attachment and its addresses in one transaction, so another program has changed "
        "the journal.",
        "Delete the attachment's container, and create it again.",
    ),
    _entry(
        "journal-tables",
        "a table or a column of the journal is missing",
        "The file is a journal, but does not match its schema: another program has changed it.",
        "Stop the agent with `netloom down`. Replace the journal with a copy (such as `journal.db.backup-N` "
        "in the same directory), or move it away. Then run `netloom up`.",
    ),
    _entry(
        "journal-dangling",
        "a row of the journal refers to a missing row",
        "An address or a port belongs to an attachment that does not exist: another program has changed the "
        "journal.",
        "Stop the agent with `netloom down`. Replace the journal with a copy (such as `journal.db.backup-N` "
        "in the same directory), or move it away. Then run `netloom up`.",
    ),
    _entry(
        "kernel-silent",
        "a query to the kernel failed",
        "A query for an attachment's kernel objects failed. The message ends with the kernel's error.",
        "Try again with `netloom check`.",
    ),
    _entry(
        "link-orphaned",
        "a link of netloom is not in the journal",
        "A link with one of netloom's names belongs to no attachment in the journal: it is orphaned. This "
        "happens, for example, when the journal was lost. A container may still use the link, so the agent "
        "keeps it, reserves its addresses, and keeps its masquerade, isolation and host ports.",
        "Delete the container with its runtime, which also removes the link. If no container uses the link, "
        "remove it with the command in the message.",
    ),
    _entry(
        "journal-restorable",
        "a copy of the journal has attachments that the journal lacks",
        "Some links of netloom are not in the journal, but are in a copy that netloom keeps beside it. The "
        "journal was lost and a new one was created, or an older copy was restored.",
        "Restore that copy: run `netloom down`, `netloom journal restore FILE`, `netloom up`. The message "
        "has the exact commands. If the journal has attachments that the copy lacks, delete their "
        "containers first.",
    ),
    _entry(
        "orphan-incomplete",
        "a container that is not in the journal may have lost services",
        "The journal was lost, and the nft table was flushed or changed before an agent could read it. The "
        "container keeps its link and its addresses. It has lost the masquerade, isolation or host ports "
        "that the message lists.",
        "Delete the container with its runtime and create it again. If you have a copy of the journal that "
        "contains it, restore that copy: run `netloom down`, `netloom journal restore FILE`, `netloom up`.",
    ),
    _entry(
        "element-orphaned",
        "a firewall element belongs to no attachment",
        "netloom's nft table has an element or a chain that belongs to no attachment.",
        "The agent removes it at its next start, unless its link still exists.",
    ),
    _entry(
        "address-inconsistent",
        "the journal and a plan disagree on an address",
        "The journal and a plan name different attachments for the same address.",
        _DEFECT,
    ),
    _entry(
        "address-twice",
        "two attachments have the same address or link",
        "The plans of two attachments have the same address or host link.",
        _DEFECT,
    ),
    _entry(
        "address-orphaned",
        "an address belongs to a missing attachment",
        "The journal holds an address for an attachment that does not exist.",
        _DEFECT,
    ),
    _entry(
        "port-inconsistent",
        "the journal and a plan disagree on a host port",
        "The journal and a plan name different attachments for the same host port.",
        _DEFECT,
    ),
    _entry(
        "pool-miscounted",
        "the address counts of a pool do not add up",
        "Free, held and resting addresses do not add up to the size of the pool.",
        _DEFECT,
    ),
    # Requests.
    _entry(
        "never-asked",
        "netloom received no ADD for this container",
        "The journal has no operation with this name: the runtime has not asked netloom to attach the "
        "container.",
        "Check which network the runtime uses: the message names the first network file that it finds, if "
        "there is one. Read the runtime's log, and make sure that CNI is switched on in the runtime.",
    ),
    _entry(
        "add-failed",
        "the last ADD failed",
        "The runtime requested an attachment, and netloom could not create it. The message has the reason.",
        "Follow the advice of `netloom explain CODE`, with the error code in the message.",
    ),
    _entry(
        "del-failed",
        "the last DEL failed",
        "The runtime asked netloom to delete an attachment, and netloom could not. The runtime will try "
        "again.",
        "Follow the advice of `netloom explain CODE`, with the error code in the message.",
    ),
    # Connectivity, which `netloom connectivity` tests.
    _entry(
        "no-answer",
        "no answer, and the cause is unknown",
        "netloom checked links, routes, forwarding and other firewalls, and found no cause for the missing "
        "answer.",
        "`netloom doctor` checks the whole node. `netloom connectivity --keep` keeps the two test "
        "containers: `tcpdump` on the host's end of their links shows how far a packet gets.",
    ),
    _entry(
        "route-missing",
        "a route is missing",
        "The container has no route to its destination, or the host has no route to the container. Packets "
        "take another path or are dropped.",
        "A running agent restores routes of the host within a second, and routes in containers within a "
        "minute. `netloom check --repair` restores them at once. If a route disappears repeatedly, another "
        "program removes it: `netloom doctor` checks for the usual ones.",
    ),
    _entry(
        "path-narrow",
        "the MTU of the path is smaller than that of the link",
        "Small packets arrive, but a packet that fills the sender's MTU does not: the two ends of a link "
        "have different MTUs, or a link on the path has a smaller MTU. Connections open, but hang on large "
        "transfers.",
        "Set the MTUs of both ends of the link to the same value. netloom sets them equal, so another "
        "program has changed one. The message names the link if it is on this host.",
    ),
    _entry(
        "spoofing-passes",
        "a packet with a forged source address arrived",
        "A container could send with a source address that is not its own. The rules in netloom's nft table "
        "that prevent this are not in force.",
        "`netloom doctor` compares the table with its desired state. A running agent restores the table "
        "within a second.",
    ),
    _entry(
        "isolation-leaks",
        "isolated containers can reach each other",
        "The network's `isolation` is `containers`, but packets of one container arrive at another.",
        "`netloom doctor` compares netloom's nft table with its desired state. Only replies and traffic to "
        "host ports may pass.",
    ),
    _entry(
        "limit-missed",
        "the measured rate differs from the limit",
        "Traffic is faster than the limit, or much slower. The queue on the host's end of the link is "
        "missing or was replaced, or the machine was too busy to reach the limit.",
        "Measure again while the machine is idle. `netloom check` compares the queues with the plan. `tc "
        "qdisc show` lists them.",
    ),
    _entry(
        "no-masquerade",
        "the gateway may have no route back to the containers",
        "The network does not masquerade outgoing traffic, and the next router did not answer. It may have "
        "no route to the pools.",
        "Masquerade outgoing traffic: run `netloom up --masquerade`, or set `ipMasq` in the network's file. "
        "Or add a route on the gateway that leads to the pools through this host.",
    ),
)
