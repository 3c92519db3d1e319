"""Findings about the networks of a node, as their files have them."""

from __future__ import annotations

import os

from ...api.findings import Finding
from ...networks.host import Lack
from ..node.networks import FILE

_MEND = "mend it (`netloom cni validate` checks it)"
_REPLACE = (
    ", or replace it: `netloom up --force` writes the last copy that worked, or a new network with the "
    "--pool and other options that you give"
)


def none_configured(directory: str) -> Finding:
    return Finding(
        code="network-none",
        severity="warning",
        subject=directory,
        text=f"no network of netloom is configured in {directory}",
        next="`netloom up` writes one",
    )


def broken(path: str, why: str, network: str = "") -> Finding:
    """`network` is its name, if that can be read."""
    what = f"{network} cannot work: " if network else ""
    replace = _REPLACE if os.path.basename(path) == FILE and os.path.isfile(path) else ""
    return Finding(code="network-broken", subject=path, text=f"{path}: {what}{why}", next=f"{_MEND}{replace}")


def unknown(network: str) -> Finding:
    return Finding(
        code="network-unknown",
        subject=network,
        text="no file has a network of this name",
        next="`netloom status` lists the networks of this node",
    )


def host_lacks(network: str, lack: Lack) -> Finding:
    return Finding(
        code="host-lacks",
        subject=network,
        text=f"nothing can be attached to {network} now: {lack.text}",
        next=lack.next,
    )
