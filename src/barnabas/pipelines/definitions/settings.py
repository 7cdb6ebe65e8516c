"""What `barnabas.yml` may say: rules and alarms as data, beside Spark's own `spark-pipeline.yml`.

Spark refuses fields that it does not know, so what is ours has a file of its own. Spark's runner does not read it.
A word that nobody knows is a mistake here too, not a remark.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.common.durations import seconds_of

Action = Literal["expect", "drop", "fail", "quarantine"]
Severity = Literal["info", "warning", "critical"]
Mode = Literal["append", "update"]
LakeFormat = Literal["parquet", "iceberg"]


class QualityRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is true of every good row of a dataset, and what becomes of one of which it is not."""

    dataset: str
    name: str
    condition: str
    action: Action = "expect"


class AlarmRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value over a window, by key, that must not go beyond a threshold for long."""

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
    """`update` writes each row that has changed at once; `append` a row of a window when the window is closed.

    `group` is the consumer group that the flow's progress is committed to, if not `<pipeline>.<flow>`. `refresh` is for
    a materialized view: how often it is computed while the pipeline runs continuously, if not as often as the others.
    """

    mode: Mode = "append"
    trigger: str | None = None
    group: str | None = None
    refresh: str | None = None


class Compaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Partitions that no longer grow get fewer and larger files. `keep`: how long Iceberg can show an earlier state."""

    files: int = 8
    after: str = "1 hour"
    target_mib: int = 128
    keep: str = "1 day"


class Lake(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table on any file system that Hadoop knows: plain Parquet files that anything can read, or Iceberg.

    `hours` names the time by whose hour an Iceberg table is partitioned. Plain files have the folders of the table's
    partition columns instead.
    """

    path: str
    format: LakeFormat = "parquet"
    hours: str | None = None
    compaction: Compaction | None = None
    files_per_batch: int | None = None


class TopicWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A topic for results, made when it is missing. Topics to read from are never made: a wrong name must show."""

    name: str
    partitions: int = 1
    settings: dict[str, str] = {}


class PipelineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    trigger: str = "1 second"
    refresh: str = "30 seconds"
    flows: dict[str, FlowSettings] = {}
    quality: list[QualityRule] = []
    dead_letters: DeadLetters | None = None
    alarms: list[AlarmRule] = []
    alarm_targets: AlarmTargets = AlarmTargets()
    lake: dict[str, Lake] = {}
    topics: list[TopicWanted] = []
    publish: dict[str, str] = {}
    """Materialized views whose rows go to a topic, by `key`, when they have changed."""


def interval_of(text: str) -> str:
    """As Spark's SQL wants it: `"30s"` as `"30000 milliseconds"`; ValueError for what is no length of time."""
    return f"{round(seconds_of(text) * 1000)} milliseconds"
