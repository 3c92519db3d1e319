"""List the attachments in the journal. The command needs no agent.

The exit status is 1 if NETWORK is not configured and has no attachment, which suggests a misspelled name.

examples:
  netloom ls
  netloom ls mynet --wide
  netloom ls --json
"""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Collection

from ...api.text import age, short_id
from ...ops.control.process import other_state
from ...ops.errors import OperationFailed
from ...ops.inspect.documents import Listed
from ...ops.inspect.listing import AttachmentRow, attachments, configured_networks, document_of
from ..arguments import add_conf_dir, add_json, add_place, place_of
from ..failure import warn
from ..terminal.output import say
from ..terminal.tables import print_json, table

OUTPUT = list[Listed]

# Prefix of the names of netloom's links on the host.
_LINK = "loom"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network", metavar="NETWORK", nargs="?", help="network whose attachments to list (default: all)"
    )
    parser.add_argument("--wide", action="store_true", help="show full container IDs, and namespaces")
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = attachments(place_of(args), args.network)
    different = other_state(place_of(args))
    if different:
        warn(args, different)
    is_unknown = (
        not found and args.network is not None and args.network not in configured_networks(args.conf_dir)
    )
    if args.json:
        print_json([document_of(it) for it in found])
    elif found:
        header = ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "POD", "HOST LINK", "STATE", "AGE"]
        say(*table([_shown(it, args.wide) for it in found], [*header, *(["NETNS"] if args.wide else [])]))
    elif not is_unknown:
        say("no attachments" if args.network is None else f"no attachments to {args.network}")
    if not args.json and args.network is None and _may_lack_links({it.row.host_link for it in found}):
        from ...ops.status.findings import note_on_links

        say(*filter(None, [note_on_links(place_of(args))]))
    if is_unknown:
        raise OperationFailed(
            f"network {args.network!r} has no attachments, and is not configured in {args.conf_dir}",
            "`netloom ls` lists all attachments, `netloom status` all networks of netloom",
            code="network-unknown",
        )
    return 0


def _may_lack_links(known: Collection[str]) -> bool:
    """Whether a link may be an orphan. A cheap test, since the full check is slower than the whole list."""
    return any(name.startswith(_LINK) and name not in known for _, name in socket.if_nameindex())


def _shown(it: AttachmentRow, wide: bool) -> list[str]:
    row = it.row
    cells = [
        row.network,
        row.container_id if wide else short_id(row.container_id),
        row.ifname,
        ",".join(it.addresses) or "-",
        # podman has pods without namespaces.
        "/".join(filter(None, (row.namespace, row.pod))) or "-",
        row.host_link,
        "DEL queued" if it.is_queued else row.state,
        age(time.time() - row.created_at),
    ]
    return [*cells, row.netns] if wide else cells
