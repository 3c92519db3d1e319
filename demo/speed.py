"""How long a runtime waits for netloom and the reference bridge plugin, by the benchmarks' driver."""

from __future__ import annotations

from contextlib import closing

from bench.containers import Supply, settle
from bench.hosts import Host, OurHost, ReferenceHost
from bench.measure import median

_VERBS = ("ADD", "DEL")


def beside_the_reference(rounds: int) -> list[tuple[str, float, float]]:
    """Returns the median milliseconds of each verb, ours and theirs. Both alternate in their own hosts."""
    with closing(OurHost("speed")) as ours, closing(ReferenceHost("reference")) as reference:
        ours.start()
        took: dict[tuple[Host, str], list[float]] = {
            (host, verb): [] for host in (ours, reference) for verb in _VERBS
        }
        with closing(Supply()) as supply:
            for host in (ours, reference) * rounds:
                container = supply.take()
                settle()
                for verb in _VERBS:
                    took[host, verb].append(host.run(verb, container))
        return [(verb, median(took[ours, verb]), median(took[reference, verb])) for verb in _VERBS]
