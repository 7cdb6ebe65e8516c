"""Counters and their samples."""

from __future__ import annotations

import pytest

from barnabas.metrics import exporter_catalogue
from barnabas.metrics.catalogue import CATALOGUE
from barnabas.metrics.registry import Histogram, Metric, Registry

HITS = Metric("counter", "hits_total", "Hits.", ("side",))


def test_a_counter_is_a_plain_value_that_its_holder_adds_to() -> None:
    registry = Registry()
    left = registry.counter(HITS).labels("left")
    left.value += 3
    left.value += 4
    assert registry.snapshot() == {"hits_total{side=left}": 7}


def test_the_same_labels_give_the_same_child_until_it_is_removed() -> None:
    family = Registry().counter(HITS)
    first = family.labels("left")
    assert family.labels("left") is first
    family.remove("left")
    assert family.labels("left") is not first


def test_wrong_labels_and_names_declared_twice_are_refused() -> None:
    registry = Registry()
    family = registry.counter(HITS)
    with pytest.raises(ValueError, match="has the labels"):
        family.labels("left", "right")
    with pytest.raises(ValueError, match="twice"):
        registry.counter(HITS)


def test_gauge_is_set_or_read_on_demand() -> None:
    registry = Registry()
    gauge = registry.gauge(Metric("gauge", "depth", "Depth.")).labels()
    gauge.value = 5
    assert registry.snapshot() == {"depth": 5}
    gauge.read = lambda: 9
    assert registry.snapshot() == {"depth": 9}


def test_histogram_buckets_are_cumulative_and_bounds_belong_to_them() -> None:
    registry = Registry()
    times = registry.histogram(Metric("histogram", "t", "T."), bounds=(1.0, 2.0)).labels()
    for value in (0.5, 1.0, 1.5, 99.0):
        times.observe(value)
    assert registry.snapshot() == {
        "t_bucket{le=1}": 2,
        "t_bucket{le=2}": 3,
        "t_bucket{le=+Inf}": 4,
        "t_sum": 102.0,
        "t_count": 4,
    }


def test_quantiles_are_estimated_within_their_bucket() -> None:
    times = Histogram((1.0, 2.0, 4.0))
    for _ in range(50):
        times.observe(0.5)
    for _ in range(50):
        times.observe(3.0)
    assert times.quantile(0.25) == pytest.approx(0.5)
    assert times.quantile(0.75) == pytest.approx(3.0)
    assert Histogram((1.0,)).quantile(0.5) == 0.0


def test_every_metric_of_the_catalogue_has_a_unique_name_and_a_description() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names) > 50
    assert all(metric.help.endswith(".") for metric in set(CATALOGUE) - set(exporter_catalogue.CATALOGUE))
    assert all(metric.name.endswith("_total") == (metric.kind == "counter") for metric in CATALOGUE)
