"""The Prometheus text format."""

from __future__ import annotations

from barnabas.metrics.registry import Metric, Registry, Sample
from barnabas.metrics.requests import RequestMetrics
from barnabas.metrics.text import render


def test_each_metric_has_its_help_its_type_and_its_samples() -> None:
    registry = Registry()
    registry.read_by(Metric("gauge", "b", "Second."), lambda: 1.5)
    registry.counter(Metric("counter", "a_total", "First.", ("x", "y"))).labels("1", "2").value = 7
    assert render(registry) == (
        "# HELP a_total First.\n"
        "# TYPE a_total counter\n"
        'a_total{x="1",y="2"} 7\n'
        "# HELP b Second.\n"
        "# TYPE b gauge\n"
        "b 1.5\n"
    )


def test_label_values_cannot_break_out_of_their_quotes() -> None:
    registry = Registry()
    registry.counter(Metric("counter", "c_total", "A \\ and\na line.", ("who",))).labels('"\n\\').value = 1
    text = render(registry)
    assert 'c_total{who="\\"\\n\\\\"} 1\n' in text
    assert "# HELP c_total A \\\\ and\\na line.\n" in text


def test_numbers_that_are_no_numbers_are_written_as_prometheus_knows_them() -> None:
    registry = Registry()
    values = (float("nan"), float("inf"), float("-inf"), 1e20, 0.1)
    samples = [Sample("", (("n", str(index)),), value) for index, value in enumerate(values)]
    registry.computed(Metric("gauge", "g", "G.", ("n",)), lambda: samples)
    written = [line.split()[-1] for line in render(registry).splitlines()[2:]]
    assert written == ["NaN", "+Inf", "-Inf", "100000000000000000000", "0.1"]


def test_request_times_are_shown_as_kafka_shows_them() -> None:
    registry = Registry()
    metrics = RequestMetrics(registry)
    metrics.counter("Produce", 9).value += 2
    metrics.times("Produce").observe(0.002)
    text = render(registry)
    assert 'kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 2\n' in text
    assert 'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}' in text
    assert 'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 1\n' in text
