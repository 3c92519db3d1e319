"""Metrics as text: whatever is in them, Prometheus' own parser reads what was meant."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from netloom.agent.metrics.exposition import Family, Histogram, exposition, family
from netloom.agent.metrics.metrics import METRICS, Metric
from netloom.api.catalogue import ENTRIES

pytestmark = pytest.mark.unit

_NAME = re.compile(r"(netloom|process)_[a-z_]+")
# Without halves of surrogate pairs, which no UTF-8 has, and line breaks that only Python knows.
_text = st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))


def read(*families: Family) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for it in text_string_to_metric_families(exposition(families).decode())
        for sample in it.samples
    }


@given(network=_text, pool=_text, state=_text, count=st.integers(0, 2**70))
def test_values_of_labels_arrive_as_they_are(network: str, pool: str, state: str, count: int) -> None:
    found = read(family("netloom_pool_addresses", [((network, pool, state), count)]))
    labels = frozenset({("network", network), ("pool", pool), ("state", state)})
    assert found == {("netloom_pool_addresses", labels): pytest.approx(float(count))}


@given(help_text=_text)
def test_a_help_text_arrives_as_it_is(help_text: str) -> None:
    metric = Metric(name="a_gauge", kind="gauge", help=help_text.strip(), meaning="")
    (found,) = text_string_to_metric_families(exposition([Family(metric, [((), 1)])]).decode())
    assert (found.documentation, found.type) == (help_text.strip(), "gauge")


@given(st.lists(st.floats(0, 100)))
def test_a_histogram_counts_each_value_in_every_bucket_that_has_room_for_it(values: list[float]) -> None:
    bounds = (0.5, 1.0, 10.0)
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    found = read(family("netloom_operation_duration_seconds", [(("ADD",), histogram)]))
    name = "netloom_operation_duration_seconds"
    for bound, shown in zip((*bounds, math.inf), ("0.5", "1", "10", "+Inf"), strict=True):
        labels = frozenset({("verb", "ADD"), ("le", shown)})
        assert found[f"{name}_bucket", labels] == sum(value <= bound for value in values)
    assert found[f"{name}_count", frozenset({("verb", "ADD")})] == len(values)
    assert found[f"{name}_sum", frozenset({("verb", "ADD")})] == pytest.approx(sum(values))


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_is_named_and_described_as_prometheus_recommends(metric: Metric) -> None:
    assert _NAME.fullmatch(metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert metric.name.removesuffix("_total").endswith(metric.unit)
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")
    assert "\n" not in metric.help
    assert metric.meaning.endswith(".")


def test_codes_that_are_counted_are_those_of_the_catalogue() -> None:
    from netloom.agent.metrics.tally import CODES

    numbers = {int(code) for code, entry in ENTRIES.items() if entry.area == "cni"}
    assert numbers - {0} == CODES
