"""Checks that the Python of Spark's driver and executors can run Barnabas, with a query that reads nothing.

Spark runs all parts of a Python data source, also on executors, with the Python that PYSPARK_DRIVER_PYTHON or else
PYSPARK_PYTHON names in the environment of the driver's JVM. The setting `spark.pyspark.python` has no effect on them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.spark.errors import PipelineError

OPTION = "checkworkers"
"""Internal option of the data source, which then reads with WorkerCheckReader. A registered data source would not do:
Spark runs it with another Python than a discovered one."""
SCHEMA = "python STRING, machine STRING"
PARTITIONS = 8  # as a sample of the executors; each takes milliseconds
SHIP = (
    "`barnabas pipeline pack -o env.tar.gz` builds an environment for them and prints the commands; or install "
    "Barnabas on every node and set PYSPARK_PYTHON to its Python in the environment of the driver."
)

_MISSING = re.compile(r"No module named '([^']+)'")
_CANNOT_RUN = re.compile(r"Cannot run program \"([^\"]+)\".*?error=(\d+)", re.DOTALL)
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH[^\n]*")
_EXEC_FORMAT = "8"
FAILURES = (PySparkException, Py4JError)
PYTHON_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


class WorkerCheckReader(DataSourceReader):
    """One row per task: version and processor of its Python."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
        import barnabas.spark.source  # noqa: F401 - compiled dependencies must load, too

        yield platform.python_version(), platform.machine()


def use_this_python() -> None:
    """Let a plain session on this machine find the data source in a virtual environment that is not activated.

    Spark plans data sources with `python3` of the PATH, unless a variable names another one. Before Spark has started,
    this has the effect of an activation; afterwards it is too late, and PipelineError says so.
    """
    if any(name in os.environ for name in PYTHON_VARIABLES):
        return
    folder = os.path.dirname(sys.executable)
    found = shutil.which("python3")
    if found is not None and os.path.dirname(found) == folder:
        return
    if SparkContext._gateway is not None:
        if found is None or not _has_barnabas(found):
            raise PipelineError(driver_problem(""))
    elif os.path.exists(os.path.join(folder, "python3")):
        os.environ["PATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PATH")])])


def _has_barnabas(python: str) -> bool:
    check = [python, "-c", "import pyspark_barnabas"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


def check_workers(session: SparkSession) -> None:
    """PipelineError if Python on the driver or on executors lacks Barnabas, or is another version."""
    try:
        frame = session.read.format("barnabas").option(OPTION, "true").load()
        frame.schema  # noqa: B018 - with Spark Connect, planning happens here
    except FAILURES as error:
        raise PipelineError(driver_problem(str(error)), error) from None
    try:
        frame.collect()
    except FAILURES as error:
        raise PipelineError(executor_problem(str(error)), error) from None


def driver_problem(text: str) -> str:
    used = os.environ.get("PYSPARK_DRIVER_PYTHON") or os.environ.get("PYSPARK_PYTHON") or "python3"
    problem = f"Spark's driver plans data sources with another Python ({used}), which cannot import Barnabas"
    if found := _CANNOT_RUN.search(text):
        problem = f"Spark's driver cannot run {found[1]}, with which it plans data sources"
    return (
        f"{problem}: set PYSPARK_PYTHON to {sys.executable} in the environment before Spark starts. "
        "The setting spark.pyspark.python has no effect on data sources."
    )


def executor_problem(text: str) -> str:
    if found := _MISSING.search(text):
        return f"Python on the executors has no module {found[1]}: {SHIP}"
    if found := _CANNOT_RUN.search(text):
        reason = "is for another processor" if found[2] == _EXEC_FORMAT else "does not exist there"
        return f"The executors cannot run {found[1]}, which {reason}: {SHIP}"
    if _VERSIONS.search(text):
        return f"Executors have another Python than {platform.python_version()} of the driver: {SHIP}"
    return f"Python on the executors cannot run Barnabas: {SHIP}"
