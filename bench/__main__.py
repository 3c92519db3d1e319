"""`python -m bench [AREA]`: measures, prints a table, writes build/bench.json.

A missed bar is shown as MISSED and is no failure of the run: the exit status stays 0.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from . import agent, cni, isolation, kernel, operate, report, services
from .measure import Item, Remark, Rivals, Together, Unmeasurable, measure, measure_rivals, measure_together
from .place import BUILD, CHECKOUT, Place

# The areas: their name, which begins the names of their measurements, and the function that yields them. An
# item is measured when it is yielded, so that what it needs may live until then.
AREAS: Mapping[str, Callable[[Place], Generator[Item, None, None]]] = {
    "agent": agent.comparisons,
    "cni": cni.comparisons,
    "kernel": kernel.comparisons,
    "operate": operate.comparisons,
    "services": services.comparisons,
}


def main(words: list[str]) -> int:
    if len(words) > 1 or any(word not in AREAS for word in words):
        print(f"bench: expected one area of: {', '.join(AREAS)}; got: {' '.join(words)}", file=sys.stderr)
        return 2
    areas = words or list(AREAS)
    release = platform.release().partition("-")[0]
    print(
        f"Linux {release}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.2f}"
    )
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as state:
        place = _place(Path(state))
        found = [it for area in areas for it in _measured(area, place)]
    rows = [it for it in found if isinstance(it, report.Row)]
    remarks = [f"{it.text}\n" for it in found if isinstance(it, Remark)]
    print("", report.table(rows), "", report.explanations(rows), "", *remarks, sep="\n")
    report.write(BUILD / "bench.json", rows, areas)
    print(f"written to {(BUILD / 'bench.json').relative_to(CHECKOUT)}")
    return 0


def _place(state: Path) -> Place:
    obstacle = isolation.obstacle(CHECKOUT)
    if obstacle:
        print(f"not in private namespaces, some things are not measured: {obstacle}")
    else:
        isolation.enter(state)
    return Place(state, obstacle)


def _measured(area: str, place: Place) -> Iterator[report.Row | Remark]:
    # Closed in any case: processes of an area end with it.
    with closing(AREAS[area](place)) as items:
        for item in items:
            if isinstance(item, Remark):
                yield item
            elif isinstance(item, Unmeasurable):
                print(f"{item.name}: not measured, {item.reason}")
                yield report.unmeasured(item)
            else:
                rounds = "one round" if item.rounds == 1 else f"{item.rounds} rounds"
                print(f"{item.name}: {rounds}", flush=True)
                if isinstance(item, Together):
                    yield from (report.row(*measured) for measured in measure_together(item))
                elif isinstance(item, Rivals):
                    yield from (report.row(*measured) for measured in measure_rivals(item))
                else:
                    yield report.row(item, measure(item))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
