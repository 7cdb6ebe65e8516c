"""Construction of dead letters, with substitutes where the dataset lacks the record."""

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.definitions.settings import QualityRule
from barnabas.pipelines.origin import ORIGIN
from barnabas.pipelines.quality.columns import apply_rules, dead_letters
from barnabas.pipelines.quality.letters import HEADERS, record_columns
from barnabas.spark.source.ddl import parse_ddl

NOT_TEXT = b"\xff\x00caf\xe9"
RULE = QualityRule(dataset="orders", name="has a user", condition="user IS NOT NULL", action="quarantine")
PLAIN = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}


@pytest.mark.parametrize(
    ("types", "found"),
    [
        (PLAIN, {part: part for part in PLAIN}),
        ({"value": "string", "key": "string"}, {"key": "key", "value": "value"}),
        ({"value": "double", "user": "string"}, {}),
        ({"headers": HEADERS, "value": "binary"}, {"headers": "headers", "value": "value"}),
        ({"headers": "string"}, {}),
        # Fields of a typed value may have any name.
        ({"key": "string", "value": "string", "offset": "bigint", "_topic": "string"}, {"topic": "_topic"}),
        ({"_key": "binary", "_value": "binary", "key": "int"}, {"key": "_key", "value": "_value"}),
        # `from_json` next to record columns, or fields with the same names.
        ({**PLAIN, "_corrupt_record": "string"}, {part: part for part in PLAIN}),
        ({"key": "string", "value": "string", "_corrupt_record": "binary"}, {}),
    ],
)
def test_the_record_is_found_by_the_names_that_the_source_gives_it(
    types: dict[str, str], found: dict[str, str]
) -> None:
    assert record_columns(types) == found


def test_the_columns_of_the_origin_are_those_that_a_letter_is_made_of() -> None:
    types = {field.name: field.dataType.simpleString() for field in parse_ddl(ORIGIN).fields}
    assert record_columns(types) == {name.removeprefix("_"): name for name in types}


def letters(
    spark: SparkSession, schema: str, row: tuple[object, ...]
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Key, value and headers of the one letter that a dataset with this row sends."""
    checked = apply_rules("orders", spark.createDataFrame([row], schema), [RULE])
    assert checked.rejected is not None
    (letter,) = dead_letters("orders", checked.rejected).collect()
    headers = [(key, None if value is None else bytes(value)) for key, value in letter["headers"]]
    return *(None if part is None else bytes(part) for part in letter[:2]), headers  # type: ignore[return-value]


REASON = [("errors.dataset", b"orders"), ("errors.reason", b"has a user")]
PLACE = [("errors.topic", b"shop"), ("errors.partition", b"3"), ("errors.offset", b"17")]


def test_a_letter_has_the_bytes_the_key_and_the_headers_of_its_record(spark: SparkSession) -> None:
    own = [
        ("trace", NOT_TEXT),
        ("empty", b""),
        ("none", None),
        ("trace", b"2"),
        ("errors.reason", b"earlier"),
    ]
    row = (None, NOT_TEXT, NOT_TEXT * 2, own, "shop", 3, 17)
    assert letters(spark, f"user STRING, {ORIGIN}", row) == (
        NOT_TEXT,
        NOT_TEXT * 2,
        [*own, *REASON, *PLACE],
    )


def test_null_in_a_record_is_null_in_its_dead_letter(spark: SparkSession) -> None:
    row = (None, None, None, None, "shop", 3, 17)
    assert letters(spark, f"user STRING, {ORIGIN}", row) == (None, None, [*REASON, *PLACE])


def test_corrupt_value_or_row_replaces_a_missing_record(spark: SparkSession) -> None:
    schema = "user STRING, n INT, _corrupt_record BINARY"
    assert letters(spark, schema, (None, None, NOT_TEXT)) == (None, NOT_TEXT, REASON)
    assert letters(spark, schema, (None, 5, None)) == (None, b'{"n":5}', REASON)
