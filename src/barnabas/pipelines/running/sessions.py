"""Spark session of `barnabas pipeline` and the demo: quiet, and without a persistent catalog."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from barnabas.client.security import VARIABLE as REFERENCES
from barnabas.pipelines.definitions.files import SPEC_NAMES, PipelineFiles
from barnabas.spark import prepare_java, session_builder, with_libraries

# -- Session for evaluating definitions: the runner commits the progress of its streams ----------------

FORMAT = "barnabas"
LEFT_TO_THE_FLOW = "__progressoftheflow"
"""Internal option that marks, in the plan of a query, a source whose progress the runner commits."""

_CHOICES_OF_THE_AUTHOR = frozenset({"kafka.group.id", "groupidprefix", "commitprogress"})


class FlowSession(SparkSession):
    """A new session of the same Spark, which isolates the settings and views of pipelines."""

    @classmethod
    def beside(cls, session: SparkSession) -> FlowSession:
        return cls(session._sc, session._jsparkSession.newSession())

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802 - Spark's name
        return _FlowReader(self)


class _FlowReader(DataStreamReader):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
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
        if self._is_ours and not self._is_chosen:
            super().options(commitProgress="false", **{LEFT_TO_THE_FLOW: "true"})
        return super().load(path, schema=schema)


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
    master: str = "local[*]",
    java_options: Sequence[str] = (),
) -> Iterator[SparkSession]:
    """Open a session with the pipeline's settings for the `with` block."""
    os.environ.setdefault(REFERENCES, "env,file")  # the author of a pipeline can read both anyway
    catalog = tempfile.mkdtemp(prefix="barnabas-catalog-")
    settings = {
        **{key: value for key, value in with_libraries(configuration).items() if _for_session(key)},
        "spark.sql.warehouse.dir": catalog,
    }
    options = [f"-Dlog4j2.configurationFile={QUIET.as_uri()}", *java_options]
    builder = session_builder(name, master=master, settings=settings, java_options=options)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        try:
            session.stop()
        finally:
            shutil.rmtree(catalog, ignore_errors=True)


def _for_session(name: str) -> bool:
    return name.startswith("spark.") and not name.startswith(CATALOG_SETTINGS)


def run_with_spark(files: PipelineFiles, command: str) -> int:
    """Run Spark's `spark-pipelines` in the pipeline's folder and return its exit code. `--set` is not passed on."""
    prepare_java()
    spec = next(name for name in SPEC_NAMES if (files.folder / name).exists())
    environment = {
        REFERENCES: "env,file",
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    program = os.path.join(os.path.dirname(sys.executable), "spark-pipelines")
    return subprocess.run(
        [program, command, "--spec", spec], cwd=files.folder, env=environment, check=False
    ).returncode
