"""Reads Iceberg tables with Iceberg's reader, independently of Spark."""

from collections.abc import Iterator
from typing import Any

from py4j.java_collections import JavaList
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from barnabas.spark.java import jvm_of


def load(session: SparkSession, url: str) -> Any:
    tables = jvm_of(session).org.apache.iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration())
    return tables.load(url)


def rows_of(session: SparkSession, url: str) -> list[dict[str, Any]]:
    """Every row; times as microseconds since 1970.

    File by file, because `IcebergGenerics` reads nested columns of files without ids as NULL: of all of Iceberg's
    readers it alone does not ask for the table's mapping of names.
    """
    table = load(session, url)
    return [row for task in _each(table.newScan().planFiles()) for row in _rows(session, table, task.file())]


def _rows(session: SparkSession, table: Any, file: Any) -> list[dict[str, Any]]:
    iceberg = jvm_of(session).org.apache.iceberg
    mapping = iceberg.mapping.NameMappingParser.fromJson(
        table.properties().get("schema.name-mapping.default")
    )
    kind = table.getClass().getClassLoader().loadClass("org.apache.iceberg.data.Record")
    source = table.io().newInputFile(file.location())
    reader = iceberg.formats.FormatModelRegistry.readBuilder(file.format(), kind, source)
    names = [field.name() for field in table.schema().columns()]
    records = reader.project(table.schema()).withNameMapping(mapping).build()
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
        return [_plain(each) for each in value]
    kind = value.getClass().getSimpleName() if isinstance(value, JavaObject) else ""
    if kind.endswith("ByteBuffer"):
        return bytes(value.array())
    if kind == "GenericRecord":
        names = [field.name() for field in value.struct().fields()]
        return {name: _plain(value.getField(name)) for name in names}
    if kind:  # a time with its zone
        timestamp = value.toInstant()
        return timestamp.getEpochSecond() * 1_000_000 + timestamp.getNano() // 1000
    return value
