"""Schemas of the source: available and requested columns."""

import pytest
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from barnabas.spark.options import OptionError
from barnabas.spark.source.columns import schema_of, shape_of
from barnabas.spark.source.ddl import parse_ddl

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
AVRO = '{"type":"record","name":"o","fields":[{"name":"user","type":["null","string"]},{"name":"n","type":"long"}]}'


def ddl(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def test_the_columns_are_those_of_sparks_connector() -> None:
    plain = (
        "key binary, value binary, topic string, partition int, "
        "offset bigint, timestamp timestamp, timestampType int"
    )

    assert ddl(schema_of(BASE)) == plain
    headers = "headers array<struct<key:string,value:binary>>"
    assert ddl(schema_of({**BASE, "includeHeaders": "true"})) == f"{plain}, {headers}"


def test_columns_are_chosen_by_name_and_in_order() -> None:
    assert ddl(schema_of({**BASE, "columns": "offset, value"})) == "offset bigint, value binary"
    with pytest.raises(OptionError, match="unknown column 'ofset'; columns: key, value"):
        schema_of({**BASE, "columns": "ofset"})


def test_with_a_format_plain_names_are_the_values_and_underscores_the_records() -> None:
    options = {**BASE, "value.format": "json", "value.schema": "user STRING, timestamp TIMESTAMP"}

    assert ddl(schema_of(options)) == "user string, timestamp timestamp"
    chosen = schema_of({**options, "columns": "user,timestamp,_timestamp,_offset"})
    assert ddl(chosen) == "user string, timestamp timestamp, _timestamp timestamp, _offset bigint"
    shape = shape_of(options, chosen)
    assert [shape.record_column(name) for name in chosen.names] == [None, None, "timestamp", "offset"]


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_schema_declares_corrupt_values_as_bytes_or_text(kind: str) -> None:
    options = {**BASE, "value.format": "json", "value.schema": f"user STRING, _corrupt_record {kind}"}

    assert ddl(schema_of(options)) == f"user string, _corrupt_record {kind}"
    chosen = schema_of({**options, "columns": "_corrupt_record,_key"})
    assert ddl(chosen) == f"_corrupt_record {kind}, _key binary"
    shape = shape_of(options, chosen)
    assert shape.value is not None
    assert shape.value.fields.names == ["user"]


def test_avro_values_have_columns() -> None:
    options = {**BASE, "value.format": "avro", "value.avro.schema": AVRO}

    assert ddl(schema_of(options)) == "user string, n bigint"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"value.format": "json"}, "needs the fields"),
        ({"value.format": "xml"}, "must be one of json, avro, protobuf, csv, string"),
        ({"value.format": "avro"}, r"needs the option 'value\.avro\.schema'"),
        ({"value.format": "json", "value.schema": "user STRNG"}, "unknown type 'strng'"),
        ({"value.format": "json", "value.schema": "user"}, "not a valid schema"),
    ],
)
def test_format_without_its_required_options_is_rejected(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        schema_of({**BASE, **options})


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (StructField("n", LongType(), False), "n"),
        (StructField("_key", BinaryType(), False), "_key"),
        (StructField("l", ArrayType(LongType(), False)), r"l\[\]"),
        (StructField("o", StructType([StructField("n", LongType(), False)])), r"o\.n"),
    ],
)
def test_nullable_columns_cannot_be_declared_not_null(field: StructField, name: str) -> None:
    with pytest.raises(OptionError, match=f"column '{name}' is NOT NULL .* 'value.schema'"):
        shape_of({**BASE, "value.format": "json"}, StructType([field]))


def test_non_null_columns_may_be_declared_so() -> None:
    schema = StructType([StructField("n", LongType()), StructField("_offset", LongType(), False)])
    assert shape_of({**BASE, "value.format": "json"}, schema).schema == schema
    assert ddl(schema_of({**BASE, "value.format": "json", "value.schema": "n BIGINT NOT NULL"})) == "n bigint"


def test_schema_of_another_type_is_reported_with_the_column_type() -> None:
    with pytest.raises(OptionError, match=r"column 'value' is binary, not string: .* 'value.format'"):
        shape_of(BASE, parse_ddl("value STRING"))
    with pytest.raises(OptionError, match="unknown column 'user'"):
        shape_of(BASE, parse_ddl("user STRING"))


def test_ddl_is_sparks() -> None:
    text = "a STRING NOT NULL, `b c`: ARRAY<STRUCT<d: INT, e: MAP<STRING, DECIMAL(10,2)>>>, f timestamp"

    assert ddl(parse_ddl(text)) == (
        "a string, b c array<struct<d:int,e:map<string,decimal(10,2)>>>, f timestamp"
    )
    for broken in ("", "a", "a INT,", "a ARRAY<INT", "a INT; b INT", "a DECIMAL(x)"):
        with pytest.raises(OptionError):
            parse_ddl(broken)
