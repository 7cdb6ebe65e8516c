from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.cooperative import finish
from barnabas.handlers.telemetry.otlp import MalformedError, Point, points
from tests.handlers.telemetry.pushes import counter, field, gauge, metrics_data, point


def read(data: bytes) -> list[Point]:
    return finish(points(memoryview(data)))


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("org.apache.kafka.producer.latency", point(1.5, node_id="1"), point(-2, node_id="2")),
        counter("org.apache.kafka.producer.requests", point(7)),
    )
    assert read(data) == [
        Point("org.apache.kafka.producer.latency", (("node_id", "1"),), 1.5, False),
        Point("org.apache.kafka.producer.latency", (("node_id", "2"),), -2, False),
        Point("org.apache.kafka.producer.requests", (), 7, True),
    ]


def test_fields_that_nobody_knows_are_skipped() -> None:
    unknown = field(99, b"x") + bytes([5 << 3 | 5, 1, 2, 3, 4])
    assert read(unknown + metrics_data(gauge("a", point(1)), field(11, b"a summary"))) == [
        Point("a", (), 1, False)
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05ab",  # shorter than it says
        b"\xff" * 20,  # a number without an end
        b"\x0b",  # a group, which protobuf 3 does not have
        metrics_data(field(1, b"\xff\xfe") + field(5, point(1))),  # a name that is no text
        metrics_data(
            field(1, b"a") + field(5, field(1, bytes([4 << 3 | 2, 2, 1, 2])))
        ),  # a double of two bytes
    ],
)
def test_what_is_no_metric_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read(data)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_else_than_be_read_or_be_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        read(data)
