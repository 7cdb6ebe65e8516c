"""Schema of a topic: given, else from a registry, else inferred from the first and last records and reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from barnabas.client.offsets import OffsetRange
from barnabas.tables.ddl import arrow_schema, ddl_of
from barnabas.tables.errors import SchemaError
from barnabas.tables.inference import SAMPLE, infer_fields
from barnabas.tables.reader import Statistics, read_rows
from barnabas.tables.scan import run
from barnabas.tables.shapes import REASON, RowShape, ValueFormat, shape_of
from barnabas.tables.sources import OpenSource, TableSource

FORMATS = ("json", "avro", "csv", "string", "none")
Notify = Callable[[str], None]


@dataclass(frozen=True)
class ReadSchema:
    """Format and schema of the values as given by the caller."""

    schema: str | pa.Schema | None = None
    format: str | None = None
    registry: str | None = None
    delimiter: str = ","


def find_shape(topic: str, open_source: OpenSource, wanted: ReadSchema, notify: Notify) -> RowShape:
    """Return the columns of the topic."""
    if wanted.format is not None and wanted.format not in FORMATS:
        raise SchemaError(f"unknown format {wanted.format!r}; formats: {', '.join(FORMATS)}")
    if wanted.format == "none":
        return shape_of(None)
    given = _given(wanted)
    if given is not None:
        return shape_of(given)
    if wanted.registry is not None:
        from barnabas.tables.registered import registered_format

        found = registered_format(wanted.registry, topic, lambda: run(lambda: sample(topic, open_source)))
        if found is not None:
            return shape_of(found)
        notify(f"{topic}: the registry has no schema for {topic}-value.")
    return _inferred(topic, open_source, wanted, notify)


def _given(wanted: ReadSchema) -> ValueFormat | None:
    if wanted.format == "string":
        return ValueFormat("string", pa.schema([("value", pa.string())]), reason_column=REASON)
    if wanted.schema is None:
        if wanted.format in ("csv", "avro"):
            raise SchemaError(f"format={wanted.format!r} requires schema='...'")
        return None
    if wanted.format == "avro":
        return _avro(wanted.schema)
    fields = wanted.schema if isinstance(wanted.schema, pa.Schema) else arrow_schema(wanted.schema)
    return ValueFormat(wanted.format or "json", fields, delimiter=wanted.delimiter, reason_column=REASON)


def _avro(schema: str | pa.Schema) -> ValueFormat:
    from barnabas.tables.parsing.avro_columns import avro_fields

    if not isinstance(schema, str):
        raise SchemaError("format='avro' requires the Avro schema, as JSON, in schema='...'")
    return ValueFormat("avro", avro_fields(schema), avro_schema=schema, reason_column=REASON)


def _inferred(topic: str, open_source: OpenSource, wanted: ReadSchema, notify: Notify) -> RowShape:
    values = run(lambda: sample(topic, open_source))
    fields = infer_fields(values)
    if fields is None:
        if wanted.format == "json":
            raise SchemaError(f"{topic} has no JSON objects to infer a schema from: pass schema='...'")
        notify(
            f"{topic}: most values are not JSON objects; the columns are key, value and the other record fields."
        )
        return shape_of(None)
    text = ", ".join(f"{field.name} {ddl_of(field.type)}" for field in fields)
    notify(f"{topic}: {text} (inferred from {len(values):,} records; pass a schema to override it)")
    return shape_of(ValueFormat("json", fields, reason_column=REASON))


async def sample(topic: str, open_source: OpenSource) -> list[bytes | None]:
    """Sample values of the first and last records, evenly across partitions."""
    source = await open_source()
    try:
        snapshot = await source.snapshot(topic)
        filled = {at: bounds for at, bounds in snapshot.items() if bounds.until > bounds.first}
        share = -(-SAMPLE // max(1, len(filled)))
        found: list[bytes | None] = []
        for at, (first, until) in filled.items():
            middle = min(first + share, until)
            found += await _values(source, OffsetRange(at, first, middle))
            if until > middle:
                found += await _values(source, OffsetRange(at, max(middle, until - share), until))
        return found
    finally:
        await source.close()


async def _values(source: TableSource, wanted: OffsetRange) -> list[bytes | None]:
    shape = shape_of(None).select(["value"])
    rows = read_rows(source, [wanted], shape, Statistics())
    return [value async for batch in rows for value in batch.column("value").to_pylist()]
