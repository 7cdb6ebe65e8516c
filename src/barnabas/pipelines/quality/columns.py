"""Applies quality rules to a dataset: rows to keep, rows to quarantine, and violations per rule.

A condition that is NULL for a row counts as violated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.definitions.settings import QualityRule
from barnabas.pipelines.quality.letters import PARSE_ERROR, letters_of
from barnabas.pipelines.running.progress import OBSERVATION

REASONS = "reasons"


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """`kept` replaces the dataset; `rejected` has an additional column REASONS, for the dead-letter topic."""

    kept: DataFrame
    rejected: DataFrame | None


def apply_rules(dataset: str, frame: DataFrame, rules: Sequence[QualityRule]) -> CheckedRows:
    if not rules:
        return CheckedRows(frame, None)
    counted = frame.observe(
        OBSERVATION + dataset,
        F.count(F.lit(1)).alias("rows"),
        *(F.count(F.when(_broken(rule), 1)).alias(rule.name) for rule in rules),
    )
    kept = counted.filter(_passing(rules)) if any(rule.action != "expect" for rule in rules) else counted
    quarantine = [rule for rule in rules if rule.action == "quarantine"]
    return CheckedRows(kept, _rejected(frame, quarantine) if quarantine else None)


def dead_letters(dataset: str, rejected: DataFrame) -> DataFrame:
    """Return records for the dead-letter topic: the original ones, with reasons and origin in headers."""
    types = {name: kind for name, kind in rejected.dtypes if name != REASONS}
    reasons = [
        F.concat_ws("; ", REASONS),
        *([F.col(PARSE_ERROR)] if types.get(PARSE_ERROR) == "string" else []),
    ]
    return letters_of(dataset, rejected, types, F.concat_ws(": ", *reasons))


def _passing(rules: Sequence[QualityRule]) -> Column:
    """True for rows that pass all `drop` and `quarantine` rules; an error for rows that violate a `fail` rule."""
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
    return frame.withColumn(REASONS, reasons).filter(F.size(REASONS) > 0)


def _broken(rule: QualityRule) -> Column:
    return ~F.coalesce(F.expr(rule.condition), F.lit(False))
