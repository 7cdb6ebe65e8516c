"""Reading metrics in OpenTelemetry's protobuf format, as far as Kafka's clients use it: gauges and sums.

Only the fields that are needed are looked at, by their numbers in `opentelemetry/proto/metrics/v1/metrics.proto`; all
others are skipped. It is a generator that yields after each metric, because a push may hold thousands of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct
from typing import NamedTuple

Attributes = tuple[tuple[str, str], ...]
Value = int | memoryview
"""Of a field: a varint, or the bytes of anything else."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 63  # bits before the last group of seven

_DOUBLE = Struct("<d")
_SIGNED = Struct("<q")

METRICS_DATA_RESOURCE_METRICS = 1
RESOURCE_METRICS_SCOPE_METRICS = 2
SCOPE_METRICS_METRICS = 2
METRIC_NAME, METRIC_GAUGE, METRIC_SUM = 1, 5, 7
DATA_POINTS = 1
SUM_IS_MONOTONIC = 3
POINT_AS_DOUBLE, POINT_AS_INT, POINT_ATTRIBUTES = 4, 6, 7
KEY, VALUE = 1, 2
ANY_STRING, ANY_BOOL, ANY_INT, ANY_DOUBLE = 1, 2, 3, 4


class MalformedError(ValueError):
    """This is not what OpenTelemetry describes."""


class Point(NamedTuple):
    """One value of a metric at the time of the push."""

    metric: str
    attributes: Attributes
    value: float
    is_counter: bool


def points(data: memoryview) -> Generator[None, None, list[Point]]:
    """All gauges and sums in a MetricsData message; raises MalformedError."""
    found: list[Point] = []
    for resource in _messages(data, METRICS_DATA_RESOURCE_METRICS):
        for scope in _messages(resource, RESOURCE_METRICS_SCOPE_METRICS):
            for metric in _messages(scope, SCOPE_METRICS_METRICS):
                found += _points_of(metric)
                yield
    return found


def _points_of(metric: memoryview) -> Iterator[Point]:
    name = ""
    for number, value in _fields(metric):
        if number == METRIC_NAME:
            name = _text(value)
        elif number in (METRIC_GAUGE, METRIC_SUM):
            kind = _bytes(value)
            is_counter = number == METRIC_SUM and _is_monotonic(kind)
            for point in _messages(kind, DATA_POINTS):
                yield _point(name, point, is_counter)


def _is_monotonic(total: memoryview) -> bool:
    return any(number == SUM_IS_MONOTONIC and bool(value) for number, value in _fields(total))


def _point(name: str, point: memoryview, is_counter: bool) -> Point:
    attributes: list[tuple[str, str]] = []
    amount = 0.0
    for number, value in _fields(point):
        if number == POINT_AS_DOUBLE:
            amount = _fixed(_DOUBLE, value)
        elif number == POINT_AS_INT:
            amount = _fixed(_SIGNED, value)
        elif number == POINT_ATTRIBUTES:
            attributes.append(_attribute(_bytes(value)))
    return Point(name, tuple(sorted(attributes)), amount, is_counter)


def _attribute(pair: memoryview) -> tuple[str, str]:
    key = text = ""
    for number, value in _fields(pair):
        if number == KEY:
            key = _text(value)
        elif number == VALUE:
            text = _any_value(_bytes(value))
    return key, text


def _any_value(data: memoryview) -> str:
    for number, value in _fields(data):
        if number == ANY_STRING:
            return _text(value)
        if number == ANY_BOOL:
            return "true" if value else "false"
        if number == ANY_INT and isinstance(value, int):
            return str(value if value < 1 << 63 else value - (1 << 64))
        if number == ANY_DOUBLE:
            return repr(_fixed(_DOUBLE, value))
    return ""


# -- protobuf -------------------------------------------------------------------------------------------


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(data):
        if number == wanted:
            yield _bytes(value)


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order, each with its number."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        value: Value
        if kind == VARINT:
            value, position = _varint(data, position)
        else:
            length, position = _length(data, position, kind)
            following = position + length
            if following > end:
                raise MalformedError(f"a field of {length} bytes reaches beyond its message")
            value, position = data[position:following], following
        yield tag >> 3, value


def _length(data: memoryview, position: int, kind: int) -> tuple[int, int]:
    if kind == LENGTH:
        return _varint(data, position)
    if kind == FIXED64:
        return 8, position
    if kind == FIXED32:
        return 4, position
    raise MalformedError(f"a field has the wire type {kind}, which is not in use")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > LONGEST_VARINT:
            raise MalformedError("a number has more than 64 bits")
    raise MalformedError("the message ends within a number")


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedError("a number is where a message should be")
    return value


def _text(value: Value) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError:
        raise MalformedError("a text is not UTF-8") from None


def _fixed(form: Struct, value: Value) -> float:
    data = _bytes(value)
    if len(data) != form.size:
        raise MalformedError(f"a number has {len(data)} bytes instead of {form.size}")
    number: float = form.unpack(data)[0]
    return number
