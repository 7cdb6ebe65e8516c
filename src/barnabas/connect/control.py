"""Runs many connectors in one Spark session; a failing connector does not affect the others."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from barnabas.client import ConnectorRequest
from barnabas.client.status import ProcessStatus, StatusPart
from barnabas.common.durations import seconds_of
from barnabas.connect.compiling import FLOW, REJECTED, ConnectorPlan, files_of
from barnabas.connect.control_files import ControlFiles, state_url
from barnabas.connect.declaration import Connector
from barnabas.connect.endpoints import Feeder, fields_of
from barnabas.connect.sinks.topic import TopicSink
from barnabas.connect.sources.topic import TopicSource
from barnabas.connect.state_machine import ConnectorState, QueryProgress, Tolerance
from barnabas.pipelines.definitions import PipelineFiles
from barnabas.pipelines.running import (
    POLL_SECONDS,
    FlowProgress,
    FlowSession,
    Runner,
    StateLock,
    pipeline_session,
)
from barnabas.spark import SETTING as JARS
from barnabas.spark import HadoopFolder, PipelineError, words_of

# -- One Spark session for several connectors ----------------------------------------------------------

UTC = "-Duser.timezone=UTC"  # databases without time zones and Spark then agree on times


@contextmanager
def connectors_session(connectors: Sequence[Connector], master: str | None) -> Iterator[SparkSession]:
    """Open one session for all connectors; PipelineError if their Spark settings conflict."""
    configuration: dict[str, str] = {}
    for one in connectors:
        for name, value in one.configuration.items():
            if name.startswith("spark.") and configuration.setdefault(name, value) != value:
                raise PipelineError(
                    f"The connectors have different values of {name}: use the same value, or run them separately."
                )
    jars = {jar.strip() for one in connectors for jar in one.configuration.get(JARS, "").split(",")}
    configuration[JARS] = ",".join(sorted(jars - {""}))
    name = connectors[0].name if len(connectors) == 1 else f"{len(connectors)} connectors"
    with pipeline_session(name, configuration, master=master, java_options=[UTC]) as session:
        yield session


def check_together(connectors: Sequence[Connector]) -> None:
    """Raise PipelineError if two connectors share a resource, or if one of them is already running."""
    for what in ("name", "storage"):
        counted = Counter(getattr(one, what) for one in connectors)
        twice = [value for value, number in counted.items() if number > 1]
        if twice:
            raise PipelineError(f"Two connectors have the same {what}: {twice[0]}.")
    for one in connectors:
        StateLock(one.name, state_url(one)).check()


def fields_by_name(connectors: Sequence[Connector], master: str | None) -> dict[str, list[str]]:
    """Return the fields that each connector's sink would receive; PipelineError if a declaration does not fit."""
    with connectors_session(connectors, master) as session:
        plans = {one.name: ConnectorPlan(one, FlowSession.beside(session)).plan() for one in connectors}
        return {name: fields_of(plan.queries[0].frame.columns) for name, plan in plans.items()}


logger = logging.getLogger(__name__)

ORDERS_SECONDS = 2.0  # between two reads of the control files


class RunningConnector:
    """One connector and its runner, which is replaced after each failure."""

    def __init__(
        self, connector: Connector, session: SparkSession, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.connector = connector
        self.life = ConnectorState(connector.restart, connector.stalled_after)
        self._session = session
        self._clock = clock
        self._redaction = connector.redaction
        self._orders = ControlFiles(HadoopFolder(session, state_url(connector)))
        self._orders_seen = -ORDERS_SECONDS
        self._request: ConnectorRequest | None = None
        self._request_id = ""
        self._tolerance = Tolerance(connector.errors.allowed() if connector.errors is not None else None)
        self._runner: Runner | None = None
        self._plan: ConnectorPlan | None = None
        self._feeding: FeederThread | None = None
        self._rows_before = 0
        self._rejected_before = 0

    def tick(self) -> None:
        """Read the control files and check the query; start it if a start is due."""
        now = self._clock()
        if now - self._orders_seen >= ORDERS_SECONDS:
            self._orders_seen = now
            self._obey()
        if self.life.should_start(now):
            self._attempt(self._start)
        elif self.life.state == "running":
            self._attempt(self._look)

    def hear(self, request: ConnectorRequest) -> None:
        """Take a request of `__barnabas_connect` for the next tick; called by another thread."""
        self._request = request

    def run_once(self) -> None:
        """Process everything available now; PipelineError on failure."""
        runner = self._prepare()
        try:
            for feeder in self._feeders():
                while feeder.fetch():
                    pass
            runner.run_once()
            self.life.started(self._clock())
            self._check_tolerance()
        except PipelineError as error:
            self.life.gave_up(self._redaction.clean(str(error)))
            raise PipelineError(self.life.error) from None
        finally:
            self._close()
        self.life.stopped()

    def stop(self) -> None:
        self._close()
        if self.life.state not in ("failed", "paused"):
            self.life.stopped()

    @property
    def flow(self) -> FlowProgress:
        flows = {} if self._runner is None else self._runner.flows
        return flows.get(FLOW, FlowProgress(FLOW))

    def status(self) -> ProcessStatus:
        life, flow = self.life, self.flow
        counts: dict[str, int | float] = {
            "rows": self._rows_before + flow.rows,
            "rejected": self._rejected_before + self._rejected(),
            "restarts": life.restarts,
        }
        name = f"{self.connector.source.location()} to {self.connector.sink.location()}"
        source, sink = self.connector.source, self.connector.sink
        topic = sink.topic if isinstance(sink, TopicSink) else None
        part = StatusPart(
            name,
            life.state,
            life.error,
            flow.lag,
            {"batch": flow.batch, "rate": flow.processed_rate},
            reads=(source.names() if isinstance(source, TopicSource) else []) or flow.reads,
            topics=[topic] if topic else [],
            tables=[] if isinstance(sink, TopicSink) else [sink.location()],
        )
        return ProcessStatus(
            "connector", self.connector.name, life.state, error=life.error, counts=counts, parts=[part]
        )

    def _obey(self) -> None:
        request = self._request
        if request is not None and request.id != self._request_id:
            self._request_id = request.id
            if self._orders.apply(request):
                by = repr(request.by[:100])
                logger.info("%s: %s was requested by %s", self.connector.name, request.request, by)
        if self._orders.is_paused():
            if self.life.state != "paused":
                self._close()
                self.life.paused()
                logger.info("%s is paused", self.connector.name)
        elif self.life.state == "paused":
            self.life.begin_again()
        if self._orders.take_restart() and self.life.state != "paused":
            logger.info("restarting %s as requested", self.connector.name)
            self._close()
            self._tolerance.forgive()
            self.life.begin_again()

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # any failure: the other connectors must keep running
            self._close()
            message = str(error) if isinstance(error, PipelineError) else words_of(error)
            if self.life.state != "failed":
                self.life.failed(self._clock(), self._redaction.clean(message))
            logger.warning("%s is %s: %s", self.connector.name, self.life.state, self.life.error)

    def _prepare(self) -> Runner:
        def plans(_: PipelineFiles, session: SparkSession) -> ConnectorPlan:
            self._plan = ConnectorPlan(self.connector, session)
            return self._plan

        self._runner = Runner(files_of(self.connector), self._session, plans=plans)
        self._runner.prepare()
        return self._runner

    def _start(self) -> None:
        runner = self._prepare()
        self._tolerance.begin_again()
        runner.start()
        if feeders := self._feeders():
            self._feeding = FeederThread(feeders, seconds_of(self.connector.trigger))
            self._feeding.start()
        self.life.started(self._clock())

    def _look(self) -> None:
        assert self._runner is not None
        if not self._runner.look():
            raise PipelineError(f"The query of {self.connector.name} has ended.")
        if self._feeding is not None:
            self._feeding.check()
        self._check_tolerance()
        now = self._clock()
        self.life.progressed(now, QueryProgress(self.flow.batch, self.flow.lag))
        stalled = self.life.stalled_for(now)
        if stalled is not None:
            raise PipelineError(
                f"{self.connector.name} completed no batch for {stalled:.0f} s, although its lag is {self.flow.lag:,}:"
                " its query is stuck and is restarted."
            )

    def _check_tolerance(self) -> None:
        errors = self.connector.errors
        if errors is None or self._tolerance.take(self._clock(), self._rejected()):
            return
        self.life.gave_up(
            f"More rows with errors than {errors.tolerate}; they are in {errors.topic}, with the reasons. After "
            f"fixing the cause, run `barnabas connect restart {self.connector.path.name}`."
        )
        raise PipelineError(self.life.error)

    def _rejected(self) -> int:
        """Rows with an error plus rows rejected by the sink, since the last start."""
        found = self.flow.broken.get(f"{FLOW}: {REJECTED}", 0)
        return found if self._plan is None else found + self._plan.refused

    def _feeders(self) -> Sequence[Feeder]:
        return () if self._plan is None else self._plan.context.feeders

    def _close(self) -> None:
        if self._feeding is not None:
            self._feeding.stop()
            self._feeding = None
        if self._runner is not None:
            self._rows_before += self.flow.rows
            self._rejected_before += self._rejected()
            runner, self._runner = self._runner, None
            _quietly(runner.close, self.connector.name)
        if self._plan is not None:
            plan, self._plan = self._plan, None
            _quietly(plan.close, self.connector.name)


class FeederThread(threading.Thread):
    """Thread that calls the feeders until stopped: again at once after new rows, otherwise after `pause` seconds."""

    def __init__(self, feeders: Sequence[Feeder], pause: float) -> None:
        super().__init__(name="feeding", daemon=True)
        self._feeders = feeders
        self._pause = pause
        self._stopping = threading.Event()
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                came = [feeder.fetch() for feeder in self._feeders]  # a list: every feeder must be called
                if not any(came):
                    self._stopping.wait(self._pause)
        except Exception as error:  # raised by `check`, in the thread that handles it
            self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopping.set()
        self.join(30.0)


class ConnectorGroup:
    """The connectors of one process."""

    def __init__(self, connectors: Sequence[Connector], session: SparkSession) -> None:
        self.running = [RunningConnector(one, session) for one in connectors]
        self._stopping = threading.Event()

    def run(self, watch: Callable[[Sequence[RunningConnector]], None] = lambda running: None) -> None:
        """Run until `stop`; every connector then finishes its current batch."""
        try:
            while not self._stopping.wait(POLL_SECONDS):
                for one in self.running:
                    if not self._stopping.is_set():
                        one.tick()
                watch(self.running)
        finally:
            for one in self.running:
                one.stop()

    def stop(self) -> None:
        """Request the end of `run`; thread-safe."""
        self._stopping.set()


def _quietly(work: Callable[[], Any], name: str) -> None:
    """Log failures during cleanup instead of raising them."""
    try:
        work()
    except Exception as error:  # including any error of the JVM
        logger.warning("error while stopping %s: %s", name, words_of(error))
