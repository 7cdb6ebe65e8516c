"""For authors of views that compute something during definition, such as a model."""

from __future__ import annotations

from pyspark.sql import SparkSession

PLANNING = "barnabas.planning"


def is_planning(session: SparkSession) -> bool:
    """True while a definition is evaluated only for its columns and dependencies: skip training then."""
    return session.conf.get(PLANNING, "false") == "true"
