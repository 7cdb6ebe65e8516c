"""Encoder of counters and gauges in OpenTelemetry's protobuf format, for OTLP over HTTP.

The numbers are those of the fields in `opentelemetry/proto/metrics/v1/metrics.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

from barnabas.metrics.registry import Registry, Sample

VARINT, FIXED64, LENGTH = 0, 1, 2
CUMULATIVE = 2

_FIXED = Struct("<Q")
_SIGNED = Struct("<q")
_DOUBLE = Struct("<d")


def encode_metrics(
    registry: Registry, resource: Mapping[str, str], scope: str, *, start: int, now: int
) -> bytes:
    """Return an ExportMetricsServiceRequest; times in nanoseconds. Histograms are left out."""
    times = _number(2, FIXED64, _FIXED.pack(start)) + _number(3, FIXED64, _FIXED.pack(now))
    metrics = bytearray()
    for family in registry.families():
        points = b"".join(_message(1, times + _point(sample)) for sample in family.samples())
        metric = family.metric
        if points and metric.kind in ("counter", "gauge"):
            described = _text(1, metric.name) + _text(2, metric.help)
            if metric.kind == "counter":
                points += _number(2, VARINT, bytes([CUMULATIVE])) + _number(3, VARINT, b"\1")  # monotonic
            metrics += _message(2, described + _message(7 if metric.kind == "counter" else 5, points))
    scoped = _message(1, _text(1, scope)) + bytes(metrics)
    return _message(1, _message(1, _attributes(1, resource.items())) + _message(2, scoped))


def _point(sample: Sample) -> bytes:
    if isinstance(sample.value, int):
        value = _number(6, FIXED64, _SIGNED.pack(sample.value))
    else:
        value = _number(4, FIXED64, _DOUBLE.pack(sample.value))
    return value + _attributes(7, sample.labels)


def _attributes(number: int, pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_message(number, _text(1, key) + _message(2, _text(1, value))) for key, value in pairs)


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return _number(number, LENGTH, _varint(len(content)) + content)


def _number(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + content


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
