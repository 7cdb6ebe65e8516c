"""Values of a real PostgreSQL as JSON and as Spark's types, and arrays of any shape."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.sources.postgres.database import connect, types_of
from barnabas.connect.sources.postgres.values import array, converter, spark_type
from barnabas.spark.errors import SourceError
from tests.support.databases.postgres import PostgresServer

EXAMPLES = [
    ("true", "bool", True, "BOOLEAN"),
    ("'-9223372036854775808'", "int8", -9223372036854775808, "BIGINT"),
    (
        "'12345678901234567890.1234567890'",
        "numeric(30,10)",
        "12345678901234567890.1234567890",
        "DECIMAL(30,10)",
    ),
    ("'NaN'", "numeric", "NaN", "STRING"),
    ("'1e40'", "numeric(50,5)", "1" + "0" * 40 + ".00000", "STRING"),
    ("'0.1'", "float8", 0.1, "DOUBLE"),
    ("'-Infinity'", "float4", "-Infinity", "FLOAT"),
    ("'2026-01-31 12:00:00.5+02'", "timestamptz", "2026-01-31T10:00:00.5Z", "TIMESTAMP"),
    ("'infinity'", "timestamptz", "infinity", "TIMESTAMP"),
    ("'2026-01-31 12:00:00'", "timestamp", "2026-01-31T12:00:00", "TIMESTAMP_NTZ"),
    ("'2026-01-31'", "date", "2026-01-31", "DATE"),
    ("'1 year 2 days'", "interval", "P1Y2D", "STRING"),
    (r"'\x00ff'", "bytea", "AP8=", "BINARY"),
    ("""'{"a": [1, null], "b": "ü"}'""", "jsonb", {"a": [1, None], "b": "ü"}, "STRING"),
    ("'{{1,2},{3,NULL}}'", "int[]", [[1, 2], [3, None]], "ARRAY<INT>"),
    (
        """ARRAY['a,b', 'NULL', 'q"\\', NULL, '']""",
        "text[]",
        ["a,b", "NULL", 'q"\\', None, ""],
        "ARRAY<STRING>",
    ),
    ("'[0:1]={1,2}'", "int[]", [1, 2], "ARRAY<INT>"),
    ("'sad'", "mood", "sad", "STRING"),
    ("'{sad,happy}'", "mood[]", ["sad", "happy"], "ARRAY<STRING>"),
    ("'7'", "small", 7, "INT"),
    ("'{1.50,2.25}'", "numeric(5,2)[]", ["1.50", "2.25"], "ARRAY<DECIMAL(5,2)>"),
    ("'a@b'", "text", "a@b", "STRING"),
]


@pytest.mark.timeout(120)
def test_values_keep_their_content(postgres: PostgresServer, database: str) -> None:
    with connect(postgres.url(database)) as connection:
        connection.execute("CREATE TYPE public.mood AS ENUM ('sad', 'happy')")
        connection.execute("CREATE DOMAIN public.small AS int CHECK (VALUE < 10)")
        connection.execute("SET search_path = public")
        names = ", ".join(f"c{at} {kind}" for at, (_, kind, _, _) in enumerate(EXAMPLES))
        connection.execute(f"CREATE TABLE examples ({names})")
        connection.execute(f"INSERT INTO examples VALUES ({', '.join(text for text, _, _, _ in EXAMPLES)})")
        types = types_of(connection)
        columns = connection.execute(
            "SELECT atttypid::int8, atttypmod FROM pg_attribute WHERE attrelid = 'examples'::regclass AND attnum > 0"
            " ORDER BY attnum"
        ).fetchall()
        with connection.cursor().copy("COPY examples TO STDOUT") as copy:
            (row,) = list(copy.rows())
    for text, (type_id, modifier), (_, kind, expected, spark) in zip(row, columns, EXAMPLES, strict=True):
        found = json.loads(msgspec.json.encode(converter(types, type_id)(text)))
        assert (kind, found) == (kind, expected)
        assert (kind, spark_type(types, type_id, modifier)) == (kind, spark)


@given(
    st.recursive(
        st.text(max_size=5), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8
    ).filter(lambda value: isinstance(value, list))
)
def test_arrays_come_back_as_they_were_written(value: list[object]) -> None:
    assert array(written(value), str) == value


def written(value: object) -> str:
    if isinstance(value, list):
        return "{" + ",".join(map(written, value)) + "}"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


@pytest.mark.parametrize("text", ["", "{", "1,2", "{1,}", '{"a}', "{1}}", "{1}2"])
def test_value_that_is_not_an_array_is_rejected(text: str) -> None:
    with pytest.raises(SourceError):
        array(text, str)
