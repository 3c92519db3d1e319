"""Many attachments on one of our hosts, made by the agent's socket, without processes of the plugin."""

from __future__ import annotations

import time

from .containers import Supply, forget, made, settle
from .hosts import Host, OurHost

# Interfaces per container, when only the number of attachments matters.
INTERFACES = 25
# Time limit for attaching them, in seconds.
_PATIENCE = 150.0


class Crowd:
    """The attachments that exist while one more is measured."""

    def __init__(self, host: OurHost) -> None:
        self._host = host
        self._containers: list[str] = []

    def grow(self, amount: int) -> str:
        """Attaches until there are this many; returns why not all could be made, or empty."""
        began = time.perf_counter()
        before = self._host.attachments()
        # A few share one container; many are spread evenly over several.
        interfaces = min(amount - before, INTERFACES)
        names = made((amount - before) // interfaces)
        self._containers += names
        whole = self._host.add_many(names, [f"net{number}" for number in range(interfaces)], _PATIENCE)
        now = self._host.attachments()
        each = (time.perf_counter() - began) / (now - before) * 1000
        print(f"{now} attachments, {each:.1f} ms for each by the socket", flush=True)
        return "" if whole else f"only {now} attachments existed after {_PATIENCE:g} seconds"

    def close(self) -> None:
        """Waits for the kernel, which deletes thousands of links in the background."""
        self._host.kill()
        forget(self._containers)
        for _ in range(600):
            # One belongs to the node itself, and stays.
            if self._host.links() < 2:
                return
            time.sleep(0.1)


def rested_add(host: Host, supply: Supply) -> float:
    """Returns the milliseconds of one ADD after 30 ms of rest; its DEL is not measured."""
    container = supply.take()
    settle()
    took = host.run("ADD", container)
    host.run("DEL", container)
    return took
