"""Runs a pipeline for `barnabas pipeline run`: progress output and exit status."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

import typer
from rich.console import Console
from rich.table import Table

from barnabas.cli.output import say
from barnabas.client import parse_address
from barnabas.client.status import ProcessStatus as ReportedStatus
from barnabas.metrics import Registry
from barnabas.pipelines import LiveScreen
from barnabas.pipelines.definitions import PipelineFiles
from barnabas.pipelines.running import (
    FlowProgress,
    PipelineReport,
    Reports,
    Runner,
    StateLock,
    StatusFile,
    as_reported,
    exported,
    new_status,
    otlp_settings,
    pipeline_registry,
    pipeline_session,
    require_broker,
    storage_of,
)
from barnabas.spark import PipelineError
from barnabas.web import run_in_thread

TELL_SECONDS = 10.0  # between two lines of progress without a terminal


def run_pipeline(
    files: PipelineFiles,
    runner_of: Callable[..., Runner] = Runner,
    *,
    master: str | None,
    continuous: bool,
    pause: float | None,
    metrics: str | None,
    otlp: str | None = None,
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Before anything is written: the status is that of the running process.
    StateLock(files.name, storage_of(files)).check()
    collector = otlp_settings(otlp, files.name)
    _require_broker(files)
    say(f"Starting Spark for {files.name}.")
    with (
        pipeline_session(files.name, files.configuration, master=master) as session,
        _StatusScreen(files) as screen,
        _reported(files, screen),
    ):
        if session.sparkContext.uiWebUrl is not None:
            say(f"Spark's UI is at {session.sparkContext.uiWebUrl}.")
        runner = runner_of(files, session, watcher=screen.show)
        try:
            runner.prepare()
            for remark in runner.remarks:
                say(remark)
            screen.firing = runner.firing_alarms
            screen.show(list(runner.flows.values()))
            registry = pipeline_registry(files.name, lambda: list(runner.flows.values()))
            with (
                stopped_by_signals(runner.stop),
                served(registry, metrics),
                exported(registry, collector),
            ):
                _run(runner, continuous, pause)
        except PipelineError as error:
            screen.end("failed", str(error))
            raise
        finally:
            runner.close()
        screen.end("stopped")
    for line in last_words(files.name, list(runner.flows.values())):
        say(line)


def _require_broker(files: PipelineFiles) -> None:
    try:
        require_broker(files)
    except PipelineError as error:
        status = new_status(files.name, "failed", [])
        status.error = str(error)
        StatusFile(files.folder).write(status)
        raise


def _run(runner: Runner, continuous: bool, pause: float | None) -> None:
    if continuous:
        runner.run_continuously()
    elif pause is not None:
        runner.run_every(pause)
    else:
        runner.run_once()


class _StatusScreen(LiveScreen):
    """Writes the status file, and shows a table on a terminal or else a line every few seconds."""

    def __init__(self, files: PipelineFiles) -> None:
        super().__init__(Console(stderr=True))
        self._files = files
        self._status = StatusFile(files.folder)
        self._flows: list[FlowProgress] = []
        self.firing: Callable[[], list[str]] = list
        self._told = time.monotonic()
        self._written = 0.0  # write immediately: the status of the last run is outdated while flows start
        self._last = new_status(files.name, "running", [])

    def show(self, flows: list[FlowProgress]) -> None:
        self._flows = flows
        now = time.monotonic()
        if now - self._written >= 1.0:
            self._written = now
            self._write("running")
        if self._live is not None:
            self._live.update(progress_table(self._files.name, flows))
        elif now - self._told >= TELL_SECONDS:
            self._told = now
            rows = sum(flow.rows for flow in flows)
            lag = sum(flow.lag or 0 for flow in flows)
            late = sum(flow.late for flow in flows)
            more = f", {late:,} too late" if late else ""
            say(f"{self._files.name}: {rows:,} rows in {len(flows)} flows, {lag:,} behind{more}.")

    def reported(self) -> ReportedStatus:
        """Called by another thread."""
        return as_reported(self._last)

    def end(self, state: str, error: str | None = None) -> None:
        self._write("failed" if state == "failed" else "stopped", error)

    def _write(self, state: str, error: str | None = None) -> None:
        status = new_status(self._files.name, "running", self._flows)
        status.state = "running" if state == "running" else "failed" if state == "failed" else "stopped"
        status.alarms = self.firing()
        status.error = error
        self._last = status
        self._status.write(status)


def last_words(title: str, flows: list[FlowProgress]) -> list[str]:
    """Summary lines at the end of a run, including rows that were left out."""
    total = max((flow.rows for flow in flows), default=0)
    lines = [f"{title}: {len(flows)} flows are done, the largest with {total:,} rows."]
    late = [f"{flow.late:,} of {flow.name}" for flow in flows if flow.late]
    if late:
        lines.append(f"Rows left out because their windows were closed already: {', '.join(late)}.")
    return lines


def progress_table(title: str, flows: list[FlowProgress]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("flow", "rows", "in/s", "done/s", "behind", "batch", "state", "late"):
        table.add_column(name, justify="left" if name == "flow" else "right")
    for flow in flows:
        table.add_row(
            flow.name,
            f"{flow.rows:,}",
            f"{flow.input_rate:,.0f}",
            f"{flow.processed_rate:,.0f}",
            "-" if flow.lag is None else f"{flow.lag:,}",
            f"{flow.batch_seconds:.2f} s",
            f"{flow.state_rows:,}",
            f"{flow.late:,}",
        )
    return table


@contextmanager
def _reported(files: PipelineFiles, screen: _StatusScreen) -> Iterator[None]:
    """Report to `__barnabas_status` until the final state is written."""
    reports = Reports([PipelineReport(f"pipeline-{files.name}", files.configuration, screen.reported)])
    reports.start()
    try:
        yield
    finally:
        reports.stop()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run after its micro-batches."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def requested(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, requested) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def served(registry: Registry, where: str | None) -> Iterator[None]:
    """Serve metrics for Prometheus at HOST:PORT."""
    if where is None:
        yield
        return
    try:
        address = parse_address(where)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from None
    with closing(run_in_thread(registry, address.host, address.port)) as server:
        say(f"Metrics are at http://{address.host}:{server.port}/metrics.")
        yield
