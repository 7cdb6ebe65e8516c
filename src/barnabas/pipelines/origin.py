"""The record that a row was read from, beside the fields of its value: what a dead letter is made of."""

from __future__ import annotations

ORIGIN = (
    "_key BINARY, _value BINARY, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "_topic STRING, _partition INT, _offset BIGINT"
)
"""For `.schema(...)` of a source with `value.format`. The bytes are the record's own: what is no UTF-8, or is JSON with
fields that no column has, is still all there when a quality rule sends it to the dead letters."""
