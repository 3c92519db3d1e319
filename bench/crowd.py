"""Many attachments of one of our hosts, made by the agent's socket, without the plugin's processes."""

from __future__ import annotations

import time

from .containers import Supply, forget, made, settle
from .hosts import Host, OurHost

# Interfaces of a container, where it is only their number that counts.
INTERFACES = 25
# Seconds to attach them in.
_PATIENCE = 150.0


class Crowd:
    """What stands around when one more is attached."""

    def __init__(self, host: OurHost) -> None:
        self._host = host
        self._containers: list[str] = []

    def grow(self, amount: int) -> str:
        """Attaches until there are so many; why there are not, or nothing."""
        began = time.perf_counter()
        before = self._host.attachments()
        # Few share one container, many are the same number in each.
        interfaces = min(amount - before, INTERFACES)
        names = made((amount - before) // interfaces)
        self._containers += names
        whole = self._host.add_many(names, [f"net{number}" for number in range(interfaces)], _PATIENCE)
        now = self._host.attachments()
        each = (time.perf_counter() - began) / (now - before) * 1000
        print(f"{now} attachments, {each:.1f} ms for each by the socket", flush=True)
        return "" if whole else f"there were {now} attachments when {_PATIENCE:g} seconds were over"

    def close(self) -> None:
        """Waits for the kernel, which takes away thousands of links without anybody at work."""
        self._host.kill()
        forget(self._containers)
        for _ in range(600):
            # One is the node's own, and stays.
            if self._host.links() < 2:
                return
            time.sleep(0.1)


def rested_add(host: Host, supply: Supply) -> float:
    """The milliseconds of one ADD after 30 ms in which nothing was done, and a DEL outside of them."""
    container = supply.take()
    settle()
    took = host.run("ADD", container)
    host.run("DEL", container)
    return took
