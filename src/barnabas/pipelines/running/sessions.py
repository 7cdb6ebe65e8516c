"""The Spark session of `barnabas pipeline` and of the demo: quiet, and without a catalog that outlives it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from barnabas.client.security.references import VARIABLE as REFERENCES
from barnabas.pipelines.definitions.files import SPEC_NAMES, PipelineFiles
from barnabas.spark.jars import with_libraries
from barnabas.spark.java import prepare_java
from barnabas.spark.session import session_builder

# For Spark's own runner only, which forgets its tables without them. Ours keeps tables as folders of the storage.
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
    """A session with the pipeline's settings, for as long as the `with` block runs."""
    os.environ.setdefault(REFERENCES, "env,file")  # the author of the pipeline's files may read them anyway
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
    """Spark's own runner, `spark-pipelines`, in the pipeline's folder; its exit code. It does not get `--set`."""
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
