"""Columns of the original record, in addition to the fields of its value: the content of a dead letter."""

from __future__ import annotations

ORIGIN = (
    "_key BINARY, _value BINARY, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "_topic STRING, _partition INT, _offset BIGINT"
)
"""For `.schema(...)` of a source with `value.format`. The bytes are those of the record: invalid UTF-8 and JSON fields
without a column are preserved when a quality rule sends the row to the dead-letter topic."""
