"""Starts planned queries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from barnabas.client import Producer
from barnabas.pipelines.alarms.targets import AlarmDelivery
from barnabas.pipelines.alarms.watching import AlarmBatch
from barnabas.pipelines.definitions.settings import interval_of
from barnabas.pipelines.lake.writer import lake_writer
from barnabas.pipelines.running.plan import Planned, ToAlarms, ToBatches, ToLake, ToTable
from barnabas.pipelines.running.sessions import configured
from barnabas.spark import BatchLog, BrokerLink, HadoopFolder, Options, PipelineError, jvm_of

# -- Upserts: the driver writes rows to a topic by key -------------------------------------------------


class Upserts:
    """The `foreachBatch` function of one flow; `options` are those of the sink."""

    def __init__(self, flow: str, options: Mapping[str, str]) -> None:
        checked = Options(options, "sink")
        self._flow = flow
        self._topic = checked.text("topic")
        self._connection = checked.client_settings().link

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.collect()
        if not rows:
            return
        missing = {"key", "value"} - set(frame.columns)
        if missing:
            raise PipelineError(f"{self._flow} is written by key: it requires the columns key and value.")
        link = BrokerLink(**self._connection)  # per batch: the end of the query is not signalled
        try:
            link.run(self._write(link, rows))
        finally:
            link.close()

    async def _write(self, link: BrokerLink, rows: Sequence[Row]) -> None:
        async with Producer(link.client) as producer:
            for row in rows:
                topic = self._topic or row["topic"]
                await producer.enqueue(topic, _bytes(row["value"]), _bytes(row["key"]))
            await producer.flush()


def _bytes(value: Any) -> bytes | None:
    return None if value is None else value.encode() if isinstance(value, str) else bytes(value)


STOP_SECONDS = 10.0


def stop_between_batches(query: StreamingQuery) -> None:
    """Stop between triggers: stopping during our writers makes Spark print a stack overflow."""
    deadline = time.monotonic() + STOP_SECONDS
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.01)
    query.stop()


class Starter:
    """Starts the streams of one pipeline. State and offsets are stored below `storage` by flow name."""

    def __init__(self, session: SparkSession, pipeline: str, storage: str, alarms: AlarmDelivery) -> None:
        self._session = session
        self._pipeline = pipeline
        self._storage = storage
        self._alarms = alarms
        self._watches: dict[str, AlarmBatch] = {}

    def checkpoint_of(self, query: Planned) -> str:
        return f"{self._storage}/checkpoints/{query.name.replace(' ', '-')}"

    def watch(self, query: Planned, target: ToAlarms) -> AlarmBatch:
        """Create the alarm batch function. Its states are in the checkpoint and are deleted together with it."""
        log = BatchLog(HadoopFolder(self._session, f"{self.checkpoint_of(query)}/alarms"))
        self._watches[query.name] = AlarmBatch(target.rules, log, self._alarms)
        return self._watches[query.name]

    def firing(self) -> list[str]:
        """Return the names of firing alarms."""
        return sorted(name for watch in list(self._watches.values()) for name in watch.firing)

    def start(self, query: Planned, every: str | None) -> StreamingQuery:
        """Start with a trigger interval of `every`; None processes everything available and ends."""
        # Spark looks up Python data sources in the active session of the thread.
        java_class = SparkSession._get_j_spark_session_class(jvm_of(self._session))
        java_class.setActiveSession(self._session._jsparkSession)
        writer = query.frame.writeStream.queryName(f"{self._pipeline}.{query.name}").outputMode(query.mode)
        writer = writer.option("checkpointLocation", self.checkpoint_of(query))
        chosen = query.trigger or every
        if every is None or chosen is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=interval_of(chosen))
        with configured(self._session, query.conf):
            return self._to_target(writer, query).start()

    def _to_target(self, writer: DataStreamWriter, query: Planned) -> DataStreamWriter:
        target = query.target
        if isinstance(target, ToTable):
            writer = writer.format(target.format).option("path", target.location)
            return writer.partitionBy(*target.partitions) if target.partitions else writer
        if isinstance(target, ToLake):
            write = lake_writer(self._session, target.lake, target.partitions, self.checkpoint_of(query))
            return writer.foreachBatch(write)
        if isinstance(target, ToAlarms):
            return writer.foreachBatch(self.watch(query, target))
        if isinstance(target, ToBatches):
            return writer.foreachBatch(target.make(self.checkpoint_of(query)))
        if query.mode == "update" and target.format == "barnabas":
            return writer.foreachBatch(Upserts(query.name, target.options))
        return writer.format(target.format).options(**target.options)
