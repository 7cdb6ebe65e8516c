"""Lengths of time as Spark's SQL wants them."""

from __future__ import annotations

from barnabas.durations import seconds_of


def interval_of(text: str) -> str:
    """`"30s"` as `"30000 milliseconds"`; ValueError for what is no length of time."""
    return f"{round(seconds_of(text) * 1000)} milliseconds"
