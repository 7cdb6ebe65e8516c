"""Delta's library in the session of a connector."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.jvm import jvm_of

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
CHECK = "spark.databricks.delta.requiredSparkConfsCheck.enabled"


def require_delta(session: SparkSession) -> None:
    """PipelineError if the library is not on the class path. Its SQL and its catalog are not needed for paths."""
    jvm = jvm_of(session)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass("io.delta.sql.DeltaSparkSessionExtension")
    except Py4JJavaError:
        raise PipelineError(
            "Delta's library is not there: say `spark.jars.packages: " + PACKAGE + "` in the connector's "
            "`configuration`, or name its jars with `spark.jars`."
        ) from None
    session.conf.set(CHECK, "false")
