"""Settings in `barnabas.yml`: rules and alarms as data, in addition to Spark's `spark-pipeline.yml`.

Spark rejects unknown fields in its file, so Barnabas uses a second one, which Spark's runner does not read. Unknown
keys are errors here too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.common.durations import seconds_of

Action = Literal["expect", "drop", "fail", "quarantine"]
Severity = Literal["info", "warning", "critical"]
Mode = Literal["append", "update"]
LakeFormat = Literal["parquet", "iceberg"]
SchemaEvolution = Literal["add", "fail"]
"""Whether a table gains the new columns of the rows, or the run is refused."""


class QualityRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition on the rows of a dataset, and the action for rows that violate it."""

    dataset: str
    name: str
    condition: str
    action: Action = "expect"


class AlarmRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A threshold for a windowed value by key, and the time for which it may be exceeded."""

    dataset: str
    name: str
    value: str
    window: str
    above: float | None = None
    below: float | None = None
    key: list[str] = []
    time: str = "time"
    lateness: str = "10 seconds"
    hold: str = msgspec.field(name="for", default="0s")
    severity: Severity = "warning"


class AlarmTargets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    topic: str | None = None
    webhook: str | None = None
    log: bool = True


class DeadLetters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    topic: str


class FlowSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`update` writes each changed row immediately; `append` writes the rows of a window when the window closes.

    `group` is the consumer group for the flow's progress, by default `<pipeline>.<flow>`. `refresh` is the interval at
    which a materialized view is computed in continuous mode, by default that of the pipeline.
    """

    mode: Mode = "append"
    trigger: str | None = None
    group: str | None = None
    refresh: str | None = None


class Compaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Merges files of partitions that no longer grow. `keep` is the age to which Iceberg retains snapshots."""

    files: int = 8
    after: str = "1 hour"
    target_mib: int = 128
    keep: str = "1 day"


class Lake(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table on any Hadoop file system: plain Parquet files, or Iceberg.

    `hours` names the timestamp column by whose hour an Iceberg table is partitioned. Plain files use the table's
    partition columns instead.
    """

    path: str
    format: LakeFormat = "parquet"
    hours: str | None = None
    compaction: Compaction | None = None
    files_per_batch: int | None = None
    schema_evolution: SchemaEvolution = "add"
    properties: dict[str, str] = {}
    """Properties of an Iceberg table, in addition to `table_properties`."""


class RequiredTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A result topic, created if missing. Source topics are never created, so that a misspelled name is an error."""

    name: str
    partitions: int = 1
    settings: dict[str, str] = {}


class PipelineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    trigger: str = "1 second"
    refresh: str = "30 seconds"
    schema_refresh: str | None = None
    """How often `--continuous` asks the registry for new schemas; without it the next start uses them."""
    flows: dict[str, FlowSettings] = {}
    quality: list[QualityRule] = []
    dead_letters: DeadLetters | None = None
    alarms: list[AlarmRule] = []
    alarm_targets: AlarmTargets = AlarmTargets()
    lake: dict[str, Lake] = {}
    topics: list[RequiredTopic] = []
    publish: dict[str, str] = {}
    """Materialized views whose changed rows are written to a topic by `key`."""


def interval_of(text: str) -> str:
    """Convert a duration for Spark SQL, such as `"30s"` to `"30000 milliseconds"`; ValueError if invalid."""
    return f"{round(seconds_of(text) * 1000)} milliseconds"
