"""Runs one pipeline in a Spark session: once, periodically or continuously.

Our runner and Spark's own keep separate state, so that a folder can be tried with both; switching between them starts
from the beginning.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.common.durations import seconds_of
from barnabas.pipelines.alarms.targets import AlarmDelivery
from barnabas.pipelines.alarms.targets import Target as AlarmTarget
from barnabas.pipelines.connection import security_of
from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.definitions.loading import load_graph
from barnabas.pipelines.definitions.settings import FlowSettings
from barnabas.pipelines.running.backfill import (
    Backfill,
    offsets_noted,
    range_name,
    range_option,
    range_text,
)
from barnabas.pipelines.running.broker_checks import BrokerChecks, topics_read
from barnabas.pipelines.running.plan import (
    PipelinePlan,
    PipelinePlanner,
    Planned,
    ToAlarms,
    ToSink,
    storage_of,
)
from barnabas.pipelines.running.progress import FlowProgress
from barnabas.pipelines.running.reporting import Reporting, reporting_of
from barnabas.pipelines.running.schema_watch import SchemaWatch, source_columns
from barnabas.pipelines.running.selection import FlowSelection, PipelineStorage
from barnabas.pipelines.running.sessions import FlowSession
from barnabas.pipelines.running.starting import Starter, stop_between_batches
from barnabas.pipelines.running.state_lease import lock_of
from barnabas.pipelines.running.views import Views
from barnabas.spark import HadoopFolder, PipelineError, own_sentence

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5  # between two polls of the queries
START_ATTEMPTS = 5  # for slow machines on which Python does not start within Spark's ten seconds
START_SECONDS = 15.0
Watcher = Callable[[list[FlowProgress]], None]


class Plans(Protocol):
    """Plans the queries of a pipeline; `undo` removes everything created by planning."""

    def plan(self) -> PipelinePlan: ...

    def undo(self) -> None: ...


def _plan_definitions(
    files: PipelineFiles,
    session: SparkSession,
    fresh: frozenset[str] = frozenset(),
    *,
    is_trial: bool = False,
) -> Plans:
    return PipelinePlanner(files, load_graph(files, session), session, fresh, is_trial=is_trial)


class Runner:
    """Runs one pipeline. `prepare` reports errors before anything runs. `watcher` receives the flows' progress."""

    def __init__(
        self,
        files: PipelineFiles,
        session: SparkSession,
        *,
        watcher: Watcher | None = None,
        alarm_listener: AlarmTarget | None = None,
        plans: Callable[[PipelineFiles, SparkSession], Plans] | None = None,
        selection: FlowSelection | None = None,
        backfill: Backfill | None = None,
    ) -> None:
        self.files = files
        self._selection = selection or FlowSelection()
        self._backfill = backfill
        self._again: list[Planned] = []
        self.remarks: list[str] = []
        """What the run computes again, for people."""
        self._plans = plans or partial(_plan_definitions, fresh=self._selection.full)
        self.session = FlowSession.beside(session)
        self._watcher = watcher
        self._stopping = threading.Event()
        self.plan = PipelinePlan()
        self._planner: Plans | None = None
        self._broker: BrokerChecks | None = None
        self._reporting = Reporting({})
        self._running: dict[str, StreamingQuery] = {}
        self._every: str | None = None
        self._attempts: Counter[str] = Counter()
        security = security_of(files.configuration)
        targets = AlarmDelivery(files.settings.alarm_targets, files.bootstrap, alarm_listener, security)
        self._starter = Starter(self.session, files.name, storage_of(files), targets)
        self._views = Views(self.session, files)
        self._state = PipelineStorage(self.session, files.name, storage_of(files))
        self._taken_over: PipelineError | None = None
        self._lock = lock_of(self.session, files.name, storage_of(files), self._stop_after_loss)

    def prepare(self, *, ask_broker: bool = True, make_topics: bool = True) -> PipelinePlan:
        """Load, plan and check, including the existence of source topics; create missing result topics."""
        _leave_errors_to_us()
        self._configure(self.session)
        self._state.check_owner()
        self._planner = self._plans(self.files, self.session)
        try:
            self.plan = self._select(self._planner.plan())
            if ask_broker:
                self._ask_broker(make_topics)
        except BaseException:
            self.undo()
            raise
        self._reporting = reporting_of(self.files, self.plan.streams)
        for query in self.plan.streams:
            if isinstance(query.target, ToAlarms):
                self._starter.watch(query, query.target)  # restores alarms that were firing before
        return self.plan

    def _configure(self, session: SparkSession) -> None:
        for name, value in self.files.configuration.items():
            if not name.startswith("spark.") or session.conf.isModifiable(name):
                session.conf.set(name, value)

    def _select(self, plan: PipelinePlan) -> PipelinePlan:
        if self._backfill is not None:
            return self._backfill_plan(self._backfill, plan)
        self._again = self._selection.again(plan)
        self.remarks = self._selection.described(plan)
        return self._selection.selected(plan)

    def _backfill_plan(self, backfill: Backfill, plan: PipelinePlan) -> PipelinePlan:
        """Plan again with streams that read the range only; keep the queries of the flow, with other checkpoints."""
        query = backfill.queries(plan)[0]
        found = backfill.range_of(query, offsets_noted(self._checkpoint_of(query)))
        self.remarks = [range_text(backfill.flow, found)]
        self.undo()
        self.session.span = range_option(found)
        self._planner = self._plans(self.files, self.session)
        planned = self._planner.plan()
        suffix = f".backfill-{range_name(found)}"
        queries = [replace(query, name=query.name + suffix) for query in backfill.queries(planned)]
        return replace(planned, queries=queries)

    def _checkpoint_of(self, query: Planned) -> HadoopFolder:
        return HadoopFolder(self.session, self._starter.checkpoint_of(query))

    def _take_state(self) -> None:
        """Delete what is recomputed; the caller has the lock."""
        self._state.take()
        if self._again:
            self._state.forget(self._again, self._starter.checkpoint_of)
            self._again = []
            for query in self.plan.streams:
                if isinstance(query.target, ToAlarms):
                    self._starter.watch(query, query.target)  # without the alarms that were firing before

    @property
    def flows(self) -> dict[str, FlowProgress]:
        """Progress of each flow."""
        return self._reporting.flows

    def firing_alarms(self) -> list[str]:
        """Return the firing alarms, including those from before this run; thread-safe."""
        return self._starter.firing()

    def undo(self) -> None:
        """Revert `prepare`."""
        if self._planner is not None:
            self._planner.undo()
        self.session.remove_listeners()
        self.close()

    def run_once(self) -> None:
        """Process everything available now, in dependency order."""
        with self._lock:
            self._take_state()
            for level in self.plan.levels():
                self._start_all((query for query in level if query.streaming), every=None)
                self._watch_until_ended()
                for query in level:
                    if not query.streaming and not self._stopping.is_set():
                        self._refresh(query)
            self._views.close()

    def run_every(self, seconds: float) -> None:
        """Call `run_once` periodically, in the same session: Spark starts only once."""
        with self._lock:
            while not self._stopping.is_set():
                started = time.monotonic()
                self.run_once()
                self._stopping.wait(max(0.0, seconds - (time.monotonic() - started)))

    def start(self, *, alone: float = 0.0) -> None:
        """Start all streams; the caller must then call `look` periodically.

        The first stream runs alone until its first results, for at most `alone` seconds: on a small machine this halves
        the time to first results, and the other streams start faster on a warm Spark.
        """
        self._lock.take()
        self._take_state()
        every = self.files.settings.trigger
        streams = self.plan.streams
        if alone and streams:
            self._start_all(streams[:1], every)
            self._await_first_batch(streams[0], alone)
            streams = streams[1:]
        self._start_all(streams, every)

    def run_continuously(self) -> None:
        self.start()
        schemas = SchemaWatch(
            [query.frame for query in self.plan.streams], self.files.settings.schema_refresh
        )
        refreshed = dict.fromkeys((view.name for view in self.plan.views), time.monotonic())
        while not self._stopping.wait(POLL_SECONDS):
            self.look()
            if changed := schemas.changed():
                self._start_with_new_schemas(changed)
            for view in self.plan.views:
                if time.monotonic() - refreshed[view.name] >= self._refresh_seconds(view):
                    self._refresh(view)
                    refreshed[view.name] = time.monotonic()
        self.close()

    def _start_with_new_schemas(self, subjects: list[str]) -> None:
        """Plan again and continue between two batches, if columns differ and the new ones fit the tables."""
        trial = FlowSession.beside(self.session)
        self._configure(trial)
        try:
            planned = self._selection.selected(_plan_definitions(self.files, trial, is_trial=True).plan())
        except PipelineError as error:
            logger.warning("The new schema of %s is not used: %s", ", ".join(subjects), error.sentence)
            return
        finally:
            trial.remove_listeners()
        if source_columns(planned.streams) == source_columns(self.plan.streams):
            return
        self._stop_queries()
        self.session.remove_listeners()
        self._planner = _plan_definitions(self.files, self.session)
        self.plan = self._selection.selected(self._planner.plan())
        self._start_all(self.plan.streams, self._every)
        logger.info("The flows continue with the new schema of %s", ", ".join(subjects))

    def _stop_queries(self) -> None:
        for name, query in self._running.items():
            stop_between_batches(query)
            self._reporting.take(name, query, last=True)
        self._running.clear()

    def _refresh_seconds(self, view: Planned) -> float:
        chosen = self.files.settings.flows.get(view.name, FlowSettings()).refresh
        return seconds_of(chosen or self.files.settings.refresh)

    def stop(self) -> None:
        """Request the end of the run after the current micro-batches; thread-safe."""
        self._stopping.set()

    def close(self) -> None:
        """Stop all queries. State and offsets are kept: the next run resumes from here."""
        self._stop_queries()
        self._views.close()
        self._lock.release()
        self._reporting.close()
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    def _stop_after_loss(self, error: PipelineError) -> None:
        """Record that another run has taken over the state. Called by the lease's thread; `look` stops this run."""
        self._taken_over = error

    def look(self) -> bool:
        """Process the progress of the queries; return False when none is running. PipelineError if one has failed."""
        if self._taken_over is not None:
            self.close()
            raise self._taken_over
        for name, query in list(self._running.items()):
            ended = not query.isActive  # read first: the report of the last batch could arrive in between
            self._reporting.take(name, query, last=ended)
            if ended:
                self._end_of(name, query)
        self._reporting.end_round()
        if self._watcher is not None:
            self._watcher(list(self.flows.values()))
        return bool(self._running)

    def finish(self, timeout: float) -> None:
        """Wait until the streams have processed everything in the topics now."""
        deadline = time.monotonic() + timeout
        for name, query in list(self._running.items()):
            logger.debug("finishing %s", name)
            query.processAllAvailable()
            if time.monotonic() > deadline:
                raise PipelineError(f"{self.files.name} did not finish within {timeout:g} s.")
        self.look()

    def _ask_broker(self, make_topics: bool) -> None:
        topics = {topic for query in self.plan.queries for topic in topics_read(query.frame)}
        made = [topic.name for topic in self.files.settings.topics]
        if (
            not topics
            and not made
            and not any(isinstance(query.target, ToSink) for query in self.plan.queries)
        ):
            return
        self._broker = BrokerChecks(self.files.bootstrap, security_of(self.files.configuration))
        self._broker.require_topics(topics - set(made))
        if make_topics:
            self._broker.make_missing(self.files.settings.topics)

    def _start_all(self, queries: Iterable[Planned], every: str | None) -> None:
        self._every = every
        for query in queries:
            self._start(query, every)
            self._await_beginning(query)

    def _start(self, query: Planned, every: str | None) -> None:
        # A killed run may not have committed its last offsets, and this run may have nothing to read.
        self._reporting.tell(query.name, offsets_noted(self._checkpoint_of(query)), last=True)
        try:
            self._running[query.name] = self._starter.start(query, every)
        except PySparkException as error:
            self.close()
            raise PipelineError(f"The flow {query.name} could not be started.", error) from error

    def _await_beginning(self, query: Planned) -> None:
        """Wait for the source to start: each starts a Python process, and Spark gives up on one after ten seconds."""
        running = self._running[query.name]
        deadline = time.monotonic() + START_SECONDS
        while running.isActive and running.lastProgress is None and time.monotonic() < deadline:
            if running.status["message"].startswith(("Processing", "Waiting", "Getting")):
                return
            time.sleep(POLL_SECONDS / 5)

    def _await_first_batch(self, query: Planned, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while query.name in self._running and time.monotonic() < deadline:
            if self._running[query.name].lastProgress is not None or self._stopping.is_set():
                return
            time.sleep(POLL_SECONDS / 5)

    def _watch_until_ended(self) -> None:
        while self.look():
            if self._stopping.wait(POLL_SECONDS / 5):
                self.close()

    def _end_of(self, name: str, query: StreamingQuery) -> None:
        self._running.pop(name)
        error = query.exception()
        if error is not None and "connect back" in str(error) and self._may_start_again(name):
            return
        if error is not None:
            self.close()
            reason = own_sentence(error)
            failed = f"The flow {name} has failed: {reason}" if reason else f"The flow {name} has failed."
            raise PipelineError(
                f"{failed} The pipeline was stopped; after a restart it continues from here.", error
            )

    def _may_start_again(self, name: str) -> bool:
        self._attempts[name] += 1
        if self._attempts[name] > START_ATTEMPTS:
            return False
        logger.warning("%s: Python did not start in time; trying again", name)
        self._start(next(query for query in self.plan.queries if query.name == name), self._every)
        return True

    def _refresh(self, query: Planned) -> None:
        try:
            self._views.refresh(query, self.plan)
        except PipelineError:
            self.close()
            raise


def _leave_errors_to_us() -> None:
    """Silence PySpark's log of raised errors with JVM stacks; the runner reports them in one sentence."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
