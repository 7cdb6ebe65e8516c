"""Computes materialized views, publishes their changed rows, and reports them to Spark's StreamingQueryListeners.

Spark sends events of streams only; a view would be missing in what a listener collects of a pipeline.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import connection_options
from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.running.plan import PipelinePlan, Planned, ToTable, storage_of
from barnabas.pipelines.running.sessions import configured
from barnabas.spark import HadoopFolder, PipelineError, jvm_of

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


# -- Events --------------------------------------------------------------------------------------------

EVENTS = "org.apache.spark.sql.streaming.StreamingQueryListener$"


class ViewEvents:
    """Sends the events of one view, as of a query with a micro-batch per computation."""

    def __init__(self, session: SparkSession, pipeline: str, view: str, target: str) -> None:
        self._session = session
        self._target = target
        name = f"{pipeline}.{view}"
        self._query = {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)), "name": name}
        self._run: dict[str, str] = {}
        self._batch = 0

    def begin(self) -> None:
        """Report the start, unless the view has been started and not ended."""
        if not self._run:
            self._run = {**self._query, "runId": str(uuid.uuid4())}
            self._batch = 0
            self._send("QueryStartedEvent", {**self._run, "timestamp": _now(), "jobTags": []})

    def computed(self, started: str, seconds: float, rows: int) -> None:
        millis = round(seconds * 1000)
        progress = {
            **self._run,
            "timestamp": started,
            "batchId": self._batch,
            "batchDuration": millis,
            "durationMs": {"triggerExecution": millis},
            "eventTime": {},
            "stateOperators": [],
            "sources": [],
            "sink": {"description": self._target, "numOutputRows": rows, "metrics": {}},
            "observedMetrics": {},
        }
        self._batch += 1
        self._send("QueryProgressEvent", {"progress": progress})

    def end(self, error: BaseException | None = None) -> None:
        if self._run:
            jvm = jvm_of(self._session)
            ids = [jvm.java.util.UUID.fromString(self._run[name]) for name in ("id", "runId")]
            text = jvm.scala.Option.apply(None if error is None else str(error))
            self._run = {}
            self._post(
                getattr(jvm, f"{EVENTS}QueryTerminatedEvent")(*ids, text, jvm.scala.Option.apply(None))
            )

    def _send(self, kind: str, event: Mapping[str, Any]) -> None:
        parser = getattr(getattr(jvm_of(self._session), f"{EVENTS}{kind}$"), "MODULE$")
        self._post(parser.fromJson(json.dumps(event)))

    def _post(self, event: Any) -> None:
        self._session._jsparkSession.streams().postListenerEvent(event)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- Computation ---------------------------------------------------------------------------------------


class Views:
    """The materialized views of one run."""

    def __init__(self, session: SparkSession, files: PipelineFiles) -> None:
        self._session = session
        self._files = files
        self._events: dict[str, ViewEvents] = {}

    def refresh(self, query: Planned, plan: PipelinePlan) -> None:
        """Compute a view again and publish it."""
        with self._reported(query) as observation:
            for table in plan.tables:
                self._session.catalog.refreshTable(table)
            with configured(self._session, query.conf):
                _write(query, observation)
            self._session.catalog.refreshTable(query.name)
            if topic := self._files.settings.publish.get(query.name):
                self._publisher_of(query.name, topic).publish(self._session.read.table(query.name))

    def close(self) -> None:
        """Report the end of the views."""
        for events in self._events.values():
            events.end()

    @contextmanager
    def _reported(self, query: Planned) -> Iterator[Observation]:
        events = self._events_of(query)
        events.begin()
        observation, started, begin = Observation(), _now(), time.monotonic()
        try:
            yield observation
            events.computed(started, time.monotonic() - begin, int(observation.get["rows"]))
        except PySparkException as error:
            events.end(error)
            raise PipelineError(f"The view {query.name} could not be computed.", error) from error
        except BaseException as error:
            events.end(error)
            raise

    def _events_of(self, query: Planned) -> ViewEvents:
        if query.name not in self._events:
            assert isinstance(query.target, ToTable)
            target = query.target.location
            self._events[query.name] = ViewEvents(self._session, self._files.name, query.name, target)
        return self._events[query.name]

    def _publisher_of(self, view: str, topic: str) -> ViewPublisher:
        broker = {"kafka.bootstrap.servers": self._files.bootstrap}
        options = {**broker, **connection_options(self._files.configuration), "topic": topic}
        return ViewPublisher(self._session, view, options, storage_of(self._files))


def _write(query: Planned, observation: Observation) -> None:
    target = query.target
    assert isinstance(target, ToTable)
    frame = query.evaluate().observe(observation, F.count(F.lit(1)).alias("rows"))
    writer = frame.write.mode("overwrite").format(target.format)
    if target.partitions:
        writer = writer.partitionBy(*target.partitions)
    writer.save(target.location)
