"""Spark's DDL schemas, parsed without a session: the process that plans a Python source has none."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from barnabas.spark.options import OptionError
from barnabas.tables import DdlField, SchemaError, Type, parse_fields

PLAIN_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}


def parse_ddl(text: str) -> StructType:
    """Raises OptionError if the text is not a list of fields."""
    try:
        return _struct(parse_fields(text))
    except SchemaError as error:
        raise OptionError(str(error)) from None


def _struct(fields: list[DdlField]) -> StructType:
    return StructType([StructField(field.name, _spark_type(field.type)) for field in fields])


def _spark_type(kind: Type) -> DataType:
    name, parameters = kind
    if name == "array":
        return ArrayType(_spark_type(parameters[0]))
    if name == "map":
        return MapType(_spark_type(parameters[0]), _spark_type(parameters[1]))
    if name == "struct":
        return _struct(list(parameters))
    if name == "decimal":
        return DecimalType(*parameters)
    return PLAIN_TYPES[name]
