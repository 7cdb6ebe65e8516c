"""Which columns a read has, and where each comes from: the record, its place, or a field of its value.

Values without a format: key, value, topic, partition, offset, timestamp, timestampType, headers, as in Spark's own
connector for Kafka. With one a plain name is a field of the value; what belongs to the record is then written with an
underscore: `_offset`, `_timestamp`, ...
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

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
    """How to take a value apart. `fields` are its own; the columns for values that do not fit are not among them."""

    kind: str  # json, avro, protobuf, csv or string
    fields: pa.Schema
    mode: str = PERMISSIVE
    corrupt_column: str = CORRUPT
    delimiter: str = ","
    avro_schema: str | None = None
    reason_column: str | None = None
    registry: str | None = None  # values begin with the id of the schema that they were written with
    descriptors: bytes | None = None  # of Protobuf: a FileDescriptorSet, and the message that values are
    message: str = ""


@dataclass(frozen=True)
class RowShape:
    """The rows of a read."""

    schema: pa.Schema
    value: ValueFormat | None

    def record_column(self, name: str) -> str | None:
        """The column of the record that a name means; None for what comes out of the value."""
        if self.value is None:
            return name
        return name[1:] if name.startswith("_") and name[1:] in RECORD_COLUMNS else None

    def select(self, names: list[str]) -> RowShape:
        return RowShape(pa.schema([self.schema.field(name) for name in names]), self.value)


def shape_of(value: ValueFormat | None) -> RowShape:
    """All columns that there are: the fields of the value first."""
    if value is None:
        return RowShape(pa.schema(list(RECORD_COLUMNS.items())), None)
    own = [field for field in value.fields if field.name not in (value.corrupt_column, value.reason_column)]
    beside = [pa.field(value.corrupt_column, pa.string())]
    if value.reason_column is not None:
        beside.insert(0, pa.field(value.reason_column, pa.string()))
    record = [pa.field(f"_{name}", kind) for name, kind in RECORD_COLUMNS.items()]
    return RowShape(pa.schema([*own, *beside, *record]), value)
