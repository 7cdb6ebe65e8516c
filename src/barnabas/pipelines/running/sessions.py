"""Spark session of `barnabas pipeline` and the demo: quiet, and without a persistent catalog."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from barnabas.client.security import VARIABLE as REFERENCES
from barnabas.pipelines.definitions.files import SPEC_NAMES, PipelineFiles, read_pipeline
from barnabas.pipelines.definitions.settings import PipelineSettings
from barnabas.spark import (
    Deployment,
    PipelineError,
    check_workers,
    deployment_of,
    prepare_java,
    session_builder,
    with_libraries,
)
from barnabas.spark.source.settings import SPAN

# -- Session for evaluating definitions: the runner commits the progress of its streams ----------------

FORMAT = "barnabas"
LISTENERS = "spark.sql.streaming.streamingQueryListeners"
LEFT_TO_THE_FLOW = "__progressoftheflow"
"""Internal option that marks, in the plan of a query, a source whose progress the runner commits."""

_CHOICES_OF_THE_AUTHOR = frozenset({"kafka.group.id", "groupidprefix", "commitprogress"})


class FlowSession(SparkSession):
    """A new session of the same Spark, which isolates the settings and views of pipelines."""

    span: str | None = None
    """Offsets of a backfill: streams defined meanwhile read this part of their topics."""
    _listeners: Sequence[Any] = ()

    @classmethod
    def beside(cls, session: SparkSession) -> FlowSession:
        """A StreamingQueryListener hears of the queries of its session only: those of `session` are added here."""
        made = cls(session._sc, session._jsparkSession.newSession())
        configured = session.conf.get(LISTENERS, "") or ""  # Spark has created them for the new session
        for listener in session._jsparkSession.streams().listListeners():
            if listener.getClass().getName() not in configured.split(","):
                made._jsparkSession.streams().addListener(listener)
        made._listeners = made._all_listeners()
        return made

    def remove_listeners(self) -> None:
        """Remove the listeners that definitions have added."""
        for listener in self._all_listeners():
            if listener not in self._listeners:
                self._jsparkSession.streams().removeListener(listener)

    def _all_listeners(self) -> list[Any]:
        return list(self._jsparkSession.streams().listListeners())

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802 - Spark's name
        return _FlowReader(self)


class _FlowReader(DataStreamReader):
    def __init__(self, spark: FlowSession) -> None:
        super().__init__(spark)
        self._span = spark.span
        self._is_ours = False
        self._is_chosen = False

    def format(self, source: str) -> DataStreamReader:
        self._is_ours = source.lower() == FORMAT
        return super().format(source)

    def option(self, key: str, value: Any) -> DataStreamReader:
        self._is_chosen |= key.lower() in _CHOICES_OF_THE_AUTHOR
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamReader:
        self._is_chosen |= any(key.lower() in _CHOICES_OF_THE_AUTHOR for key in options)
        return super().options(**options)

    def load(
        self,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - Spark's name
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        self.options(**options)
        if self._is_ours and self._span is not None:
            super().options(commitProgress="false", **{SPAN: self._span})
        elif self._is_ours and not self._is_chosen:
            super().options(commitProgress="false", **{LEFT_TO_THE_FLOW: "true"})
        return super().load(path, schema=schema)


@contextmanager
def configured(session: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Apply `spark_conf` of a flow for the `with` block. A query keeps the settings with which it was started."""
    before: dict[str, str | None] = {name: session.conf.get(name, None) for name in conf}
    try:
        for name, value in conf.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, earlier)


# Only for Spark's runner, which loses its tables otherwise. Ours keeps tables as folders in the storage.
CATALOG_SETTINGS = (
    "spark.driver.defaultJavaOptions",
    "spark.sql.legacy.setCommandRejectsSparkCoreConfs",
    "spark.sql.catalogImplementation",
    "spark.sql.warehouse.dir",
    "spark.hadoop.hive.metastore.",
    "spark.hadoop.javax.jdo.",
)
QUIET = Path(__file__).with_name("log4j2.properties")


@contextmanager
def pipeline_session(
    name: str,
    configuration: Mapping[str, str],
    *,
    master: str | None = None,
    java_options: Sequence[str] = (),
) -> Iterator[SparkSession]:
    """Open a session with the pipeline's settings for the `with` block. PipelineError if Spark cannot run Barnabas."""
    os.environ.setdefault(REFERENCES, "env,file")  # the author of a pipeline can read both anyway
    deployment = deployment_of(master, configuration)
    _require_jvm(deployment)
    catalog = tempfile.mkdtemp(prefix="barnabas-catalog-")
    settings = {
        **{key: value for key, value in with_libraries(configuration).items() if _for_session(key)},
        "spark.sql.warehouse.dir": catalog,
    }
    options = [f"-Dlog4j2.configurationFile={QUIET.as_uri()}", *java_options]
    builder = session_builder(name, master=master, settings=settings, java_options=options)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:  # Spark's own report precedes it
        shutil.rmtree(catalog, ignore_errors=True)
        raise PipelineError(f"Spark did not start with the master {deployment.master}.", error) from None
    try:
        if deployment.is_submitted or not deployment.is_local:
            check_workers(session)
        yield session
    finally:
        try:
            session.stop()
        finally:
            shutil.rmtree(catalog, ignore_errors=True)


def _require_jvm(deployment: Deployment) -> None:
    if deployment.remote:
        raise PipelineError(
            f"Connectors need a driver with a JVM, and Spark Connect ({deployment.remote}) has none: unset "
            "SPARK_REMOTE and name a master."
        )


def _for_session(name: str) -> bool:
    return name.startswith("spark.") and not name.startswith(CATALOG_SETTINGS)


# -- Spark's runner ------------------------------------------------------------------------------------


def connect_server(files: PipelineFiles, master: str | None, options: Iterable[str] = ()) -> str:
    """Return the URL of the Spark Connect server that is to run the pipeline; empty if the driver has a JVM.

    PipelineError names the settings and the command's `options` that only our runner has.
    """
    remote = deployment_of(master, files.configuration).remote
    needed = [*_needs_our_runner(files.settings), *options]
    if remote and needed:
        *first, last = needed
        subject = f"{', '.join(first)} and {last} need" if first else f"{last} needs"
        raise PipelineError(
            f"{subject} a driver with a JVM, and Spark Connect ({remote}) has none: go without, or unset "
            "SPARK_REMOTE and name a master."
        )
    return remote


def _needs_our_runner(settings: PipelineSettings) -> Iterator[str]:
    for name in ("quality", "dead_letters", "alarms", "lake", "publish"):
        if getattr(settings, name):
            yield f"`{name}`"
    flows = settings.flows.values()
    if any(flow.mode == "update" for flow in flows):
        yield "the mode `update`"
    if any(flow.group for flow in flows):
        yield "the `group` of a flow"


def run_with_spark(files: PipelineFiles, command: str, remote: str = "") -> int:
    """Run Spark's `spark-pipelines` in the pipeline's folder and return its exit code.

    PipelineError for settings from elsewhere, which Spark's runner does not know.
    """
    written = read_pipeline(files.folder).configuration
    others = sorted(name for name, value in files.configuration.items() if written.get(name) != value)
    if others:
        raise PipelineError(
            f"Spark's runner has only the settings of {files.folder / SPEC_NAMES[0]}: write {', '.join(others)} there."
        )
    if not remote:
        prepare_java()
    spec = next(name for name in SPEC_NAMES if (files.folder / name).exists())
    environment = {
        REFERENCES: "env,file",
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    program = os.path.join(os.path.dirname(sys.executable), "spark-pipelines")
    where = ["--remote", remote] if remote else []
    return subprocess.run(
        [program, command, *where, "--spec", spec], cwd=files.folder, env=environment, check=False
    ).returncode
