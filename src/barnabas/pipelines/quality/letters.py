"""Dead letters: the original records, byte for byte, with reason and origin in headers.

The columns of the record are identified by name, as the source names them. In addition to the fields of a typed value
they have an underscore (`_key`, `_value`, ...), and a plain `key` is a field of the value. If the value was not parsed
they have none.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

CORRUPT = "_corrupt_record"
"""Column for values that do not match the schema, in the source and in Spark's `from_json`."""

PARSE_ERROR = "_error"
"""Column of the source with the reason why a value does not match the schema."""

HEADERS = "array<struct<key:string,value:binary>>"
PARTS = ("key", "value", "headers", "topic", "partition", "offset")
POSITION_FIELDS = ("topic", "partition", "offset")


def record_columns(types: Mapping[str, str]) -> dict[str, str]:
    """Return the record columns by record part; `types` are the column types of the dataset."""
    prefix = "_" if any(f"_{part}" in types for part in PARTS) else ""
    return {part: prefix + part for part in PARTS if _holds(part, prefix + part, types)}


def _holds(part: str, column: str, types: Mapping[str, str]) -> bool:
    kind = types.get(column)
    if part == "headers":
        return kind == HEADERS
    if part in ("key", "value"):
        # With a column for corrupt values, a string with a plain name may be a field; binary columns are the record's.
        return kind == "binary" or (kind == "string" and CORRUPT not in types)
    return kind is not None


def letters_of(dataset: str, rejected: DataFrame, types: Mapping[str, str], reason: Column) -> DataFrame:
    """Convert rejected rows to records for a sink; `types` are the column types of the dataset."""
    columns = {part: F.col(name) for part, name in record_columns(types).items()}
    return rejected.select(
        columns.get("key", F.lit(None)).cast("binary").alias("key"),
        columns.get("value", _stand_in(types)).cast("binary").alias("value"),
        letter_headers(dataset, reason, columns).alias("headers"),
    )


def _stand_in(types: Mapping[str, str]) -> Column:
    """Value for a dataset without the original one: the corrupt value, or the row as JSON."""
    row = F.to_json(F.struct(*types)).cast("binary")
    return F.coalesce(F.col(CORRUPT).cast("binary"), row) if CORRUPT in types else row


def letter_headers(dataset: str, reason: Column, columns: Mapping[str, Column], **more: Column) -> Column:
    """Return the record's headers, followed by reason, position and `more` as `errors.*` headers. A NULL value has no
    header."""
    facts = {"dataset": F.lit(dataset), "reason": reason}
    facts |= {part: columns[part] for part in POSITION_FIELDS if part in columns} | more
    headers = F.array(*(_header(f"errors.{name}", fact) for name, fact in facts.items()))
    errors = F.filter(headers, lambda header: header["value"].isNotNull()).cast(HEADERS)
    if "headers" not in columns:
        return errors
    return F.concat(F.coalesce(columns["headers"], F.array().cast(HEADERS)), errors)


def _header(name: str, fact: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), fact.cast("string").cast("binary").alias("value"))
