"""Plain JSON objects parsed by our loop: the same result as Arrow's parser."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.tables.ddl import arrow_schema
from barnabas.tables.parsing.values import (
    FEW,
    MAX_FIELDS,
    Parsed,
    PlainReader,
    _json_parser,
    _json_row_parser,
    halving,
    is_plain,
    value_parser,
)
from barnabas.tables.shapes import ValueFormat

KINDS = ("STRING", "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "BOOLEAN")
TOKENS = (
    "0", "-0", "-", "1", "01", "-7", "127", "128", "-128", "-129", "32768", "2147483648", "-2147483648",
    "999999999999999999", "9223372036854775807", "9223372036854775808", "123456789012345678901", "1.", ".5", "1.0",
    "1.25", "0.1", "0.30000000000000004", "123456789.123456", "0.000000000000001", "1234567890123456", "-0.0", "1e3",
    "1E-2", "1e400", '""', '"a"', '"é"', '"1"', '"true"', r'"\n"', r'"\u00e9"', '"', '"a', '"\x01"', "true", "false",
    "null", "tru", "nul", "falsey", "[]", "{}", "[1]", '{"a":1}', "NaN", "",
)  # fmt: skip
DOCUMENTS = (
    b"", b" ", b"{}", b" { } ", b"{", b"}", b"null", b"[]", b'{"f":1', b'{"f":1,}', b'{,"f":1}', b'{"f" :\t1\n}\r\n',
    b'{"f":1} x', b'{"f":1}{"f":2}', b'{"f":1,"f":2}', b'{"f":null,"f":1}', b'{"f":null,"f":null}', b'{"F":1}',
    b'{"\\u0066":1}', b'{"f"1}', b'{"f":1 "g":2}', b'{"g":"\xff","f":1}', b'{"f":"\xff"}', b'{"ff":1}',
    b'{"":1,"f":2}', b'{"f":1,"g":[1,{"f":2}]}', b'\xef\xbb\xbf{"f":1}',
)  # fmt: skip


def alone(schema: pa.Schema, values: pa.Array) -> Parsed:
    """Result without the loop."""
    return halving(_json_parser(schema), _json_row_parser(schema), FEW)(values)


def check_same(schema: pa.Schema, documents: list[bytes | None]) -> None:
    values = pa.array(documents, pa.binary())
    ours, other = value_parser(ValueFormat("json", schema), schema.names)(values), alone(schema, values)
    for own, expected in zip(ours.columns, other.columns, strict=True):
        own.validate(full=True)
        # As texts, because -0.0 equals 0.0.
        assert list(map(str, own)) == list(map(str, expected))
    assert ours.bad.tolist() == other.bad.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_value_is_read_as_arrow_reads_it(kind: str) -> None:
    schema = arrow_schema(f"first STRING, f {kind}")
    documents = [b'{"first":"kept","f":%s,"more":1}' % token.encode() for token in TOKENS]
    check_same(schema, [*documents, *DOCUMENTS, None])
    for document in (*documents, *DOCUMENTS):
        check_same(schema, [document])


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([1])


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["s", "n", "d", "b", "other"]), ANYTHING, max_size=6), max_size=8
    ),
    st.integers(0, 60),
    st.binary(max_size=2),
)
@example([{"s": "a"}], 6, b"\xff")
@settings(max_examples=200, deadline=None)
def test_any_document_is_read_as_arrow_reads_it(
    documents: list[dict[str, Any]], place: int, bytes_there: bytes
) -> None:
    """Also with some bytes that do not belong there."""
    schema = arrow_schema("s STRING, n BIGINT, d DOUBLE, b BOOLEAN")
    values = [json.dumps(document).encode() for document in documents]
    check_same(schema, [*values])
    check_same(schema, [value[:place] + bytes_there + value[place:] for value in values])


def test_rows_next_to_an_invalid_one_are_decoded_by_the_loop() -> None:
    schema = arrow_schema("s STRING, n INT")
    documents = [
        b'{"s":"a","n":1}',
        b'{"s":"\\n","n":2}',
        b"no JSON",
        None,
        b'{"n":4294967296}',
        b'{"s":"z","n":-5}',
    ]
    columns, odd = PlainReader(schema).read(pa.array(documents, pa.binary()))
    assert odd.tolist() == [False, True, True, False, True, False]
    assert [column.to_pylist()[0] for column in columns] == ["a", 1]
    parsed = value_parser(ValueFormat("json", schema), ["s", "n"])(pa.array(documents, pa.binary()))
    assert parsed.columns[0].to_pylist() == ["a", "\n", None, None, None, "z"]
    assert parsed.columns[1].to_pylist() == [1, 2, None, None, None, -5]
    assert parsed.bad.tolist() == [False, False, True, False, True, False]


def test_part_of_an_array_is_read_as_the_whole_is() -> None:
    schema = arrow_schema("n BIGINT")
    values = pa.array([b'{"n":%d}' % number for number in range(100)], pa.binary())
    (column,), _ = PlainReader(schema).read(values[40:60])
    assert column.to_pylist() == list(range(40, 60))


def test_types_and_numbers_of_fields_that_are_left_to_arrow() -> None:
    for kind in ("FLOAT", "DATE", "TIMESTAMP", "ARRAY<INT>", "STRUCT<a: INT>"):
        assert not is_plain(arrow_schema(f"f {kind}"))
    assert not is_plain(pa.schema([]))
    assert is_plain(arrow_schema(", ".join(f"f{index} INT" for index in range(MAX_FIELDS))))
    assert not is_plain(arrow_schema(", ".join(f"f{index} INT" for index in range(MAX_FIELDS + 1))))
