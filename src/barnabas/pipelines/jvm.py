"""The JVM behind a session, for what Spark can do and PySpark has no name for."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def jvm_of(session: SparkSession) -> Any:
    """Classes by their full names, as attributes. Only a classic session has one; Connect's is on another machine."""
    return session._jvm
