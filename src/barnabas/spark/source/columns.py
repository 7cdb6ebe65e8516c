"""Columns of a read and their origin: the record, its partition, or a field of its value.

Without `value.format` the columns are those of Spark's own connector: key, value, topic, partition, offset, timestamp,
timestampType, and headers. With it a plain name is a field of the value, because values have fields named `key` and
`timestamp` too; what belongs to the record is then written with an underscore: `_offset`, `_timestamp`, ...
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.client.schemas import RegistryAccount
from barnabas.spark.options import OptionError, Options
from barnabas.spark.source.ddl import parse_ddl
from barnabas.spark.source.protobuf import protobuf_fields, protobuf_message, subscribed_topic

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

RECORD_COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
FORMATS = ("json", "avro", "protobuf", "csv", "string")
REASON = "_error"
"""Column for the reason why a value does not match, as in tables."""
ALL = "*"  # of `columns`
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def is_record_column(name: str) -> bool:
    """With `value.format`: whether an underscore says that a column is the record's."""
    return name.startswith("_") and name[1:] in RECORD_COLUMNS


@dataclass(frozen=True)
class SparkValueFormat:
    """Format of values. `fields` excludes the column for values that do not match."""

    kind: str
    fields: StructType
    mode: str
    corrupt_column: str
    delimiter: str = ","
    avro_schema: str | None = None
    registry: RegistryAccount | None = None
    descriptors: bytes | None = None
    message: str = ""


@dataclass(frozen=True)
class SparkRowShape:
    """The rows of a read. Picklable: tasks get it."""

    schema: StructType
    value: SparkValueFormat | None

    def record_column(self, name: str) -> str | None:
        """Record column that a name refers to; None for a field of the value."""
        if self.value is None:
            return name
        return name.removeprefix("_") if is_record_column(name) else None


def schema_of(raw_options: Mapping[str, str]) -> StructType:
    """The schema of a read if the caller gave none."""
    options = Options(raw_options, "source")
    fields = _fields_of_value(options, None)
    known = _namespace(options, fields)
    wanted = options.text("columns")
    if wanted is None:
        return StructType([StructField(name, kind) for name, kind in _default(options, fields).items()])
    listed = [name.strip() for name in wanted.split(",") if name.strip()]
    names = [each for name in listed for each in (_default(options, fields) if name == ALL else [name])]
    return StructType([StructField(name, _known(known, name)) for name in names])


def shape_of(raw_options: Mapping[str, str], schema: StructType) -> SparkRowShape:
    """Row layout for the tasks; an error if the schema has unknown columns."""
    options = Options(raw_options, "source")
    value = _value_format(options, schema)
    shape = SparkRowShape(schema, value)
    for field in schema.fields:
        column = shape.record_column(field.name)
        if column not in NEVER_NULL:
            _check_nullable(field.name, field.dataType, field.nullable)
        if column is not None:
            _check_type(field, _known(RECORD_COLUMNS, column))
        elif value is not None and field.name == value.corrupt_column:
            if not isinstance(field.dataType, (StringType, BinaryType)):
                raise OptionError(f"column {field.name!r} must be STRING or BINARY")
        elif value is not None and field.name == REASON:
            _check_type(field, StringType())
        elif value is not None and field.name not in value.fields.names:
            raise OptionError(f"unknown column {field.name!r}: the value has {', '.join(value.fields.names)}")
    return shape


def _check_nullable(name: str, kind: DataType, nullable: bool) -> None:
    """Spark relies on NOT NULL and reads garbage for nulls; a source cannot change a given schema."""
    if not nullable:
        raise OptionError(
            f"column {name!r} is NOT NULL in the schema, and a record may lack it: leave NOT NULL out, or give the "
            "fields by the option 'value.schema', which passes over it"
        )
    if isinstance(kind, StructType):
        for inner in kind.fields:
            _check_nullable(f"{name}.{inner.name}", inner.dataType, inner.nullable)
    elif isinstance(kind, ArrayType):
        _check_nullable(f"{name}[]", kind.elementType, kind.containsNull)


def _value_format(options: Options, schema: StructType) -> SparkValueFormat | None:
    kind = options.choice("value.format", FORMATS)
    if kind is None:
        return None
    corrupt = options.require("columnNameOfCorruptRecord")
    raw_options = _fields_of_value(options, schema)
    assert raw_options is not None
    fields = StructType([field for field in raw_options.fields if field.name not in (corrupt, REASON)])
    if kind == "json":
        for field in fields.fields:
            _check_json(field.name, field.dataType)
    return SparkValueFormat(
        kind,
        fields,
        options.choice("mode", MODES) or "PERMISSIVE",
        corrupt,
        options.require("value.csv.delimiter") if kind == "csv" else ",",
        _avro_text(options) if kind == "avro" else None,
        options.registry() if _is_framed(options, kind) else None,
        *(protobuf_message(options, fields) if kind == "protobuf" else ()),
    )


def _is_framed(options: Options, kind: str) -> bool:
    """True if values begin with the id of their writer's schema: said so, or no other schema is given."""
    if options.is_registered or kind == "protobuf":
        return kind in ("avro", "protobuf", "json")
    return kind == "avro" and options.text("value.avro.schema") is None


def _check_json(name: str, kind: DataType) -> None:
    """Reject types that Arrow's JSON parser cannot read, but Spark's can."""
    if isinstance(kind, (BinaryType, MapType)):
        raise OptionError(
            f"column {name!r} is {kind.simpleString()}, which value.format=json cannot read: read the value as it is, "
            "and take it apart with from_json"
        )
    for inner in kind.fields if isinstance(kind, StructType) else ():
        _check_json(f"{name}.{inner.name}", inner.dataType)
    if isinstance(kind, ArrayType):
        _check_json(f"{name}[]", kind.elementType)


def _fields_of_value(options: Options, schema: StructType | None) -> StructType | None:
    """From `value.schema`, from the caller's schema, or from the registered schema, in this order."""
    kind = options.choice("value.format", FORMATS)
    if kind is None:
        return None
    if kind == "string":
        return StructType([StructField("value", StringType())])
    ddl = options.text("value.schema")
    if ddl is not None:
        return parse_ddl(ddl)
    if schema is not None:
        return StructType([field for field in schema.fields if not is_record_column(field.name)])
    if kind == "avro":
        from barnabas.spark.source.avro import fields_of_avro

        return fields_of_avro(avro_schema(_avro_text(options)))
    if kind == "protobuf":
        return protobuf_fields(options)
    if kind == "json" and options.is_registered:
        return _json_fields(options)
    others = ", or 'value.registry' for those of a JSON Schema" if kind == "json" else ""
    raise OptionError(
        f"value.format={kind} needs the fields: give .schema(...) or the option 'value.schema'{others}"
    )


def _json_fields(options: Options) -> StructType:
    topic = subscribed_topic(
        options, "fields of a JSON Schema need 'subscribe' with one topic, or 'value.schema'"
    )
    registry = options.registry()
    from pyspark.sql.pandas.types import from_arrow_schema

    from barnabas.client import ClientError
    from barnabas.tables import SchemaError, registered_format

    try:
        found = registered_format(registry, topic)
    except (ClientError, SchemaError, ValueError) as error:
        raise OptionError(f"the schema of {topic} is not known: {error}") from error
    if found is None or found.kind != "json":
        raise OptionError(f"the registry has no JSON Schema for {topic}: give .schema(...) or 'value.schema'")
    return from_arrow_schema(found.fields)


def _avro_text(options: Options) -> str | None:
    """The schema to read with: given, or the newest that the registry has for the topic."""
    raw_options = options.text("value.avro.schema")
    if raw_options is not None:
        return raw_options
    topic = subscribed_topic(
        options, "a schema registry needs 'subscribe' with one topic, or 'value.avro.schema'"
    )
    from barnabas.client.schemas.client import RegistryError
    from barnabas.tables import SchemaError, newest_avro

    try:
        return newest_avro(_registry(options), topic)
    except (RegistryError, SchemaError, ValueError) as error:
        raise OptionError(f"the schema of {topic} is not known: {error}") from error


def _registry(options: Options) -> RegistryAccount:
    try:
        return options.registry()
    except OptionError as error:
        raise OptionError(
            f"value.format=avro needs the option 'value.avro.schema', or a schema registry ({error})"
        ) from None


def avro_schema(text: str | None) -> Any:
    if not text:
        raise OptionError("value.format=avro needs the option 'value.avro.schema'")
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"option 'value.avro.schema' is not valid JSON: {error}") from error


def _namespace(options: Options, fields: StructType | None) -> dict[str, DataType]:
    if fields is None:
        return RECORD_COLUMNS
    corrupt = {options.require("columnNameOfCorruptRecord"): StringType(), REASON: StringType()}
    own = {field.name: field.dataType for field in fields.fields}
    return {**corrupt, **own, **{f"_{name}": kind for name, kind in RECORD_COLUMNS.items()}}


def _default(options: Options, fields: StructType | None) -> dict[str, DataType]:
    if fields is not None:
        return {field.name: field.dataType for field in fields.fields}
    with_headers = options.flag("includeHeaders")
    return {name: kind for name, kind in RECORD_COLUMNS.items() if name != "headers" or with_headers}


def _known(known: Mapping[str, DataType], name: str) -> DataType:
    if name not in known:
        raise OptionError(f"unknown column {name!r}; columns: {', '.join(known)}")
    return known[name]


def _check_type(field: StructField, expected: DataType) -> None:
    if field.dataType == expected:
        return
    hint = ", or set the option 'value.format'" if field.name == "value" else ""
    raise OptionError(
        f"column {field.name!r} is {expected.simpleString()}, not {field.dataType.simpleString()}: "
        f"read it so and cast it{hint}"
    )
