"""Schema of a topic: given, else from a registry, else inferred from the first and last records and reported."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from barnabas.client.offsets import OffsetRange
from barnabas.client.schemas import RegistryAccount
from barnabas.client.schemas.client import RegistryError
from barnabas.tables.ddl import arrow_schema, ddl_of
from barnabas.tables.errors import SchemaError
from barnabas.tables.reader import Statistics, read_rows
from barnabas.tables.scan import run
from barnabas.tables.shapes import REASON, RowShape, ValueFormat, shape_of
from barnabas.tables.sources import OpenSource, TableSource

# -- Infer the schema of a topic from JSON values at its start and end. Pure ---------------------------

SAMPLE = 1000  # records at the start, and as many at the end
DEEPEST = 16
RARE = 20  # a type in fewer than one of 20 values is rare

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def infer_fields(values: Iterable[bytes | None]) -> pa.Schema | None:
    """None if most values are not JSON objects."""
    seen: dict[str, Counter[pa.DataType]] = defaultdict(Counter)
    good = bad = 0
    for value in values:
        if value is None:
            continue
        try:
            found = _decode(value)
        except (msgspec.MsgspecError, RecursionError):
            bad += 1
            continue
        good += 1
        for name, content in found.items():
            seen[name][type_of(content)] += 1
    if not seen or bad > good:
        return None
    return pa.schema([(name, settled(_common(kinds))) for name, kinds in seen.items()])


def _common(kinds: Counter[pa.DataType]) -> pa.DataType:
    """Widest common type, ignoring rare types that would force STRING: such values do not match."""
    found, total = pa.null(), kinds.total()
    for kind, count in kinds.most_common():
        both = merge(found, kind)
        if both == pa.string() and found not in (pa.null(), pa.string()) and count * RARE < total:
            continue
        found = both
    return found


def type_of(content: Any, depth: int = 0) -> pa.DataType:
    """BIGINT, DOUBLE, BOOLEAN, STRING, ARRAY or STRUCT; text stays text, even if it looks like a timestamp."""
    if isinstance(content, bool):
        return pa.bool_()
    if isinstance(content, int):
        return pa.int64() if -(1 << 63) <= content < 1 << 63 else pa.float64()
    if isinstance(content, float):
        return pa.float64()
    if content is None:
        return pa.null()
    if depth < DEEPEST and isinstance(content, list):
        inner = pa.null()
        for item in content:
            inner = merge(inner, type_of(item, depth + 1))
        return pa.list_(pa.field("element", inner))
    if depth < DEEPEST and isinstance(content, dict) and content:
        return pa.struct([(name, type_of(item, depth + 1)) for name, item in content.items()])
    return pa.string()


def merge(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Common type of both: any value fits STRING, which keeps the JSON text."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(pa.field("element", merge(one.value_type, other.value_type)))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = merge(fields.get(field.name, pa.null()), field.type)
        return pa.struct(list(fields.items()))
    return pa.string()


def settled(kind: pa.DataType) -> pa.DataType:
    """Replace the null type by STRING."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", settled(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, settled(field.type)) for field in kind])
    return kind


FORMATS = ("json", "avro", "csv", "string", "none")
Notify = Callable[[str], None]


@dataclass(frozen=True)
class ReadSchema:
    """Format and schema of the values as given by the caller."""

    schema: str | pa.Schema | None = None
    format: str | None = None
    registry: RegistryAccount | None = None
    delimiter: str = ","


def find_shape(topic: str, open_source: OpenSource, read_schema: ReadSchema, notify: Notify) -> RowShape:
    """Return the columns of the topic."""
    if read_schema.format is not None and read_schema.format not in FORMATS:
        raise SchemaError(f"unknown format {read_schema.format!r}; formats: {', '.join(FORMATS)}")
    if read_schema.format == "none":
        return shape_of(None)
    specified_format = _given(read_schema)
    if specified_format is not None:
        return shape_of(specified_format)
    if read_schema.registry is not None:
        found = _registered(read_schema.registry, topic, open_source, notify)
        if found is not None:
            return shape_of(found)
    return _inferred(topic, open_source, read_schema, notify)


def _registered(
    registry: RegistryAccount, topic: str, open_source: OpenSource, notify: Notify
) -> ValueFormat | None:
    """A discovered registry must not fail the read: the topic may be plain JSON."""
    from barnabas.tables.registered import registered_format

    try:
        found = registered_format(registry, topic, lambda: run(lambda: sample(topic, open_source)))
    except RegistryError as error:
        if not registry.discovered:
            raise
        notify(f"{topic}: read without the schema registry of the cluster: {error}.")
        return None
    if found is None and not registry.discovered:
        notify(f"{topic}: the registry has no schema for {topic}-value.")
    return found


def _given(read_schema: ReadSchema) -> ValueFormat | None:
    if read_schema.format == "string":
        return ValueFormat("string", pa.schema([("value", pa.string())]), reason_column=REASON)
    if read_schema.schema is None:
        if read_schema.format in ("csv", "avro"):
            raise SchemaError(f"format={read_schema.format!r} requires schema='...'")
        return None
    if read_schema.format == "avro":
        return _avro(read_schema.schema)
    fields = (
        read_schema.schema if isinstance(read_schema.schema, pa.Schema) else arrow_schema(read_schema.schema)
    )
    return ValueFormat(
        read_schema.format or "json", fields, delimiter=read_schema.delimiter, reason_column=REASON
    )


def _avro(schema: str | pa.Schema) -> ValueFormat:
    from barnabas.tables.parsing.avro_columns import avro_fields

    if not isinstance(schema, str):
        raise SchemaError("format='avro' requires the Avro schema, as JSON, in schema='...'")
    return ValueFormat("avro", avro_fields(schema), avro_schema=schema, reason_column=REASON)


def _inferred(topic: str, open_source: OpenSource, read_schema: ReadSchema, notify: Notify) -> RowShape:
    values = run(lambda: sample(topic, open_source))
    fields = infer_fields(values)
    if fields is None:
        if read_schema.format == "json":
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


async def _values(source: TableSource, read_schema: OffsetRange) -> list[bytes | None]:
    shape = shape_of(None).select(["value"])
    rows = read_rows(source, [read_schema], shape, Statistics())
    return [value async for batch in rows for value in batch.column("value").to_pylist()]
