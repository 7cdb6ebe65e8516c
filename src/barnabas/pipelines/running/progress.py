"""Parses Spark's progress reports of micro-batches to the figures shown, exported and stored. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from barnabas.common.types import TopicPartition

NO_WATERMARK = "1970-01-01T00:00:00"
"""Reported by Spark until the first event has been seen."""
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
    reads: list[str] = msgspec.field(default_factory=list)
    """Topics read."""
    topics: list[str] = msgspec.field(default_factory=list)
    tables: list[str] = msgspec.field(default_factory=list)
    """Topics and tables written."""
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
        watermark = report.get("eventTime", {}).get("watermark", "")
        if not watermark.startswith(NO_WATERMARK):
            self.watermark = watermark or self.watermark
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
