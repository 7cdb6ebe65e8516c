"""Spark and the three pipelines of the demo, in a thread, so that they do not block the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.client.status import ProcessStatus
from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.definitions.files import PipelineFiles, read_pipeline
from barnabas.pipelines.definitions.settings import AlarmRule
from barnabas.pipelines.definitions.templates import copy_template
from barnabas.pipelines.running.progress import FlowProgress
from barnabas.pipelines.running.sessions import pipeline_session
from barnabas.pipelines.running.status import as_reported, new_status
from barnabas.pipelines.running.status_reports import PipelineReport, Reports
from barnabas.spark.java import end_jvm

if TYPE_CHECKING:
    from barnabas.pipelines.running.runner import Runner

TEMPLATES = ("activity", "operations", "warehouse")  # in this order: the first one gives the first results
SPARK = {
    # One task per small batch; more would only queue for the two cores of a laptop.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
}
# Empty batches close windows after the last record. Alarms need that; updated counts do not.
OWN = {"activity": {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}}
# For a JVM that runs for a minute: only the C1 compiler and the serial GC. With one compiler Java reserves 48 MB of
# code cache by default, which three pipelines fill in a minute; then it logs a warning and stops compiling.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
ALONE_SECONDS = 20.0  # time for the first results before the other flows start
DRAIN_SECONDS = 600.0
END_SECONDS = 10.0
RECORD_SECONDS = 120.0  # for a JVM that writes a class data archive on exit


def copy_pipelines(folder: Path, settings: Mapping[str, str]) -> list[PipelineFiles]:
    """Copy the pipelines as `barnabas pipeline init` does, with the demo's settings."""
    for name in TEMPLATES:
        copy_template(name, folder / name)
    return [read_pipeline(folder / name, {**settings, **SPARK, **OWN.get(name, {})}) for name in TEMPLATES]


class Pipelines:
    """`started` and `finish()` are futures; `say` gets each step, `hear` gets alarms, both from other threads."""

    def __init__(
        self,
        files: Sequence[PipelineFiles],
        say: Callable[[str], None],
        hear: Callable[[Sequence[AlarmEvent]], None],
        java_options: Sequence[str] = SHORT_LIVED,
    ) -> None:
        self._files = files
        self._say = say
        self._hear = hear
        self._java_options = java_options
        self._runners: list[Runner] = []
        self._reports = Reports([self._reported(each) for each in files])
        self._opened = ExitStack()
        self._work = ThreadPoolExecutor(1, "pipelines")
        self._session = ThreadPoolExecutor(1, "spark")

    def __enter__(self) -> Pipelines:
        self.session: Future[Any] = self._session.submit(self._open_session)
        self.started: Future[None] = self._work.submit(self._start)
        self._reports.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._reports.stop()
            for runner in self._runners:
                runner.close()
            self._opened.close()
            end_jvm(RECORD_SECONDS)
        else:
            self._abandon()
        self._work.shutdown()
        self._session.shutdown()

    def _abandon(self) -> None:
        """Kill Spark without waiting for its work to finish, once it has started."""
        with suppress(Exception):
            self.session.result(END_SECONDS)
        end_jvm(END_SECONDS)
        with suppress(Exception):  # the session's JVM has exited
            self._opened.close()

    @property
    def rules(self) -> list[AlarmRule]:
        return [rule for files in self._files for rule in files.settings.alarms]

    @property
    def flows(self) -> list[FlowProgress]:
        return [flow for runner in self._runners for flow in runner.flows.values()]

    def look(self) -> None:
        """Raise PipelineError if a flow has failed."""
        for runner in list(self._runners):
            runner.look()

    def _reported(self, files: PipelineFiles) -> PipelineReport:
        """Status report as by `barnabas pipeline run`; the console shows it."""

        def look() -> ProcessStatus:
            for runner in list(self._runners):
                if runner.files.name == files.name:
                    status = new_status(files.name, "running", list(runner.flows.values()))
                    status.alarms = runner.firing_alarms()
                    return as_reported(status)
            return ProcessStatus("pipeline", files.name, "starting")

        return PipelineReport(f"pipeline-{files.name}", files.configuration, look)

    def finish(self) -> Future[None]:
        """Process all records that are in the topics now."""
        return self._work.submit(self._finish)

    def _open_session(self) -> Any:
        session = pipeline_session("barnabas demo", SPARK, java_options=self._java_options)
        return self._opened.enter_context(session)

    def _start(self) -> None:
        """Start the pipelines one after another, while the screen shows the results of the first."""
        from barnabas.pipelines.running.runner import Runner  # imports pandas while the JVM starts

        session = self.session.result()
        for files in self._files:
            self._say(f"planning {files.name}")
            runner = Runner(files, session, alarm_listener=self._hear)
            runner.prepare()
            self._runners.append(runner)
            self._say(f"starting {files.name}")
            runner.start(alone=ALONE_SECONDS if runner is self._runners[0] else 0.0)
        self._say("all pipelines run")

    def _finish(self) -> None:
        for runner in self._runners:
            runner.finish(DRAIN_SECONDS)
