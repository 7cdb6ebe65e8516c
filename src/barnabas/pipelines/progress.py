"""Lag of a query in a StreamingQueryListener: Spark gives Python data sources no `metrics` in `sources`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.pipelines.running.progress import offsets_reached


def offsets_behind(source: Mapping[str, Any]) -> dict[str, int]:
    """Return, by partition (`orders-0`), the offsets between the end of the micro-batch and the end of the topic.

    `source` is an element of `event.progress.sources`. Sources without topics have no partitions.
    """
    end = offsets_reached({"sources": [source]})
    latest = offsets_reached({"sources": [{"endOffset": source.get("latestOffset")}]})
    return {str(tp): max(0, offset - end[tp]) for tp, offset in latest.items() if tp in end}
