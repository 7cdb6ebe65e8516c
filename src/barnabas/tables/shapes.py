"""Columns of a read and their origin: the record, its partition, or a field of its value.

Without a value format: key, value, topic, partition, offset, timestamp, timestampType, headers, as in Spark's Kafka
connector. With one, a plain name is a field of the value and record columns have an underscore: `_offset`,
`_timestamp`, ...
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from barnabas.client.schemas import RegistryAccount
from barnabas.records.columnar.decode import HEADERS, TIMESTAMP

RECORD_COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
PERMISSIVE, DROP_MALFORMED, FAIL_FAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
CORRUPT = "_corrupt_record"
REASON = "_error"


@dataclass(frozen=True)
class ValueFormat:
    """Format of values. `fields` excludes the columns for values that do not match."""

    kind: str  # json, avro, protobuf, csv or string
    fields: pa.Schema
    mode: str = PERMISSIVE
    corrupt_column: str = CORRUPT
    delimiter: str = ","
    avro_schema: str | None = None
    reason_column: str | None = None
    registry: RegistryAccount | None = None  # values begin with the id of their writer schema
    descriptors: bytes | None = None  # Protobuf: a FileDescriptorSet, and the message of the values
    message: str = ""


@dataclass(frozen=True)
class RowShape:
    """Row layout of a read."""

    schema: pa.Schema
    value: ValueFormat | None

    def record_column(self, name: str) -> str | None:
        """Record column that a name refers to; None for a field of the value."""
        if self.value is None:
            return name
        return name[1:] if name.startswith("_") and name[1:] in RECORD_COLUMNS else None

    def select(self, names: list[str]) -> RowShape:
        return RowShape(pa.schema([self.schema.field(name) for name in names]), self.value)


def shape_of(value: ValueFormat | None) -> RowShape:
    """All available columns, the fields of the value first."""
    if value is None:
        return RowShape(pa.schema(list(RECORD_COLUMNS.items())), None)
    own = [field for field in value.fields if field.name not in (value.corrupt_column, value.reason_column)]
    beside = [pa.field(value.corrupt_column, pa.string())]
    if value.reason_column is not None:
        beside.insert(0, pa.field(value.reason_column, pa.string()))
    record = [pa.field(f"_{name}", kind) for name, kind in RECORD_COLUMNS.items()]
    return RowShape(pa.schema([*own, *beside, *record]), value)
