"""Typed values: stable columns, and isolated bad values."""

import io
import json
from datetime import date
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import RecordColumns
from barnabas.spark.options import OptionError
from barnabas.spark.source.columns import SparkRowShape, SparkValueFormat, shape_of
from barnabas.spark.source.ddl import parse_ddl
from barnabas.spark.source.rows import row_builder
from barnabas.tables.errors import BadValueError

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
TP = TopicPartition("orders", 3)


def shape(schema: str, **options: str) -> SparkRowShape:
    settings = {**BASE, **{name.replace("_", "."): value for name, value in options.items()}}
    return shape_of(settings, parse_ddl(schema))


def rows(values: list[bytes | None], schema: str, **options: str) -> list[dict[str, Any]]:
    columns = RecordColumns(
        len(values),
        {
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(100, 100 + len(values)), pa.int64()),
        },
    )
    found = row_builder(shape(schema, **options)).batch(columns, TP).to_pylist()
    assert isinstance(found, list)
    return found


def test_json_fields_become_columns() -> None:
    values = [
        b'{"user":"ann","amount":1.5,"tags":["a","b"],"place":{"city":"Bern"},"at":"2026-11-16T01:02:03Z"}',
        b' {"amount": 2,\n "user": "b\\"}{ob", "more": [1]} ',
        b"{}",
        None,
    ]
    schema = "user STRING, amount DOUBLE, tags ARRAY<STRING>, place STRUCT<city: STRING>, at TIMESTAMP, _partition INT"
    found = rows(values, schema, value_format="json")

    assert [row["user"] for row in found] == ["ann", 'b"}{ob', None, None]
    assert [row["amount"] for row in found] == [1.5, 2.0, None, None]
    assert found[0]["tags"] == ["a", "b"]
    assert found[0]["place"] == {"city": "Bern"}
    assert found[0]["at"].isoformat() == "2026-11-16T01:02:03+00:00"
    assert {row["_partition"] for row in found} == {3}


def test_dates_are_read_as_they_are_written() -> None:
    values: list[bytes | None] = [
        b'{"d":"2026-11-16","all":["2026-01-02"],"in":{"d":"1969-12-31"}}',
        b'{"d":"soon"}',
        b"{}",
    ]
    schema = "d DATE, all ARRAY<DATE>, in STRUCT<d: DATE>, _corrupt_record STRING"
    found = rows(values, schema, value_format="json")
    assert found[0]["d"] == date(2026, 11, 16)
    assert found[0]["all"] == [date(2026, 1, 2)]
    assert found[0]["in"] == {"d": date(1969, 12, 31)}
    assert [row["_corrupt_record"] for row in found] == [None, '{"d":"soon"}', None]


@pytest.mark.parametrize(
    "schema", ["b BINARY", "m MAP<STRING, INT>", "s STRUCT<b: BINARY>", "a ARRAY<MAP<STRING, INT>>"]
)
def test_values_unsupported_by_json_are_rejected_with_an_alternative(schema: str) -> None:
    with pytest.raises(OptionError, match="from_json"):
        shape(schema, value_format="json")


BAD_JSON = [
    b"",
    b"oops",
    b"{",
    b"}",
    b'{"n":1}{"n":2}',
    b'{"n":"x"}',
    b"[1]",
    b'{"n":1',
    b'{"n":1}\n{"n":2}',
    b"\xff",
]


@pytest.mark.parametrize("bad", BAD_JSON)
def test_a_bad_value_does_not_move_its_neighbours(bad: bytes) -> None:
    values = [b'{"n":1}', bad, b'{"n":3}', None, b'{"n":5}']
    found = rows(values, "n INT, _offset BIGINT, _corrupt_record BINARY", value_format="json")

    assert [row["n"] for row in found] == [1, None, 3, None, 5]
    assert [row["_offset"] for row in found] == [100, 101, 102, 103, 104]
    assert [row["_corrupt_record"] for row in found] == [None, bad, None, None, None]


@given(st.lists(st.one_of(st.sampled_from(BAD_JSON), st.binary(max_size=12), st.integers(0, 9)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_mixture_of_values_keeps_every_row_in_its_place(mixture: list[bytes | int]) -> None:
    values: list[bytes | None] = [
        json.dumps({"n": value}).encode() if isinstance(value, int) else value for value in mixture
    ]
    found = rows(values, "n BIGINT, _corrupt_record BINARY", value_format="json") if values else []

    for value, row in zip(mixture, found, strict=True):
        if isinstance(value, int):
            assert row == {"n": value, "_corrupt_record": None}
        else:
            assert row["n"] is None or json.loads(value)["n"] == row["n"]


def test_modes_drop_or_fail() -> None:
    values: list[bytes | None] = [b'{"n":1}', b"oops", b'{"n":3}']

    dropped = rows(values, "n INT", value_format="json", mode="DROPMALFORMED")
    assert [row["n"] for row in dropped] == [1, 3]
    with pytest.raises(BadValueError, match="the value at offset 101 of orders-3 is not valid json"):
        rows(values, "n INT", value_format="json", mode="failfast")


def test_text_of_bad_bytes_can_be_a_string() -> None:
    found = rows([b"caf\xc3\xa9 \xff"], "n INT, _corrupt_record STRING", value_format="json")

    assert found == [{"n": None, "_corrupt_record": "café �"}]


def test_csv_lines_become_columns() -> None:
    values: list[bytes | None] = [
        b'1,"a, b",2.5',
        b"2,,",
        None,
        b"x,y,z",
        b"3,c",
        b'4,"d,1',
        b"5,e\n6,f,1",
        b"7,g,1",
    ]
    found = rows(values, "id INT, name STRING, price DOUBLE, _corrupt_record STRING", value_format="csv")

    assert [row["id"] for row in found] == [1, 2, None, None, None, None, None, 7]
    assert found[0] == {"id": 1, "name": "a, b", "price": 2.5, "_corrupt_record": None}
    assert [row["_corrupt_record"] is None for row in found] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
        True,
    ]


def test_avro_values_become_columns() -> None:
    schema = {
        "type": "record",
        "name": "order",
        "fields": [{"name": "user", "type": ["null", "string"]}, {"name": "amount", "type": "double"}],
    }

    def written(row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return out.getvalue()

    good = written({"user": "ann", "amount": 1.5})
    values: list[bytes | None] = [good, good[:-1], None, good + b"x", written({"user": None, "amount": 2})]
    options = {"value_format": "avro", "value_avro_schema": json.dumps(schema)}
    found = rows(values, "user STRING, amount DOUBLE, _corrupt_record BINARY", **options)

    assert [row["amount"] for row in found] == [1.5, None, None, None, 2.0]
    assert [row["_corrupt_record"] is None for row in found] == [True, False, True, False, True]


def test_strings_are_checked_to_be_text() -> None:
    found = rows(
        [b"caf\xc3\xa9", None, b"\xff", b""], "value STRING, _corrupt_record BINARY", value_format="string"
    )

    assert [row["value"] for row in found] == ["café", None, None, ""]
    assert found[2]["_corrupt_record"] == b"\xff"


def test_only_wanted_fields_are_parsed() -> None:
    form = shape("b INT", value_format="json", value_schema="a INT, b INT").value
    assert isinstance(form, SparkValueFormat)

    assert rows([b'{"a":"no number","b":2}'], "b INT", value_format="json", value_schema="a INT, b INT") == [
        {"b": 2}
    ]
