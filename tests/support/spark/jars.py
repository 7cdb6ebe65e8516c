"""Location of Spark's jars: its Kafka connector (or SPARK_KAFKA_LIBS), Iceberg and S3A, from `make java`."""

import os
from pathlib import Path

import pytest

from tests.support.programs import PROJECT_ROOT, in_ci

CONNECTOR_VERSION = "4.2.0"  # the newest that can be had; it works with Spark 4.3 too
ICEBERG_VERSION = "1.12.0"
HADOOP_VERSION = "3.5.0"
KUBERNETES_VERSION = "7.6.1"  # of fabric8's client in PySpark
DEFAULT_LIBS = PROJECT_ROOT / ".cache" / f"spark-kafka-{CONNECTOR_VERSION}" / "libs"


def connector_jars() -> list[Path]:
    """All of them, or none: a session without them still runs our sources."""
    return sorted(Path(os.environ.get("SPARK_KAFKA_LIBS") or DEFAULT_LIBS).glob("*.jar"))


def iceberg_jars() -> list[Path]:
    return sorted((PROJECT_ROOT / ".cache" / f"iceberg-{ICEBERG_VERSION}" / "libs").glob("*.jar"))


def s3a_jars() -> list[Path]:
    return sorted((PROJECT_ROOT / ".cache" / f"s3a-{HADOOP_VERSION}" / "libs").glob("*.jar"))


def hdfs_jars() -> list[Path]:
    return sorted((PROJECT_ROOT / ".cache" / f"hdfs-{HADOOP_VERSION}" / "libs").glob("*.jar"))


def yarn_jars() -> list[Path]:
    return sorted((PROJECT_ROOT / ".cache" / f"yarn-{HADOOP_VERSION}" / "libs").glob("*.jar"))


def kubernetes_jars() -> list[Path]:
    return sorted((PROJECT_ROOT / ".cache" / f"kubernetes-{KUBERNETES_VERSION}" / "libs").glob("*.jar"))


requires_kubernetes = pytest.mark.skipif(
    not kubernetes_jars(), reason="no jars of a Kubernetes API server: run `make spark-clusters`"
)
requires_yarn = pytest.mark.skipif(not yarn_jars(), reason="no jars of YARN: run `make spark-clusters`")
requires_s3a = pytest.mark.skipif(not s3a_jars() and not in_ci(), reason="no jars for s3a: run `make java`")
requires_hdfs = pytest.mark.skipif(not hdfs_jars(), reason="no jar of HDFS: run `make hdfs`")


def connect_jars() -> list[Path]:
    """The driver of PostgreSQL, and Delta."""
    return sorted((PROJECT_ROOT / ".cache" / "connect-1" / "libs").glob("*.jar"))


requires_connect_jars = pytest.mark.skipif(
    not connect_jars() and not in_ci(), reason="no jars of Delta and of PostgreSQL's driver: run `make java`"
)
requires_iceberg = pytest.mark.skipif(
    not iceberg_jars() and not in_ci(), reason="no jars of Iceberg: run `make java`"
)
requires_connector = pytest.mark.skipif(
    not connector_jars() and not in_ci(), reason="no jars of Spark's Kafka connector: run `make java`"
)
