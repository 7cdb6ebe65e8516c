"""Alarms over a streaming dataset: Spark computes the value of each closed window, the state machine decides.

One query computes all rules with the same dataset, window and key. Only rows of closed windows reach the driver, one
per key. The state of all keys is stored under the batch number, with the events of that batch: a batch repeated after a
crash sends the same events again, with the same ids, and is not evaluated again. Events that the webhook did not accept
are stored too, and sent with the next batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from barnabas.common.durations import seconds_of
from barnabas.pipelines.alarms.state import AlarmEvent, AlarmState, PipelineAlarm, WindowValue
from barnabas.pipelines.alarms.targets import AlarmDelivery
from barnabas.pipelines.definitions.settings import AlarmRule, interval_of
from barnabas.spark import BatchLog, PipelineError

logger = logging.getLogger(__name__)

MAX_UNDELIVERED = 1_000  # events: the states of a batch are written and read as a whole
USUAL = {field.name: field.default for field in msgspec.structs.fields(AlarmRule)}


class WatchedGroup(NamedTuple):
    """Rules computed by one query."""

    name: str
    rules: tuple[AlarmRule, ...]


def grouped(rules: Iterable[AlarmRule]) -> list[WatchedGroup]:
    together: dict[Any, list[AlarmRule]] = {}
    for rule in rules:
        shape = (rule.dataset, rule.time, tuple(rule.key), seconds_of(rule.window), seconds_of(rule.lateness))
        together.setdefault(shape, []).append(rule)
    return [WatchedGroup(_name_of(found[0]), tuple(found)) for found in together.values()]


def _name_of(rule: AlarmRule) -> str:
    """Name of the query and its checkpoint: all properties of the group, without default values."""
    parts = ["alarms", rule.dataset, *rule.key, f"{seconds_of(rule.window):g}s"]
    if rule.time != USUAL["time"]:
        parts.append(f"by-{rule.time}")
    if seconds_of(rule.lateness) != seconds_of(USUAL["lateness"]):
        parts.append(f"late-{seconds_of(rule.lateness):g}s")
    return "-".join(parts)


def windowed(rules: Sequence[AlarmRule], frame: DataFrame) -> DataFrame:
    """Return the rules' values per window and key. A watermark of the dataset is kept."""
    rule = rules[0]
    missing = [name for name in (rule.time, *rule.key) if name not in frame.columns]
    if missing:
        raise PipelineError(
            f"The alarm {rule.name!r} requires the column {missing[0]}, which {rule.dataset} does not have; "
            f"it has {', '.join(frame.columns)}."
        )
    if not _has_watermark(frame):
        frame = frame.withWatermark(rule.time, interval_of(rule.lateness))
    windows = frame.groupBy(F.window(rule.time, interval_of(rule.window)), *rule.key)
    values = [F.expr(each.value).cast("double").alias(f"value_{index}") for index, each in enumerate(rules)]
    return windows.agg(*values).select(
        F.concat_ws("/", *(F.col(name).cast("string") for name in rule.key)).alias("key"),
        F.unix_micros("window.start").alias("start"),
        F.unix_micros("window.end").alias("end"),
        *(f"value_{index}" for index in range(len(rules))),
    )


class AlarmStates(msgspec.Struct, frozen=True):
    """Key states by rule name, events of the batch, and events not yet delivered to the webhook."""

    states: dict[str, dict[str, AlarmState]] = {}
    events: list[AlarmEvent] = []
    undelivered: list[AlarmEvent] = []


class AlarmBatch:
    """The `foreachBatch` function of one group of rules. Created at each start from the stored states."""

    def __init__(self, rules: Sequence[AlarmRule], log: BatchLog, targets: AlarmDelivery) -> None:
        self._log = log
        self._targets = targets
        latest = log.latest()
        noted = AlarmStates() if latest is None else msgspec.convert(latest[1], AlarmStates)
        self._undelivered = noted.undelivered
        self._alarms = [PipelineAlarm(rule, noted.states.get(rule.name)) for rule in rules]
        self.firing = self._firing()
        """Names of firing alarms, for display; replaced as a whole, because other threads read it."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        # Collect even a known batch: Spark must compute it to update the state of the windows.
        rows = frame.collect()
        known = self._log.read(batch)
        note = self._decide(rows, batch) if known is None else msgspec.convert(known, AlarmStates)
        self.firing = self._firing()
        self._deliver(note, batch)

    def _decide(self, rows: list[Row], batch: int) -> AlarmStates:
        events = []
        for index, alarm in enumerate(self._alarms):
            events += alarm.take(_window_values(rows, f"value_{index}"))
        states = {alarm.rule.name: alarm.states for alarm in self._alarms}
        return self._write(AlarmStates(states, events, self._undelivered), batch)

    def _deliver(self, note: AlarmStates, batch: int) -> None:
        waiting = together(note.undelivered, note.events)
        left = self._targets.call_webhook(waiting, once=bool(note.undelivered))
        if left != note.undelivered:
            note = self._write(msgspec.structs.replace(note, undelivered=bounded(left)), batch)
        self._undelivered = note.undelivered
        self._targets.tell(note.events)

    def _write(self, note: AlarmStates, batch: int) -> AlarmStates:
        self._log.write(batch, msgspec.to_builtins(note))
        return note

    def _firing(self) -> list[str]:
        named = [(alarm.rule.name, key) for alarm in self._alarms for key in alarm.firing()]
        return [f"{name} of {key}" if key else name for name, key in named]


def together(old: Sequence[AlarmEvent], new: Sequence[AlarmEvent]) -> list[AlarmEvent]:
    """Merge without duplicates: for a repeated batch, `old` may contain events of `new`."""
    return list({(event.id, event.status): event for event in (*old, *new)}.values())


def bounded(events: list[AlarmEvent]) -> list[AlarmEvent]:
    if len(events) > MAX_UNDELIVERED:
        logger.error(
            "the webhook will not hear of %d alarms: too many wait for it", len(events) - MAX_UNDELIVERED
        )
    return events[-MAX_UNDELIVERED:]


def _window_values(rows: list[Row], column: str) -> list[WindowValue]:
    """Return the windows with a value; NULL means that there was nothing to measure."""
    return [
        WindowValue(row["key"], row["start"] / 1e6, row["end"] / 1e6, row[column])
        for row in rows
        if row[column] is not None
    ]


def _has_watermark(frame: DataFrame) -> bool:
    return "EventTimeWatermark" in frame._jdf.queryExecution().analyzed().toString()
