"""OTLP metrics, decoded by the decoder of pushed client metrics."""

from __future__ import annotations

from barnabas.common.cooperative import finish
from barnabas.handlers.telemetry.otlp import MetricPoint, read_points
from barnabas.metrics import Registry, Sample, counter, gauge
from barnabas.metrics.otlp import encode_metrics


def test_counters_and_gauges_are_encoded_with_their_labels() -> None:
    registry = Registry()
    registry.counter(counter("rows_total", "Rows.", "flow")).labels("ä" * 100).value = 1 << 40
    registry.computed(gauge("lag", "Lag."), lambda: [Sample("", (("a", "1"), ("b", "2")), -0.5)])
    registry.gauge(gauge("empty", "Without values.", "flow"))
    data = encode_metrics(registry, {"service.name": "shop"}, "tests", start=1, now=2)
    found: list[MetricPoint] = []
    finish(read_points(memoryview(data), 10, found.append))
    assert found == [
        MetricPoint("lag", (("a", "1"), ("b", "2")), -0.5, False),
        MetricPoint("rows_total", (("flow", "ä" * 100),), 1 << 40, True),
    ]
    assert b"service.name" in data
    assert b"empty" not in data
