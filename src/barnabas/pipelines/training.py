"""For authors of views that compute something while they are defined, such as a model."""

from __future__ import annotations

from pyspark.sql import SparkSession

PLANNING = "barnabas.planning"


def is_planning(session: SparkSession) -> bool:
    """Whether a definition is only asked for its columns and for the tables that it reads: not the time to train."""
    return session.conf.get(PLANNING, "false") == "true"
