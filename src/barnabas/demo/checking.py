"""Whether every event was counted, once: the sums of the results beside what was written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from barnabas.demo.feeding import Feeder
from barnabas.demo.results import Results


class Check(NamedTuple):
    what: str
    expected: int
    found: int

    @property
    def good(self) -> bool:
        return self.expected == self.found


def all_checks(feeder: Feeder, results: Results, topics: Mapping[str, str], warehouse: Path) -> list[Check]:
    shop, services = topics["activity.topic"], topics["operations.topic"]
    events = feeder.delivered[shop] - feeder.kinds["bad"]
    rows, places = _parquet(warehouse)
    written = feeder.delivered[shop] + feeder.delivered[services]
    return [
        Check("activity: events by kind and minute", events, _sum(results, "activity.traffic", "count")),
        Check(
            "activity: views by page and minute",
            feeder.kinds["view"],
            _sum(results, "activity.pages", "views"),
        ),
        Check(
            "activity: searches by term", feeder.kinds["search"], _sum(results, "activity.searches", "count")
        ),
        Check(
            "activity: broken records set aside", feeder.kinds["bad"], results.counts[f"{shop}.dead-letters"]
        ),
        Check(
            "operations: reports by service and minute",
            feeder.delivered[services],
            _sum(results, "operations.services", "reports"),
        ),
        Check("warehouse: rows in Parquet files", written, rows),
        Check("warehouse: different offsets among them", written, places),
    ]


def _sum(results: Results, topic: str, field: str) -> int:
    return sum(row[field] for row in results.latest[topic].values())


def _parquet(folder: Path) -> tuple[int, int]:
    """Rows, and different places in topics: counted without Spark, by whoever else reads the files."""
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table(
        columns=["topic", "partition", "offset"]
    )
    return table.num_rows, table.group_by(["topic", "partition", "offset"]).aggregate([]).num_rows
