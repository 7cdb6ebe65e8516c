"""Filters of records, one by one and over columns, against a plain evaluator."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.opening import ConsumedRecord
from barnabas.filters import Filter, FilterError
from barnabas.filters.parser import parse
from barnabas.records.columnar.decode import HEADERS, TIMESTAMP
from tests.filters import plain

MOMENT = 1_763_370_000_000  # 2025-11-17T09:00:00Z


def record(
    value: Any = None,
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    timestamp: int = MOMENT,
    offset: int = 7,
) -> ConsumedRecord:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return ConsumedRecord("orders", 2, offset, timestamp, key, data, headers)


def columns_of(records: list[ConsumedRecord]) -> dict[str, pa.Array]:
    headers = [[{"key": name, "value": value} for name, value in found.headers] for found in records]
    return {
        "key": pa.array([found.key for found in records], pa.binary()),
        "value": pa.array([found.value for found in records], pa.binary()),
        "headers": pa.array(headers, HEADERS),
        "timestamp": pa.array([found.timestamp * 1000 for found in records], pa.int64()).view(TIMESTAMP),
        "offset": pa.array([found.offset for found in records], pa.int64()),
        "partition": pa.array([found.partition for found in records], pa.int32()),
    }


def both(text: str, found: ConsumedRecord) -> bool:
    """One record and a column of it give the same answer."""
    one = Filter(text).matches(found)
    mask = Filter(text).mask(columns_of([found]), 1)
    assert mask.tolist() == [one]
    return one


ORDER = {
    "amount": 12,
    "country": "DE",
    "tags": ["new", "vip"],
    "user": {"age": 41},
    "odd name": True,
    "none": None,
}


@pytest.mark.parametrize(
    "text",
    [
        "record.value.amount > 10",
        "value.amount > 10",
        "record.value.amount == 12.0",
        "record.value.country == 'DE' && record.value.amount < 13",
        "'DE' == record.value.country",
        "record.value.country in ['AT', 'DE']",
        "'vip' in record.value.tags",
        "'country' in record.value",
        "record.value.tags.exists(tag, tag.startsWith('v'))",
        "record.value.tags.all(tag, size(tag) == 3)",
        "record.value.user.age >= 41 ? true : false",
        "record.value['odd name']",
        "has(record.value.user.age) && !has(record.value.user.name)",
        "!has(record.value.missing) && has(record.value.none) && record.value.none == null",
        "record.value.missing == 1 || record.value.amount % 5 == 2",
        "record.valueAsText.contains('vip')",
        "record.keyAsText.matches('^k[0-9]+$')",
        "record.key == 'k1' && has(record.key)",
        "record.headers.type == 'order' && 'type' in record.headers",
        "record.headers['type'].endsWith('der')",
        "record.timestamp >= timestamp('2025-11-17T09:00:00Z')",
        "record.timestamp < timestamp('2025-11-17T09:00:00.000001Z')",
        "record.timestamp - timestamp('2025-11-17T08:00:00Z') == duration('1h')",
        "record.timestamp.getHours() == 9 && record.timestampMs == 1763370000000",
        "record.partition == 2 && 7 == record.offset && record.offset < 7.5",
        "record.value == record.value && record.value.amount - 2 * 5 == 2",
    ],
)
def test_an_order_matches(text: str) -> None:
    assert both(text, record(ORDER, b"k1", (("type", b"order"),)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("record.value.amount > 10", record({"amount": "12"})),
        ("record.value.amount > 10", record({"amount": True})),
        ("record.value.amount == 1", record({"amount": True})),
        ("record.value.amount > 10", record(None)),
        ("record.value.amount > 10", record(b"[12]")),
        ("record.value.amount > 10", record(b'{"amount": 12')),
        ("!has(record.value.amount)", record(b"plain text")),
        ("!has(record.value.amount)", record(None)),
        ("has(record.key)", record({})),
        ("record.keyAsText != 'a'", record({})),
        ("record.timestampMs < 0", record({}, timestamp=-1)),
        ("record.value.a + 1 > 0", record({"a": (1 << 63) - 1})),
        ("record.value.a / 0 == 1", record({"a": 1})),
        ("record.value.a", record({"a": "true"})),
    ],
)
def test_missing_values_do_not_match_and_are_counted(text: str, found: ConsumedRecord) -> None:
    assert not both(text, found)
    wanted = Filter(text)
    wanted.matches(found)
    columnar = Filter(text)
    columnar.mask(columns_of([found]), 1)
    expected = 0 if text in ("has(record.key)", "record.value.amount == 1") else 1
    assert wanted.failures.count == columnar.failures.count == expected
    assert bool(wanted.failures.first) is bool(expected)


def test_an_escape_hides_no_literal_from_the_search_for_it() -> None:
    assert both('record.value.name == "Jörg"', record(b'{"name": "J\\u00f6rg"}'))
    assert both('record.value.name == "Jörg"', record('{"name": "Jörg"}'.encode()))
    assert not both('record.value.name == "Jörg"', record({"name": "Georg"}))
    assert both(r'record.value.name == "a\"b\\"', record({"name": 'a"b\\'}))


def test_bytes_that_are_no_utf8_are_searched_as_text() -> None:
    assert both("record.valueAsText.contains('abc')", record(b"\xff\xfeabc"))
    assert both("record.valueAsText.matches('^..abc$')", record(b"\xff\xfeabc"))
    assert not both("record.valueAsText.startsWith('abc')", record(b"\xffabc"))


def test_value_may_be_decoded_by_another_decoder() -> None:
    wanted = Filter("record.value.country == 'DE'", lambda data: {"country": data.decode().upper()})
    assert wanted.matches(record(b"de"))
    assert wanted.mask(columns_of([record(b"de"), record(b"at")]), 2).tolist() == [True, False]
    failing = Filter("record.value.country == 'DE'", lambda data: {"x": int(data)})
    assert not failing.matches(record(b"x"))
    assert "cannot be decoded" in failing.failures.first


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "expected an expression, found the end"),
        ("record.value.amount >", 22, "expected an expression, found the end"),
        ("record.value.amount > 10 20", 26, "expected an operator or the end"),
        ("amount > 10", 1, "unknown name 'amount'"),
        ("record.amount > 10", 8, "a record has no 'amount'"),
        ("record == 1", 1, "unknown name 'record'"),
        ("value.a.map(x, x)", 9, "unknown function map()"),
        ("value.a.contains()", 9, "takes 1 arguments, not 0"),
        ("has(value)", 1, "has() takes a field"),
        ("value.a == 1u", 12, "unsigned numbers are not supported"),
        ("value.a == b'x'", 12, "byte strings are not supported"),
        ("value.a == 'x", 12, "unexpected character"),
        ("value.a == '\\q'", 13, "is not a valid character"),
        ("value.a == 9223372036854775808", 12, "does not fit in 64 bits"),
        ("keyAsText.matches('(')", 11, "invalid pattern in matches()"),
        ("(" * 40 + "true" + ")" * 40, 34, "nested more than 32 deep"),
        ("1" + " + 1" * 200 + " > 0", 399, "operators are nested more than 100 deep"),
        ("x" * 5000, 4097, "at most 4096 bytes"),
    ],
)
def test_invalid_filter_is_rejected_with_its_column(text: str, column: int, says: str) -> None:
    with pytest.raises(FilterError, match=r"^column") as refused:
        Filter(text)
    assert says in str(refused.value)
    assert refused.value.column == column


def test_search_reports_its_progress() -> None:
    assert Filter("record.value.a == 1 && record.offset > 5").sources == {"value", "offset"}
    assert Filter("has(record.key) || headers.x == 'y'").sources == {"key", "headers"}


FIELDS = ["a", "b", "country"]
TEXTS = st.sampled_from(["DE", "a", "", "ö", 'say "x"', "\\", "de\n"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.5, 2.0]), TEXTS)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3)
VALUES = st.one_of(
    OBJECTS.map(lambda found: json.dumps(found).encode()),
    OBJECTS.map(lambda found: json.dumps(found, ensure_ascii=False).encode()),
    st.sampled_from([None, b"", b"DE", b"[1]", b"\xff", b'{"a": 1', b'"DE"', b'{"country":"D\xc3"}']),
)
RECORDS = st.builds(
    record,
    VALUES,
    st.sampled_from([None, b"a", b"DE", b'{"a": 1}', b"\xffa"]),
    st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from([None, b"DE", b"\xff"])), max_size=2).map(
        tuple
    ),
    st.sampled_from([-1, 0, MOMENT]),
    st.integers(0, 9),
)
PATHS = st.sampled_from(
    [
        "record.value.a", "record.value.country", "value.b.a", "record.value['b']", "record.value.a[0]",
        "record.value", "record.key", "record.key.a", "keyAsText", "record.valueAsText", "record.headers",
        "record.headers.country", "record.offset", "record.partition", "record.timestampMs", "record.timestamp",
    ]
)  # fmt: skip
LITERALS = st.one_of(
    TEXTS.map(json.dumps),
    st.integers(-3, 3).map(str),
    st.sampled_from(["1.5", "2.0", "true", "false", "null", "['DE', 'a']", "[1, 2]", "{'a': 1}", "5",
                     "timestamp('1970-01-01T00:00:00Z')", "1763370000000"]),
)  # fmt: skip
OPERANDS = st.one_of(PATHS, LITERALS)
METHODS = ["startsWith", "endsWith", "contains"]
ATOMS = st.one_of(
    st.builds("{} {} {}".format, OPERANDS, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in"]), OPERANDS),
    st.builds("{}.{}({})".format, PATHS, st.sampled_from(METHODS), TEXTS.map(json.dumps)),
    st.builds("{}.matches({})".format, PATHS, st.sampled_from(["'^D'", "'.'", "'a|ö'", "''"])),
    st.builds("has({})".format, PATHS.filter(lambda path: "[" not in path and "." in path)),
    st.builds("{}.{}(x, {})".format, PATHS, st.sampled_from(["exists", "all"]),
              st.sampled_from(["x == 'DE'", "x > 1", "size(x) == 1", "x.a == 1"])),
    st.builds("size({}) == {}".format, PATHS, st.integers(0, 2)),
    st.builds("{} {} {} == {}".format, PATHS, st.sampled_from("+-*"), LITERALS, LITERALS),
    PATHS,
)  # fmt: skip
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, st.lists(RECORDS, min_size=1, max_size=5))
def test_filters_agree_with_a_plain_evaluator(text: str, records: list[ConsumedRecord]) -> None:
    tree = parse(text)
    expected = [
        plain.matches(
            tree, plain.record_of(found.key, found.value, found.headers, found.timestamp, (2, found.offset))
        )
        for found in records
    ]
    assert list(map(Filter(text).matches, records)) == expected
    assert Filter(text).mask(columns_of(records), len(records)).tolist() == expected


def test_a_mask_of_no_rows_is_empty() -> None:
    assert np.array_equal(Filter("record.offset > 1").mask(columns_of([]), 0), np.array([], np.bool_))
