"""Spark sessions with settings for micro-batches of Python sources, and a Java to run them.

spark = session_builder("my pipeline").getOrCreate()

The caller can override every setting on the builder. Master, deploy mode, Python and Spark home are those of
spark-submit, SPARK_REMOTE, spark-defaults.conf or the environment; without any, Spark runs on this machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from barnabas.spark.deployment import Deployment, deployment_of, require_reachable, require_supported_spark
from barnabas.spark.java import prepare_java
from barnabas.spark.worker_process import archive_options, prepare_workers, quoted

LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# The reason for each; times are of a micro-batch on two cores.
SETTINGS: dict[str, str] = {
    # Workers of tasks that come every few seconds must not be started again, with their imports.
    "spark.python.worker.reuse": "true",
    # Timestamps of records are moments, not wall-clock times of the machine that reads them.
    "spark.sql.session.timeZone": "UTC",
    # State that outgrows the heap, and snapshots that cost what has changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Options that plans do not show: Spark itself knows only those with "password", "secret" and "token" in their name.
    "spark.sql.redaction.options.regex": (
        r"(?i)url|registry$|jaas[.]config|user[.]info|keystore[.]key$|key[.]pem$|^remote[.].*(key|sas|credential|token)"
    ),
    "spark.ui.showConsoleProgress": "false",
}

# For one machine only: on a cluster addresses, file system and UI are the administrator's choice.
LOCAL_SETTINGS: dict[str, str] = {
    # A Python worker on TCP loopback costs 40 to 50 ms a task; on a socket file next to nothing. The paths of YARN's
    # temporary folders are too long for socket files.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    # 200 tasks to group a few thousand rows take longer than the rows.
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Two renames and a checksum file less per log entry: 20 to 30 ms instead of 80 to 110. Local paths only.
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
WAREHOUSE = "spark.sql.warehouse.dir"


def session_builder(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> SparkSession.Builder:
    """A builder with our settings, except those configured outside of the program; `settings` come last.

    PipelineError if this Spark is not supported, or if the master does not respond.
    """
    require_supported_spark()
    deployment = deployment_of(master, settings or {})
    require_reachable(deployment)
    builder = SparkSession.builder.appName(name)
    if deployment.remote:
        if "://" not in deployment.remote:  # `local[2]`: PySpark starts a server here
            prepare_java()
            _prepare_local(deployment)
        return _configured(builder.remote(deployment.remote), _remote_settings(settings or {}))
    if not deployment.is_submitted:
        prepare_java()
    if deployment.is_local:
        _prepare_local(deployment)
    chosen = {**SETTINGS, **(LOCAL_SETTINGS if deployment.is_local else {})}
    chosen = {key: value for key, value in chosen.items() if key not in deployment.given} | dict(
        settings or {}
    )
    if not deployment.is_submitted:  # that JVM has its options
        chosen[JAVA_OPTIONS] = _java_options(deployment, chosen, java_options)
    return _configured(builder.master(deployment.master), chosen)


def _prepare_local(deployment: Deployment) -> None:
    if not deployment.is_submitted:
        prepare_workers()
    # Spark starts `python3` of the PATH otherwise, which need not be the one that has Barnabas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _java_options(deployment: Deployment, chosen: Mapping[str, str], options: Sequence[str]) -> str:
    archive = archive_options() if deployment.is_local else []
    values = chosen.get(JAVA_OPTIONS) or deployment.given.get(JAVA_OPTIONS, "")
    return " ".join([quoted([*archive, *options]), values]).strip()


def _remote_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Of a session on a Spark Connect server, whose own settings are fixed."""
    chosen = {**SETTINGS, **settings}
    return {key: value for key, value in chosen.items() if key.startswith("spark.sql.") and key != WAREHOUSE}


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    return builder
