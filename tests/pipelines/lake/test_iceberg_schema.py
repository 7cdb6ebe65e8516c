"""Conversion of Spark types to Iceberg types."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from barnabas.pipelines.lake.iceberg_table import columns_of, iceberg_schema
from barnabas.spark.errors import PipelineError

NESTED = (
    StructType()
    .add("at", TimestampType(), nullable=False)
    .add("place", StructType().add("city", StringType()).add("level", ShortType()))
    .add("prices", ArrayType(DecimalType(10, 2)))
    .add("labels", MapType(StringType(), IntegerType()))
)


def test_fields_of_one_level_are_numbered_before_those_within() -> None:
    at, place, prices, labels = iceberg_schema(NESTED)["fields"]
    assert [field["id"] for field in (at, place, prices, labels)] == [1, 2, 3, 4]
    assert at == {"id": 1, "name": "at", "required": False, "type": "timestamptz"}
    assert [(field["id"], field["type"]) for field in place["type"]["fields"]] == [(5, "string"), (6, "int")]
    assert (prices["type"]["element-id"], prices["type"]["element"]) == (7, "decimal(10, 2)")
    assert (labels["type"]["key-id"], labels["type"]["value-id"]) == (8, 9)


def test_comparison_ignores_ids() -> None:
    assert columns_of(iceberg_schema(NESTED)) == {
        "at": "timestamptz",
        "place": {"city": "string", "level": "int"},
        "prices": {"type": "list", "element": "decimal(10, 2)"},
        "labels": {"type": "map", "key": "string", "value": "int"},
    }


def test_a_type_that_iceberg_does_not_have_is_named_with_its_column() -> None:
    with pytest.raises(PipelineError, match="The column any is of type variant"):
        iceberg_schema(StructType().add("any", VariantType()))
