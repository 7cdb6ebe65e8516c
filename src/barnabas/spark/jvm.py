"""The JVM behind a session, for what Spark can do and PySpark has no name for."""

from __future__ import annotations

import subprocess
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession


def jvm_of(session: SparkSession) -> Any:
    """Classes by their full names, as attributes. Only a classic session has one; Connect's is on another machine."""
    return session._jvm


def end_jvm(patience: float) -> None:
    """End the JVM that PySpark has started here, and wait for it. Without it Python's workers end, too."""
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None or process.stdin is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # the next session of this process gets a new one
    process.stdin.close()  # for Spark the sign that its driver is gone
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
