"""Parses Spark's progress reports of micro-batches to the figures shown, exported and stored. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.common.types import TopicPartition
from barnabas.spark import HadoopFolder, PipelineError

# -- Changed rows of a materialized view as records of a compacted topic -------------------------------

MARK = "published"
SCHEMA = "key STRING, value STRING"


class ViewPublisher:
    """Publishes one view; `options` are those of the sink."""

    def __init__(self, session: SparkSession, view: str, options: Mapping[str, str], storage: str) -> None:
        self._session = session
        self._view = view
        self._options = dict(options)
        self._folder = HadoopFolder(session, f"{storage}/published/{view}")

    def publish(self, rows: DataFrame) -> None:
        number, before = self._published()
        now = self._folder.path_of(str(number + 1))
        _keyed(self._view, rows).write.mode("overwrite").parquet(now)
        after = self._session.read.schema(SCHEMA).parquet(now)
        changed = after.alias("new").join(before.alias("old"), "key", "full_outer")
        changed = changed.where(~F.col("new.value").eqNullSafe(F.col("old.value")))
        changed.select("key", "new.value").write.format("barnabas").options(**self._options).mode(
            "append"
        ).save()
        self._folder.below(str(number + 1)).write_text(MARK, "")
        for name in self._folder.names():
            if name != str(number + 1):
                self._folder.delete(name)

    def _published(self) -> tuple[int, DataFrame]:
        """Return number and rows of the last complete publication. Files of a run killed before its completion are
        ignored."""
        done = [int(name) for name in self._folder.names() if self._folder.exists(f"{name}/{MARK}")]
        if not done:
            return 0, self._session.createDataFrame([], SCHEMA)
        return max(done), self._session.read.schema(SCHEMA).parquet(
            self._folder.path_of(f"{max(done)}/part-*")
        )


def _keyed(view: str, rows: DataFrame) -> DataFrame:
    if "key" not in rows.columns or len(rows.columns) < 2:
        raise PipelineError(
            f"`publish` needs a column `key` of type string in {view}, and at least one more column."
        )
    rest = [F.col(f"`{name}`") for name in rows.columns if name != "key"]
    return rows.select(F.col("key").cast("string"), F.to_json(F.struct(*rest)).alias("value"))


OBSERVATION = "quality:"
"""Name prefix of observed metrics with the counts of quality rules; followed by the dataset's name."""


class FlowProgress(msgspec.Struct):
    """Progress of one query. Rates are rows per second of the last non-empty micro-batch."""

    name: str
    batch: int = -1
    rows: int = 0
    """Since the start of this run."""
    input_rate: float = 0.0
    processed_rate: float = 0.0
    batch_seconds: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    late: int = 0
    """Late rows dropped since the start of this run, because their window was closed. Spark counts them after partial
    aggregation: one per window and key in each task, regardless of the number of events."""
    lag: int | None = None
    groups: list[str] = msgspec.field(default_factory=list)
    """Consumer groups with the progress of this flow."""
    watermark: str | None = None
    broken: dict[str, int] = msgspec.field(default_factory=dict)
    """Violations per quality rule, by `dataset: rule`."""

    def take(self, report: Mapping[str, Any]) -> None:
        """Add a report of a micro-batch; known reports are ignored."""
        if report["batchId"] < self.batch or (report["batchId"] == self.batch and not report["numInputRows"]):
            return
        again = report["batchId"] == self.batch
        self.batch = report["batchId"]
        self.state_rows = sum(each.get("numRowsTotal", 0) for each in report.get("stateOperators", ()))
        self.state_bytes = sum(each.get("memoryUsedBytes", 0) for each in report.get("stateOperators", ()))
        self.watermark = report.get("eventTime", {}).get("watermark", self.watermark)
        if again:
            return
        self.late += sum(
            each.get("numRowsDroppedByWatermark", 0) for each in report.get("stateOperators", ())
        )
        if not report["numInputRows"]:
            return
        self.rows += report["numInputRows"]
        self.input_rate = float(report.get("inputRowsPerSecond") or 0.0)
        self.processed_rate = float(report.get("processedRowsPerSecond") or 0.0)
        self.batch_seconds = report.get("durationMs", {}).get("triggerExecution", 0) / 1000
        self._count_broken(report.get("observedMetrics") or {})

    def _count_broken(self, observed: Mapping[str, Mapping[str, int]]) -> None:
        for name, counts in observed.items():
            if name.startswith(OBSERVATION):
                dataset = name.removeprefix(OBSERVATION)
                for rule, number in counts.items():
                    if rule != "rows":
                        label = f"{dataset}: {rule}"
                        self.broken[label] = self.broken.get(label, 0) + number


def offsets_reached(report: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the next offset of every partition, for sources with offsets in the format of Spark's Kafka source. If two
    sources of a flow read the same partition, the lower offset counts."""
    reached: dict[TopicPartition, int] = {}
    for source in report.get("sources", ()):
        for topic, partitions in _mapping(source.get("endOffset")).items():
            for partition, offset in _mapping(partitions).items():
                if partition.isdigit() and isinstance(offset, int):
                    tp = TopicPartition(topic, int(partition))
                    reached[tp] = min(offset, reached.get(tp, offset))
    return reached


def lag_of(reached: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, ends.get(tp, offset) - offset) for tp, offset in reached.items())


def merge_reports(reports: Iterable[Mapping[str, Any]], into: FlowProgress) -> FlowProgress:
    for report in reports:
        into.take(report)
    return into


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
