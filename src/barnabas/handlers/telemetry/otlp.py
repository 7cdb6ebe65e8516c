"""Decoder of metrics in OpenTelemetry's protobuf format, as far as Kafka's clients use it: gauges and sums.

Only the required fields are decoded, by their numbers in `opentelemetry/proto/metrics/v1/metrics.proto`; all
others are skipped. The sender chooses their number, so fields of any kind are counted, and reading them is a
generator that yields after some hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.common.cooperative import PIECE, Steps

Attributes = tuple[tuple[str, str], ...]
Value = int | memoryview
"""Value of a field: a varint, or the bytes of anything else."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_VARINT = 63  # bits before the last group of seven

_DOUBLE = Struct("<d")
_SIGNED = Struct("<q")

METRICS_DATA_RESOURCE_METRICS = 1
RESOURCE_METRICS_SCOPE_METRICS = 2
SCOPE_METRICS_METRICS = 2
METRICS = (METRICS_DATA_RESOURCE_METRICS, RESOURCE_METRICS_SCOPE_METRICS, SCOPE_METRICS_METRICS)
METRIC_NAME, METRIC_GAUGE, METRIC_SUM = 1, 5, 7
DATA_POINTS = 1
SUM_IS_MONOTONIC = 3
POINT_AS_DOUBLE, POINT_AS_INT, POINT_ATTRIBUTES = 4, 6, 7
KEY, VALUE = 1, 2
ANY_STRING, ANY_BOOL, ANY_INT, ANY_DOUBLE = 1, 2, 3, 4

FIELDS_PER_POINT = 40
"""Java clients send 17, as each point has a separate resource, scope and metric; an attribute takes four."""
FIELDS_PER_MESSAGE = 3
"""Cost of a message that could hold points, in plain fields."""
MAX_POINT = 8192
"""Bytes. A point is read in one step; those of Java clients have 200 bytes."""
MAX_TEXT = 1024
"""Maximum length of a decoded name or label; the rest would not be shown."""


class MalformedError(ValueError):
    """The data does not follow OpenTelemetry's format."""


class PayloadTooLargeError(ValueError):
    """The data may be valid, but exceeds a limit."""


class MetricPoint(NamedTuple):
    """One value of a metric at the time of the push."""

    metric: str
    attributes: Attributes
    value: float
    is_counter: bool


class _Bounds:
    """Remaining points and fields of one push."""

    __slots__ = ("_fields", "_max_points", "_next_pause", "_points")

    def __init__(self, max_points: int) -> None:
        self._max_points = self._points = max_points
        self._fields = (max_points + PIECE) * FIELDS_PER_POINT
        self._next_pause = self._fields - PIECE

    def count_fields(self, number: int = 1) -> None:
        self._fields -= number
        if self._fields < 0:
            raise PayloadTooLargeError(
                f"more than {FIELDS_PER_POINT} fields for each of {self._max_points} points "
                "(barnabas.telemetry.max.points)"
            )

    def count_point(self, size: int) -> None:
        self._points -= 1
        if self._points < 0:
            raise PayloadTooLargeError(f"more than {self._max_points} points (barnabas.telemetry.max.points)")
        if size > MAX_POINT:
            raise PayloadTooLargeError(f"a point of {size} bytes, more than {MAX_POINT}")

    def is_pause_due(self) -> bool:
        if self._fields > self._next_pause:
            return False
        self._next_pause = self._fields - PIECE
        return True


def read_points(data: memoryview, max_points: int, take: Callable[[MetricPoint], None]) -> Steps[None]:
    """Pass each gauge and sum in a MetricsData message to `take`; raise MalformedError or PayloadTooLargeError."""
    bounds = _Bounds(max_points)
    for metric in _nested(data, METRICS, bounds):
        if metric is None:
            yield
            continue
        for point in _points_of(metric, bounds):
            if point is None:
                yield
            else:
                take(point)


def _points_of(metric: memoryview, bounds: _Bounds) -> Iterator[MetricPoint | None]:
    """Yield points; None requests a pause, here and below."""
    name = ""
    for number, value in _fields(metric, bounds):
        if number == METRIC_NAME:
            name = _text(value)
        elif number in (METRIC_GAUGE, METRIC_SUM):
            kind = _bytes(value)
            is_counter = number == METRIC_SUM and (yield from _is_monotonic(kind, bounds))
            for point in _nested(kind, (DATA_POINTS,), bounds):
                yield None if point is None else _point(name, point, is_counter, bounds)
        if bounds.is_pause_due():
            yield None


def _is_monotonic(total: memoryview, bounds: _Bounds) -> Generator[None, None, bool]:
    for number, value in _fields(total, bounds):
        if number == SUM_IS_MONOTONIC:
            return bool(value)
        if bounds.is_pause_due():
            yield None
    return False


def _point(name: str, point: memoryview, is_counter: bool, bounds: _Bounds) -> MetricPoint:
    bounds.count_point(len(point))
    attributes: list[tuple[str, str]] = []
    amount = 0.0
    for number, value in _fields(point, bounds):
        if number == POINT_AS_DOUBLE:
            amount = _fixed(_DOUBLE, value)
        elif number == POINT_AS_INT:
            amount = _fixed(_SIGNED, value)
        elif number == POINT_ATTRIBUTES:
            attributes.append(_attribute(_bytes(value), bounds))
    return MetricPoint(name, tuple(sorted(attributes)), amount, is_counter)


def _attribute(pair: memoryview, bounds: _Bounds) -> tuple[str, str]:
    key = text = ""
    for number, value in _fields(pair, bounds):
        if number == KEY:
            key = _text(value)
        elif number == VALUE:
            text = _any_value(_bytes(value), bounds)
    return key, text


def _any_value(data: memoryview, bounds: _Bounds) -> str:
    for number, value in _fields(data, bounds):
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


def _nested(data: memoryview, path: tuple[int, ...], bounds: _Bounds) -> Iterator[memoryview | None]:
    """Yield the messages at a path of field numbers."""
    for number, value in _fields(data, bounds):
        bounds.count_fields(FIELDS_PER_MESSAGE - 1)
        if number == path[0]:
            message = _bytes(value)
            if len(path) > 1:
                yield from _nested(message, path[1:], bounds)
            else:
                yield message
        if bounds.is_pause_due():
            yield None


def _fields(data: memoryview, bounds: _Bounds) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message with their numbers. Most tags and lengths take one byte."""
    position, end = 0, len(data)
    count = bounds.count_fields
    while position < end:
        count()
        tag = data[position]
        if tag < 0x80:
            position += 1
        else:
            tag, position = _varint(data, position)
        kind = tag & 7
        if kind == LENGTH and position < end and (length := data[position]) < 0x80:
            position += 1
        elif kind == VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        else:
            length, position = _length(data, position, kind)
        following = position + length
        if following > end:
            raise MalformedError(f"a field of {length} bytes exceeds its message")
        yield tag >> 3, data[position:following]
        position = following


def _length(data: memoryview, position: int, kind: int) -> tuple[int, int]:
    if kind == LENGTH:
        return _varint(data, position)
    if kind == FIXED64:
        return 8, position
    if kind == FIXED32:
        return 4, position
    raise MalformedError(f"a field has the unknown wire type {kind}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > MAX_VARINT:
            raise MalformedError("a number has more than 64 bits")
    raise MalformedError("the message ends inside a varint")


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedError("expected a message, got a number")
    return value


def _text(value: Value) -> str:
    data = _bytes(value)
    if len(data) > MAX_TEXT:
        return str(data[:MAX_TEXT], "utf-8", "ignore")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise MalformedError("a string is not valid UTF-8") from None


def _fixed(form: Struct, value: Value) -> float:
    data = _bytes(value)
    if len(data) != form.size:
        raise MalformedError(f"a number has {len(data)} bytes instead of {form.size}")
    number: float = form.unpack(data)[0]
    return number
