"""What a batch means for a table with keys: of each key the newest row, and rows that have no key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.connect.ends import DELETED, ERROR, ORDER


def without_deleted(rows: DataFrame) -> DataFrame:
    return rows.filter(~F.coalesce(F.col(DELETED), F.lit(False))) if DELETED in rows.columns else rows


def divided_by_key(
    rows: DataFrame, columns: Mapping[str, str], keys: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Rows that have all of their key, and the others with `_error`."""
    rows = rows.withColumns({key: _key(key, columns, keys) for key in keys})
    lacks = F.array_compact(F.array(*(F.when(F.col(f"`{key}`").isNull(), F.lit(key)) for key in keys)))
    reason = F.concat(
        F.array_join(lacks, ", "), F.lit(f" is null, and {', '.join(keys)} is the key of the table")
    )
    return rows.filter(F.size(lacks) == 0), rows.filter(F.size(lacks) > 0).withColumn(ERROR, reason)


def newest(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Without an order of its own, a row that comes later is newer."""
    ordered = rows if ORDER in rows.columns else rows.withColumn(ORDER, F.monotonically_increasing_id())
    whole = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    found = ordered.groupBy(*(F.col(f"`{key}`") for key in keys))
    return found.agg(F.max_by(whole, F.col(ORDER)).alias("newest")).select("newest.*")


def _key(key: str, columns: Mapping[str, str], keys: Sequence[str]) -> Column:
    """A record without a value has its key only: as it is, or as an object in JSON."""
    column = F.col(f"`{key}`")
    if "_key" not in columns or DELETED not in columns:
        return column
    text = F.col("_key").cast("string")
    found = F.get_json_object(text, f"$.{key}")
    if len(keys) == 1:
        found = F.coalesce(found, text)
    return F.when(F.col(DELETED), F.coalesce(column, found.try_cast(columns[key]))).otherwise(column)
