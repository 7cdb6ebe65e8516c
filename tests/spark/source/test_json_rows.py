"""JSON rejected by Arrow, parsed row by row like Arrow and like Spark's `from_json`."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody writes Spark
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas.spark.source.ddl import parse_ddl
from barnabas.tables.parsing.json_rows import RowReader
from barnabas.tables.parsing.values import _json_parser, _json_row_parser
from tests.spark.source.test_typed import rows

KINDS = (
    "STRING", "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "BOOLEAN", "DECIMAL(5,2)", "TIMESTAMP",
    "TIMESTAMP_NTZ", "DATE", "ARRAY<INT>", "ARRAY<STRING>", "STRUCT<a: INT, b: STRING>",
    "ARRAY<STRUCT<a: INT, b: STRING>>",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "-7", "127", "128", "-129", "32768", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "12345678901234567890123", "1.0", "1.25", "1.255", "-1.255", "999.995", "1e3", "1E-2",
    "1.5e2", "1e400", "-1e400", "1e-400", "1700000000",
)  # fmt: skip
TEXTS = (
    '""', '"a"', '" "', '"1"', '"1.25"', '"1,000.5"', '"1e2"', '"NaN"', '"Infinity"', '"-INF"', '"+INF"', '"inf"',
    '"true"', '"null"', r'"\u00e9\n\"\\\/"', r'"\ud83d\ude00"', '"\u00e9"',
)  # fmt: skip
TIMES = (
    '"2026-11-16"', '"2026-11"', '"2026"', '" 2026-1-6 "', '"2026-02-30"', '"2026-13-01"', '"0001-01-01"',
    '"2026-11-16T01:02:03Z"', '"2026-11-16 01:02:03"', '"2026-11-16T1:2:3"', '"2026-11-16T01:02"', '"2026-11-16 01"',
    '"2026-11-16T01:02:03.1"', '"2026-11-16T01:02:03.123456"', '"2026-11-16T01:02:03.123456789Z"',
    '"2026-11-16T01:02:03+02:00"', '"2026-11-16T01:02:03+0200"', '"2026-11-16T01:02:03-2"', '"2026-11-16T01:02:03 UTC"',
    '"2026-11-16T01:02:03 Europe/Berlin"', '"2026-11-16T01:02:03Mars/City"', '"2026-11-16T01:02:03+19:00"',
    '"2026-11-16T24:00:00Z"', '"2026-11-16T01:60:00"', '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"',
    '"1969-12-31T23:59:59.5Z"', '"2026-11-16T01:02:03Z and more"', '"soon"',
)  # fmt: skip
OTHERS = (
    "true", "false", "null", "[]", "{}", "[1,2,null]", '[1,"x"]', '["a","b"]', "[[1]]", '[{"a":1,"b":"x"},null]',
    '[{"a":"x","b":"y"}]', '{"a":1,"b":"x"}', '{"a":"x","b":"y"}', '{"a":1,"b":2,"c":3}', '{"a":1,"a":2}',
    '{"b":{"c":[1,true,null]}}', '{"a": 1, "b": 2.50}', '{"b": {"c": 1}}',
)  # fmt: skip
TOKENS = (*NUMBERS, *TEXTS, *TIMES, *OTHERS)

# Documents that are unusual at the top level.
WHOLE = (
    b"", b" ", b"null", b"1", b'"f"', b"[]", b'[{"f":1}]', b"{", b'{"f":1', b'{"f":1,}', b'{"f":01}', b'{"f":+1}',
    b'{"f":1} x', b'{"f":1}{"f":2}', b'{"f":1,"f":2}', b'{"f":1}\n', b'\n{ "f" :\t1 }', b'{"F":1}', b"{'f':1}",
    b"{f:1}", b'{"f":NaN}', b'{"f":Infinity}', b'{/* */"f":1}', b'\xef\xbb\xbf{"f":1}', b'{"first":"\xff","f":1}',
    b'{"first":"a\tb"}', rb'{"first":"\ud800"}', rb'{"first":"\u0000"}', b'{"f":tru}',
)  # fmt: skip


# Deliberate differences (docs/pipelines/source.md). `from_json` re-encodes numbers and objects for a STRING; here they
# are unchanged.
REWRITTEN = {
    "-0", "1e3", "1E-2", "1.5e2", "1e400", "-1e400", "1e-400", '{"a": 1, "b": 2.50}', '{"b": {"c": 1}}',
}  # fmt: skip
# Invalid JSON does not match.
STRICTER = (
    b"", b" ", b'{"f":1} x', b'{"f":1}{"f":2}', b"{'f':1}", b'{"f":NaN}', b'{"f":Infinity}', rb'{"first":"\ud800"}',
)  # fmt: skip
OTHERWISE = {
    ("128", "TINYINT"),  # -128 there
    ("9223372036854775807", "TIMESTAMP"),  # a second before 1970: it wraps around
    ('"1"', "DATE"),  # a day after the first of January 1970 there
    ('"2026-11-16T01:02:03+19:00"', "TIMESTAMP"),  # no zone of Java
}


def document(token: str) -> bytes:
    return b'{"first":"kept","f":%s,"more":1}' % token.encode()


def read_by_rows(value: bytes, kind: str) -> tuple[Any, bool]:
    reader = RowReader(to_arrow_schema(parse_ddl(f"f {kind}"), timezone="UTC"))
    found = reader.read(value)
    return found.fields.get("f"), found.fits


def test_value_is_the_same_for_every_reader() -> None:
    """Arrow alone, and the reader of single rows, on all that Arrow takes."""
    taken = 0
    for token, kind in product(TOKENS, KINDS):
        schema = to_arrow_schema(parse_ddl(f"f {kind}"), timezone="UTC")
        try:
            by_arrow = _json_parser(schema)(pa.array([document(token)], pa.binary())).columns[0]
        except pa.ArrowInvalid:
            continue
        value, fits = read_by_rows(document(token), kind)
        assert fits, (token, kind)
        assert pa.array([value], schema.field("f").type) == by_arrow, (token, kind)
        taken += 1
    assert taken > 150


class Reading(NamedTuple):
    """A document with one type: the field before, the field, and whether it does not fit."""

    first: str | None
    value: Any
    bad: bool


def as_from_json(spark: SparkSession, documents: Sequence[bytes]) -> dict[str, list[Reading]]:
    """All documents with all types, in one job."""
    frame = spark.createDataFrame([(value,) for value in documents], "value BINARY").coalesce(1)
    options = {"timeZone": "UTC", "columnNameOfCorruptRecord": "bad"}
    text = F.col("value").cast("string")
    parsed = [F.from_json(text, f"first STRING, f {kind}, bad STRING", options).alias(kind) for kind in KINDS]
    readings = [
        F.struct(f"`{kind}`.first", f"`{kind}`.f", F.isnotnull(f"`{kind}`.bad")).alias(kind) for kind in KINDS
    ]
    table = frame.select(*parsed).select(*readings).toArrow()
    return {kind: [Reading(*row.values()) for row in table[kind].to_pylist()] for kind in KINDS}


def as_the_source(documents: Sequence[bytes]) -> dict[str, list[Reading]]:
    found = {}
    for kind in KINDS:
        read = rows(list(documents), f"first STRING, f {kind}, _corrupt_record BINARY", value_format="json")
        found[kind] = [Reading(row["first"], row["f"], row["_corrupt_record"] is not None) for row in read]
    return found


def test_odd_values_are_read_as_from_json_reads_them(spark: SparkSession) -> None:
    documents = {
        **{token: document(token) for token in TOKENS},
        **{repr(complete): complete for complete in WHOLE},
    }
    expected, ours = as_from_json(spark, [*documents.values()]), as_the_source([*documents.values()])
    different = {
        (name, kind): (their, our)
        for kind in KINDS
        for name, their, our in zip(documents, expected[kind], ours[kind], strict=True)
        if not same(their, our)
    }
    rewritten = {key: pair for key, pair in different.items() if key[0] in REWRITTEN}
    assert {kind for _, kind in rewritten} == {"STRING", "STRUCT<a: INT, b: STRING>"}
    assert all(our.value == name for (name, kind), (_, our) in rewritten.items() if kind == "STRING")
    stricter = {key: pair for key, pair in different.items() if key[0] in map(repr, STRICTER)}
    assert {name for name, _ in stricter} == set(map(repr, STRICTER))
    assert all(our.bad and not their.bad for their, our in stricter.values())
    assert different.keys() - rewritten.keys() - stricter.keys() == OTHERWISE


def same(one: Reading, other: Reading) -> bool:
    return one == other or (one[::2] == other[::2] and {repr(one.value), repr(other.value)} == {"nan"})


SCHEMA = "s STRING, n BIGINT, d DOUBLE, b BOOLEAN, t TIMESTAMP, l ARRAY<STRING>, o STRUCT<s: STRING, d: DATE>"
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("sdn"), inner, max_size=3),
    max_leaves=4,
)
FITTING = {
    "s": st.text(max_size=5),
    "n": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "b": st.booleans(),
    "t": st.datetimes().map(lambda moment: moment.isoformat()),
    "l": st.lists(st.text(max_size=3) | st.none(), max_size=3),
    "o": st.fixed_dictionaries({"s": st.text(max_size=3)}, optional={"d": st.dates().map(str)}),
}


@given(
    st.fixed_dictionaries({}, optional={name: fitting | st.none() for name, fitting in FITTING.items()}),
    st.dictionaries(st.sampled_from("sndbtlox"), ANYTHING, max_size=2),
)
@settings(max_examples=150, deadline=None)
def test_any_document_is_equal_for_all_readers(fitting: dict[str, Any], other: dict[str, Any]) -> None:
    schema = to_arrow_schema(parse_ddl(SCHEMA), timezone="UTC")
    for found in (fitting, {**fitting, **other}):
        values = pa.array([json.dumps(found).encode()], pa.binary())
        try:
            by_arrow = _json_parser(schema)(values)
        except pa.ArrowInvalid:
            continue
        by_row = _json_row_parser(schema)(values)
        assert by_row.columns == by_arrow.columns
        assert not by_row.bad.any()


@pytest.mark.parametrize("depth", [100, 100_000])
def test_depth_and_size_are_no_way_to_end_a_task(depth: int) -> None:
    nested = b'{"f":' + b"[" * depth + b"]" * depth + b"}"
    long = b'{"f":' + b"9" * depth + b"}"
    exponent = b'{"f":1e' + b"9" * min(depth, 30) + b"}"
    for kind in KINDS:
        for value in (nested, long, exponent):
            read_by_rows(value, kind)
