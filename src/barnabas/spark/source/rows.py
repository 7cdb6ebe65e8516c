"""The rows that Spark takes, made by the reader that tables have too."""

from __future__ import annotations

from pyspark.sql.pandas.types import to_arrow_schema

from barnabas.spark.source.columns import REASON, SparkRowShape
from barnabas.tables import RowBuilder, shapes

__all__ = ["RowBuilder", "row_builder"]


def row_builder(shape: SparkRowShape) -> RowBuilder:
    """One a task."""
    return RowBuilder(shapes.RowShape(to_arrow_schema(shape.schema, timezone="UTC"), _value_format(shape)))


def _value_format(shape: SparkRowShape) -> shapes.ValueFormat | None:
    form = shape.value
    if form is None:
        return None
    fields = to_arrow_schema(form.fields, timezone="UTC")
    return shapes.ValueFormat(
        form.kind,
        fields,
        form.mode,
        form.corrupt_column,
        form.delimiter,
        form.avro_schema,
        REASON,
        registry=form.registry,
        descriptors=form.descriptors,
        message=form.message,
    )
