"""The page of a metric."""

from __future__ import annotations

from netloom.agent.metrics.metrics import METRICS, Metric

from .markdown import code, paragraphs, table
from .page import Page, Part, merged

_KINDS = {
    "counter": "a counter, which only grows and restarts at zero with the agent",
    "gauge": "a gauge, the current value",
    "histogram": "a histogram, with `_bucket`, `_sum` and `_count`",
}


def metrics() -> list[Metric]:
    return list(METRICS.values())


def metric_page(metric: Metric, before: Page | None) -> str:
    facts = [("kind", _KINDS[metric.kind]), ("labels", ", ".join(map(code, metric.labels)) or "none")]
    if metric.unit:
        facts.append(("unit", metric.unit))
    if metric.buckets:
        facts.append(("buckets", ", ".join(f"{it:g}" for it in metric.buckets)))
    return merged(
        before,
        metric.name,
        metric.help,
        [
            Part("Series", table(["what", ""], facts)),
            Part("What it means", paragraphs(metric.meaning)),
            Part("Notes", "", is_made=False),
            Part("See also", "[All metrics](../metrics.md)", is_made=False),
        ],
    )


def rows() -> str:
    return table(
        ["metric", "kind", "labels", "what it is"],
        [
            (f"[`{it.name}`](metrics/{it.name}.md)", it.kind, ", ".join(map(code, it.labels)), it.help)
            for it in metrics()
        ],
    )
