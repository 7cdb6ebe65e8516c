from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.cooperative import finish
from barnabas.handlers.telemetry.otlp import MalformedError, MetricPoint, PayloadTooLargeError, read_points
from tests.support.builders.telemetry import counter, field, gauge, metrics_data, point
from tests.support.clocks import MAX_STEP, longest_step

MAX_POINTS = 1000


def read(data: bytes, max_points: int = MAX_POINTS) -> list[MetricPoint]:
    found: list[MetricPoint] = []
    finish(read_points(memoryview(data), max_points, found.append))
    return found


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("org.apache.kafka.producer.latency", point(1.5, node_id="1"), point(-2, node_id="2")),
        counter("org.apache.kafka.producer.requests", point(7)),
    )
    assert read(data) == [
        MetricPoint("org.apache.kafka.producer.latency", (("node_id", "1"),), 1.5, False),
        MetricPoint("org.apache.kafka.producer.latency", (("node_id", "2"),), -2, False),
        MetricPoint("org.apache.kafka.producer.requests", (), 7, True),
    ]


def test_unknown_fields_are_skipped() -> None:
    unknown = field(99, b"x") + bytes([5 << 3 | 5, 1, 2, 3, 4])
    assert read(unknown + metrics_data(gauge("a", point(1)), field(11, b"a summary"))) == [
        MetricPoint("a", (), 1, False)
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05ab",  # shorter than its length field
        b"\xff" * 20,  # a number without an end
        b"\x0b",  # a group, which protobuf 3 does not have
        metrics_data(field(1, b"\xff\xfe") + field(5, point(1))),  # a name that is no text
        metrics_data(
            field(1, b"a") + field(5, field(1, bytes([4 << 3 | 2, 2, 1, 2])))
        ),  # a double of two bytes
    ],
)
def test_invalid_metric_is_rejected_with_a_reason(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read(data)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_else_than_be_read_or_be_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        read(data)


def nested(data: bytes, *path: int) -> bytes:
    for number in reversed(path):
        data = field(number, data)
    return data


MANY = 1_000_000
HOSTILE = {
    "empty points of a gauge": nested(field(1, b"") * MANY, 1, 2, 2, 5),
    "empty points of a sum": nested(field(1, b"") * MANY, 1, 2, 2, 7),
    "empty metrics": nested(field(2, b"") * MANY, 1, 2),
    "empty scopes": nested(field(2, b"") * MANY, 1),
    "empty resources": field(1, b"") * MANY,
    "unknown fields": field(99, b"") * MANY,
    "unknown fields in a metric": nested(field(99, b"") * MANY, 1, 2, 2),
    "unknown fields in a sum": nested(field(99, b"") * MANY, 1, 2, 2, 7),
    "unknown fields in a point": nested(field(99, b"") * MANY, 1, 2, 2, 7, 1),
    "attributes of a point": nested(field(7, b"") * MANY, 1, 2, 2, 7, 1),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_million_fields_of_any_kind_are_refused_and_read_in_short_steps(case: str) -> None:
    found: list[MetricPoint] = []
    longest, error = longest_step(read_points(memoryview(HOSTILE[case]), MAX_POINTS, found.append))
    assert isinstance(error, PayloadTooLargeError)
    assert longest < MAX_STEP
    assert len(found) <= MAX_POINTS


def test_as_many_points_as_allowed_are_read_with_the_attributes_that_java_clients_give() -> None:
    tags = {"client_id": "till", "topic": "orders", "partition": "1", "node_id": "2"}
    data = metrics_data(counter("lag", *(point(n, **tags) for n in range(MAX_POINTS))))
    assert len(read(data)) == MAX_POINTS
    with pytest.raises(PayloadTooLargeError, match=r"more than 999 points \(barnabas.telemetry.max.points\)"):
        read(data, MAX_POINTS - 1)


def test_a_long_name_is_cut() -> None:
    (found,) = read(metrics_data(gauge("ä" * 10_000, point(1))))
    assert found.metric == "ä" * 512
