"""Where the jars of Spark's own Kafka connector are: SPARK_KAFKA_LIBS, or where `make java` puts them."""

import os
from pathlib import Path

import pytest

from tests.kafka_jars import PROJECT_ROOT, in_ci

CONNECTOR_VERSION = "4.2.0"
DEFAULT_LIBS = PROJECT_ROOT / ".cache" / f"spark-kafka-{CONNECTOR_VERSION}" / "libs"


def connector_jars() -> list[Path]:
    """All of them, or none: a session without them still runs what is ours."""
    return sorted(Path(os.environ.get("SPARK_KAFKA_LIBS") or DEFAULT_LIBS).glob("*.jar"))


requires_connector = pytest.mark.skipif(
    not connector_jars() and not in_ci(), reason="no jars of Spark's Kafka connector: run `make java`"
)
