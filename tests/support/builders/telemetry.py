"""Client metrics in OpenTelemetry's protobuf format."""

from __future__ import annotations

import struct


def varint(number: int) -> bytes:
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F)
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(key: str, value: str) -> bytes:
    return field(7, field(1, key.encode()) + field(2, field(1, value.encode())))


def point(value: float | int, **attributes: str) -> bytes:
    number = (
        varint(6 << 3 | 1) + struct.pack("<q", value)
        if isinstance(value, int)
        else varint(4 << 3 | 1) + struct.pack("<d", value)
    )
    return field(1, number + b"".join(attribute(key, text) for key, text in attributes.items()))


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name.encode()) + field(3, b"ms") + field(5, b"".join(points))


def counter(name: str, *points: bytes) -> bytes:
    cumulative, monotonic = varint(2 << 3) + varint(2), varint(3 << 3) + varint(1)
    return field(1, name.encode()) + field(7, b"".join(points) + cumulative + monotonic)


def metrics_data(*metrics: bytes) -> bytes:
    scope = b"".join(field(2, metric) for metric in metrics)
    resource = field(1, field(1, b""))
    return field(1, resource + field(2, scope))
