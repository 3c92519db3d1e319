"""DELs that wait for the agent, and which attachments they are about."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..cni import CNIError
from ..cni.skel import judge_config
from ..journal import Attachment


class Queued(NamedTuple):
    """`network` is None of a DEL that names none: it is about every one. `sent` is seconds since boot."""

    network: str | None
    container_id: str
    ifname: str
    sent: float

    def is_about(self, row: Attachment) -> bool:
        same = (self.container_id, self.ifname) == (row.container_id, row.ifname)
        return same and self.network in (None, row.network) and row.created <= self.sent


def queued(directory: str) -> list[Queued]:
    """What cannot be read is left to the agent, which says so."""
    try:
        if not os.listdir(directory):
            return []
    except OSError:
        return []
    from ..api.intents import read_intent, waiting
    from ..api.protocol import ProtocolError

    found = []
    for path in waiting(directory):
        try:
            message = read_intent(path)
        except (OSError, ProtocolError):
            continue
        environment = message.head.environment
        found.append(
            Queued(
                _network(message.body),
                environment.get("CNI_CONTAINERID", ""),
                environment.get("CNI_IFNAME", ""),
                message.head.sent / 1e9,
            )
        )
    return found


def _network(body: bytes) -> str | None:
    try:
        name: str = judge_config(body)["name"]
    except CNIError:
        return None
    return name
