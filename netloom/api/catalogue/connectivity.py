"""Why containers do not reach what they need, as `netloom connectivity` finds it out by trying."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "finding", title, meaning, remedy)


ENTRIES = (
    _entry(
        "no-answer",
        "no answer, and no cause that could be told",
        "Links, routes, forwarding and the rules of others were looked at, and nothing there explains that "
        "no answer came.",
        "`netloom doctor` looks at the node as a whole. `netloom connectivity --keep` leaves the two "
        "containers, so that `tcpdump` on the host's end of their links shows how far a packet comes.",
    ),
    _entry(
        "route-missing",
        "a route is missing",
        "The container has no route to where it sends, or the host none to the container, so that packets "
        "take another way or none at all.",
        "A running agent puts back routes of the host within a second, and those in containers within a "
        "minute; `netloom check --repair` does it at once. If one goes again and again, something else "
        "removes it: `netloom doctor` looks for the usual ones.",
    ),
    _entry(
        "path-narrow",
        "the way takes smaller packets than the link",
        "Small packets pass, and one that fills the sender's link does not: the two ends of a link have "
        "different MTUs, or a link on the way has a smaller one. Connections are made, and hang when there "
        "is much to send.",
        "Make the MTUs of both ends of the link equal; netloom makes them so, and something has changed one. "
        "The message names the link if it is on this host.",
    ),
    _entry(
        "spoofing-passes",
        "a packet with another's address arrived",
        "A container could send with a source address that is not its own. The rules of netloom's table that "
        "stop that are not in force.",
        "`netloom doctor` compares the table with what it should be; a running agent lays it down anew "
        "within a second.",
    ),
    _entry(
        "isolation-leaks",
        "containers that are kept apart reach each other",
        "The network's `isolation` is `containers`, and one container's packets arrive at another.",
        "`netloom doctor` compares the table with what it should be. What comes by a host port, or answers, "
        "may pass; everything else may not.",
    ),
    _entry(
        "limit-missed",
        "the measured rate is not the limit's",
        "Traffic is faster than the limit lets it be, or much slower: the queue on the host's end of the "
        "link is missing or another's, or the machine was too busy to reach the limit.",
        "Measure again while the machine is quiet. `netloom check` compares the queues with the plan, `tc "
        "qdisc show` lists them.",
    ),
    _entry(
        "no-masquerade",
        "the gateway may know no way back",
        "The network does not give what leaves it the host's address, and the next router did not answer: it "
        "may have no route to the pools.",
        "`netloom up --masquerade`, or `ipMasq` in the network's file; or a route on the gateway that leads "
        "to the pools by this host.",
    ),
)
