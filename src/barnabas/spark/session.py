"""Spark sessions with settings for micro-batches of Python sources, and a Java to run them.

spark = session_builder("my pipeline").getOrCreate()

The caller can override every setting on the builder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from barnabas.spark.java import prepare_java
from barnabas.spark.worker_process import archive_options, prepare_workers, quoted

LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# The reason for each; times are of a micro-batch on two cores.
SETTINGS: dict[str, str] = {
    # A Python worker on TCP loopback costs 40 to 50 ms a task; on a socket file next to nothing.
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers of tasks that come every few seconds must not be started again, with their imports.
    "spark.python.worker.reuse": "true",
    # Timestamps of records are moments, not wall-clock times of the machine that reads them.
    "spark.sql.session.timeZone": "UTC",
    # 200 tasks to group a few thousand rows take longer than the rows.
    "spark.sql.shuffle.partitions": "4",
    # State that outgrows the heap, and snapshots that cost what has changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Options that plans do not show: Spark itself knows only those with "password", "secret" and "token" in their name.
    "spark.sql.redaction.options.regex": (
        r"(?i)url|jaas[.]config|keystore[.]key$|key[.]pem$|^remote[.].*(key|sas|credential|token)"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# For one machine only: on a cluster the address and the file system are the administrator's choice.
LOCAL_SETTINGS: dict[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Two renames and a checksum file less per log entry: 20 to 30 ms instead of 80 to 110. Local paths only.
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session_builder(
    name: str,
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> SparkSession.Builder:
    """A builder with our settings; `settings` come last. LOCAL_SETTINGS only when the master is local."""
    prepare_java()
    prepare_workers()
    # Spark starts `python3` of the PATH otherwise, which need not be the one that has Barnabas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    chosen = {**SETTINGS, **(LOCAL_SETTINGS if is_local(master) else {}), **(settings or {})}
    given = chosen.get(JAVA_OPTIONS, "")
    chosen[JAVA_OPTIONS] = " ".join([quoted([*archive_options(), *java_options]), given]).strip()
    builder = SparkSession.builder.appName(name).master(master)
    for setting, value in chosen.items():
        builder = builder.config(setting, value)
    return builder


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")
