"""The columns of an Avro schema, as Spark has them."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.spark.options import OptionError

_PLAIN: dict[str, DataType] = {
    "null": StringType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "uuid": StringType(),
}


def fields_of_avro(schema: Any) -> StructType:
    """The columns of a record schema."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError("option 'value.avro.schema' must be the schema of a record")
    return StructType([StructField(field["name"], spark_type(field["type"])) for field in schema["fields"]])


def spark_type(kind: Any) -> DataType:
    if isinstance(kind, list):
        options = [option for option in kind if option != "null"]
        if len(options) != 1:
            raise OptionError(f"an Avro union of several types has no column type: {kind}")
        return spark_type(options[0])
    if isinstance(kind, str):
        kind = {"type": kind}
    return _complex_type(kind)


def _complex_type(kind: dict[str, Any]) -> DataType:
    name, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal":
        return DecimalType(kind["precision"], kind.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if name == "record":
        return fields_of_avro(kind)
    if name == "array":
        return ArrayType(spark_type(kind["items"]))
    if name == "map":
        return MapType(StringType(), spark_type(kind["values"]))
    if name not in _PLAIN:
        raise OptionError(f"option 'value.avro.schema': no column type for {name!r}")
    return _PLAIN[name]
