"""A Spark schema as the JSON of an Iceberg schema, with an id for every field. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from pyspark.sql import types as spark

from barnabas.spark.errors import PipelineError

_SIMPLE: dict[type[spark.DataType], str] = {
    spark.BooleanType: "boolean",
    spark.ByteType: "int",
    spark.ShortType: "int",
    spark.IntegerType: "int",
    spark.LongType: "long",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.DateType: "date",
    spark.TimestampType: "timestamptz",
    spark.TimestampNTZType: "timestamp",
    spark.StringType: "string",
    spark.BinaryType: "binary",
}
Shape = dict[str, Any]


def iceberg_schema(schema: spark.StructType) -> Shape:
    """Every column may be NULL: what a stream promises today it may not keep tomorrow, and Iceberg would refuse it."""
    return {"schema-id": 0, **_struct(schema, itertools.count(1))}


def columns_of(schema: Shape) -> dict[str, Any]:
    """The types of the columns by name, to compare: ids and documentation say nothing about what fits."""
    return {field["name"]: _without_ids(field["type"]) for field in schema["fields"]}


def _struct(schema: spark.StructType, ids: Iterator[int]) -> Shape:
    # The fields of one level are numbered before those within them, as Iceberg itself does.
    numbered = [(next(ids), field) for field in schema.fields]
    fields = [
        {"id": number, "name": field.name, "required": False, "type": _type(field.name, field.dataType, ids)}
        for number, field in numbered
    ]
    return {"type": "struct", "fields": fields}


def _type(name: str, kind: spark.DataType, ids: Iterator[int]) -> Any:
    if isinstance(kind, spark.StructType):
        return _struct(kind, ids)
    if isinstance(kind, spark.DecimalType):
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, spark.ArrayType):
        return {
            "type": "list",
            "element-id": next(ids),
            "element-required": False,
            "element": _type(name, kind.elementType, ids),
        }
    if isinstance(kind, spark.MapType):
        return {
            "type": "map",
            "key-id": next(ids),
            "value-id": next(ids),
            "value-required": False,
            "key": _type(name, kind.keyType, ids),
            "value": _type(name, kind.valueType, ids),
        }
    simple = _SIMPLE.get(type(kind))
    if simple is None:
        raise PipelineError(
            f"The column {name} is of type {kind.simpleString()}, which Iceberg does not have."
        )
    return simple


def _without_ids(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return columns_of(kind)
    return {name: _without_ids(kind[name]) for name in ("type", "element", "key", "value") if name in kind}
