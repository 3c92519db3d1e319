"""That the host forwards between its links, without losing its own way out."""

from __future__ import annotations

import os
from contextlib import suppress

from ...kernel import Namespace
from ...networks.names import PREFIX

_CONF = "/proc/sys/net/ipv6/conf"


def keep_router_advertisements(host: Namespace) -> list[str]:
    """A host that forwards stops to listen to its routers, unless it is told that it still should.

    Of links that listen today; called before forwarding is switched on. Gives back which were told.
    """
    told = []
    with host.entered(), suppress(FileNotFoundError):
        for name in sorted(set(os.listdir(_CONF)) - {"all", "default", "lo"}):
            if name.startswith(PREFIX):
                continue
            if _read(name, "accept_ra") == "1" and _read(name, "forwarding") == "0":
                with suppress(OSError), open(f"{_CONF}/{name}/accept_ra", "w") as file:
                    file.write("2")
                    told.append(name)
    return told


def _read(name: str, setting: str) -> str:
    try:
        with open(f"{_CONF}/{name}/{setting}") as file:
            return file.read().strip()
    except OSError:  # the link went meanwhile
        return ""
