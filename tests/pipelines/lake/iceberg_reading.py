"""Reads Iceberg tables with Iceberg's own reader, which has nothing to do with Spark."""

from collections.abc import Iterator
from typing import Any

from py4j.java_collections import JavaList
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from barnabas.pipelines.jvm import jvm_of


def load(session: SparkSession, url: str) -> Any:
    tables = jvm_of(session).org.apache.iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration())
    return tables.load(url)


def rows_of(session: SparkSession, url: str) -> list[dict[str, Any]]:
    """Every row; times as microseconds since 1970."""
    table = load(session, url)
    names = [field.name() for field in table.schema().columns()]
    records = jvm_of(session).org.apache.iceberg.data.IcebergGenerics.read(table).build()
    return [{name: _plain(record.getField(name)) for name in names} for record in _each(records)]


def file_count(session: SparkSession, url: str) -> int:
    return sum(1 for _ in _each(load(session, url).newScan().planFiles()))


def _each(closeable: Any) -> Iterator[Any]:
    found = closeable.iterator()
    while found.hasNext():
        yield found.next()
    closeable.close()


def _plain(value: Any) -> Any:
    if isinstance(value, JavaList):
        return list(value)
    if isinstance(value, JavaObject):  # a time with its zone
        moment = value.toInstant()
        return moment.getEpochSecond() * 1_000_000 + moment.getNano() // 1000
    return value
