"""A dataset under its quality rules: what goes on, what is set aside, and how many rows broke which rule.

A condition that is NULL for a row is not met: a rule says what must be true, and NULL does not say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.definitions.settings import QualityRule
from barnabas.pipelines.quality.observation import OBSERVATION


@dataclass(frozen=True, slots=True)
class Checked:
    """`kept` replaces the dataset; `rejected` has one column more, `reasons`, and goes to the dead letters."""

    kept: DataFrame
    rejected: DataFrame | None


def apply_rules(dataset: str, frame: DataFrame, rules: Sequence[QualityRule]) -> Checked:
    if not rules:
        return Checked(frame, None)
    counted = frame.observe(
        OBSERVATION + dataset,
        F.count(F.lit(1)).alias("rows"),
        *(F.count(F.when(_broken(rule), 1)).alias(rule.name) for rule in rules),
    )
    kept = counted.filter(_goes_on(rules)) if any(rule.action != "expect" for rule in rules) else counted
    quarantine = [rule for rule in rules if rule.action == "quarantine"]
    return Checked(kept, _rejected(frame, quarantine) if quarantine else None)


def dead_letters(dataset: str, rejected: DataFrame) -> DataFrame:
    """Records for the dead-letter topic: the original key and value where the dataset has them, else the row as JSON,
    with the reasons and the origin in headers, under the names that Kafka Connect uses for its own."""
    columns = rejected.columns
    original = "value" in columns and dict(rejected.dtypes)["value"] in ("binary", "string")
    row = F.to_json(F.struct(*(name for name in columns if name != "reasons")))
    value = F.col("value") if original else row
    key = F.col("key") if "key" in columns else F.lit(None)
    return rejected.select(
        key.cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.array(*_headers(dataset, columns)).alias("headers"),
    )


def _headers(dataset: str, columns: Sequence[str]) -> list[Column]:
    facts = {
        "errors.dataset": F.lit(dataset),
        "errors.reason": F.concat_ws("; ", "reasons"),
        **{f"errors.{name}": F.col(name) for name in ("topic", "partition", "offset") if name in columns},
    }
    return [
        F.struct(F.lit(name).alias("key"), fact.cast("string").cast("binary").alias("value"))
        for name, fact in facts.items()
    ]


def _goes_on(rules: Sequence[QualityRule]) -> Column:
    """True for rows that no `drop` or `quarantine` stops; an error for one that a `fail` refuses."""
    passes = F.lit(True)
    for rule in rules:
        if rule.action in ("drop", "quarantine"):
            passes = passes & ~_broken(rule)
        elif rule.action == "fail":
            text = f"The quality rule '{rule.name}' of {rule.dataset} does not hold: {rule.condition}"
            passes = passes & F.when(_broken(rule), F.raise_error(F.lit(text)).cast("boolean")).otherwise(
                True
            )
    return passes


def _rejected(frame: DataFrame, rules: Sequence[QualityRule]) -> DataFrame:
    reasons = F.array_compact(F.array(*(F.when(_broken(rule), F.lit(rule.name)) for rule in rules)))
    return frame.withColumn("reasons", reasons).filter(F.size("reasons") > 0)


def _broken(rule: QualityRule) -> Column:
    return ~F.coalesce(F.expr(rule.condition), F.lit(False))
