"""An Iceberg table addressed by URL, written with Iceberg's Java library in Spark's JVM.

Each release of Iceberg's Spark connector supports one Spark version, and none supports 4.2 or 4.3 yet. The core library
does not depend on Spark: one commit adds files written by Spark to the table. Any engine that supports Iceberg can read
it.

The summary of a snapshot contains stream and batch number, and a commit is rejected if data was added since the
summaries were read. Each batch is therefore in the table once, even if two drivers process it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark
from pyspark.sql.types import StructType

from barnabas.pipelines.definitions.settings import SchemaEvolution
from barnabas.spark import FoundFile, PipelineError, jvm_of

# -- Converts a Spark schema to the JSON of an Iceberg schema, with field ids. No I/O ------------------

_SIMPLE: dict[type[spark.DataType], str] = {
    spark.BooleanType: "boolean",
    spark.ByteType: "int",
    spark.ShortType: "int",
    spark.IntegerType: "int",
    spark.LongType: "long",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.DateType: "date",
    spark.TimestampType: "timestamptz",
    spark.TimestampNTZType: "timestamp",
    spark.StringType: "string",
    spark.BinaryType: "binary",
}
Shape = dict[str, Any]


def iceberg_schema(schema: spark.StructType) -> Shape:
    """Convert a schema with all columns optional: a stream may produce NULL later, which Iceberg would reject."""
    return {"schema-id": 0, **_struct(schema, itertools.count(1))}


def columns_of(schema: Shape) -> dict[str, Any]:
    """Return the column types by name for comparison, without ids and documentation."""
    return {field["name"]: _without_ids(field["type"]) for field in schema["fields"]}


def _struct(schema: spark.StructType, ids: Iterator[int]) -> Shape:
    # Fields of a level are numbered before nested ones, as in Iceberg.
    numbered = [(next(ids), field) for field in schema.fields]
    fields = [
        {"id": number, "name": field.name, "required": False, "type": _type(field.name, field.dataType, ids)}
        for number, field in numbered
    ]
    return {"type": "struct", "fields": fields}


def _type(name: str, kind: spark.DataType, ids: Iterator[int]) -> Any:
    if isinstance(kind, spark.StructType):
        return _struct(kind, ids)
    if isinstance(kind, spark.DecimalType):
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, spark.ArrayType):
        return {
            "type": "list",
            "element-id": next(ids),
            "element-required": False,
            "element": _type(name, kind.elementType, ids),
        }
    if isinstance(kind, spark.MapType):
        return {
            "type": "map",
            "key-id": next(ids),
            "value-id": next(ids),
            "value-required": False,
            "key": _type(name, kind.keyType, ids),
            "value": _type(name, kind.valueType, ids),
        }
    simple = _SIMPLE.get(type(kind))
    if simple is None:
        raise PipelineError(
            f"The column {name} is of type {kind.simpleString()}, which Iceberg does not have."
        )
    return simple


def _without_ids(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return columns_of(kind)
    return {name: _without_ids(kind[name]) for name in ("type", "element", "key", "value") if name in kind}


LIBRARY = "org.apache.iceberg:iceberg-parquet"
QUERY, BATCH, MERGE = "barnabas.query-id", "barnabas.batch-id", "barnabas.merge-id"
PROPERTIES = {
    # Each commit writes the whole list of snapshots; older metadata files are useless.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class TableFile(NamedTuple):
    """A current file of the table; `hour` counts from the epoch, None if the time is NULL."""

    hour: int | None
    size: int
    path: str
    handle: Any


class _LastBatch(NamedTuple):
    """Last snapshot whose summary was read, and the last batch of the stream up to there."""

    query: str
    snapshot: int
    batch: int


class IcebergTable:
    """Loads the table, or creates it for `schema`, partitioned by the hour of the column `hours`."""

    def __init__(
        self,
        session: SparkSession,
        url: str,
        schema: StructType,
        hours: str,
        properties: Mapping[str, str] | None = None,
        evolution: SchemaEvolution = "add",
    ) -> None:
        self._iceberg = iceberg_of(session)
        self._java = jvm_of(session).java
        self._url = url
        tables = self._iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration())
        wanted = iceberg_schema(schema)
        if tables.exists(url):
            self._table = tables.load(url)
            change = evolution_of(self._iceberg, self._table, url, wanted, evolution)
            if change is not None:
                change.commit()
        else:
            self._table = self._create(tables, wanted, hours)
        self._set_properties(properties or {})
        self.partition = self._table.spec().fields().get(0).name()
        mapping = self._table.properties().get("schema.name-mapping.default")
        self._mapping = self._iceberg.mapping.NameMappingParser.fromJson(mapping)
        self._looked: _LastBatch | None = None

    def latest_batch(self, query: str) -> int:
        """Return the last batch of a stream in the table, or -1."""
        self._table.refresh()
        newest = snapshot = self._table.currentSnapshot()
        found = -1
        while snapshot is not None:
            if self._looked is not None and (query, snapshot.snapshotId()) == self._looked[:2]:
                found = self._looked.batch
                break
            if snapshot.summary().get(QUERY) == query:
                found = int(snapshot.summary().get(BATCH))
                break
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)
        if newest is not None:
            self._looked = _LastBatch(query, newest.snapshotId(), found)
        return found

    def append(self, files: Iterable[FoundFile], query: str, batch: int) -> bool:
        """Commit the files as a batch of a stream; return False if the batch is already in the table."""
        handles = [self._handle(file) for file in files]
        while self.latest_batch(query) < batch:
            # Unlike an append, an overwrite can validate against concurrent commits.
            change = self._table.newOverwrite()
            change.conflictDetectionFilter(self._iceberg.expressions.Expressions.alwaysTrue())
            change.validateNoConflictingData()
            if self._looked is not None:
                change.validateFromSnapshot(self._looked.snapshot)
            change.set(QUERY, query).set(BATCH, str(batch))
            for handle in handles:
                change.addFile(handle)
            if _committed(change):
                return True
        return False

    def files(self) -> Iterator[TableFile]:
        """Yield the files that can be rewritten; skips files with row-level deletes by other engines."""
        tasks = self._table.newScan().planFiles()
        integer = self._java.lang.Class.forName("java.lang.Integer")
        try:
            found = tasks.iterator()
            while found.hasNext():
                task = found.next()
                file = task.file()
                if task.deletes().isEmpty():
                    hour = file.partition().get(0, integer)
                    yield TableFile(hour, file.fileSizeInBytes(), file.location(), file)
        finally:
            tasks.close()

    def replace(self, old: Iterable[TableFile], new: Iterable[FoundFile], merge: str) -> bool:
        """Replace files with others of the same rows, atomically; return False if the old ones changed meanwhile."""
        change = self._table.newRewrite().validateFromSnapshot(self._table.currentSnapshot().snapshotId())
        change.set(MERGE, merge)
        for replaced in old:
            change.deleteFile(replaced.handle)
        for file in new:
            change.addFile(self._handle(file))
        return _committed(change)

    def has_merge(self, merge: str) -> bool:
        self._table.refresh()
        return any(snapshot.summary().get(MERGE) == merge for snapshot in self._table.snapshots())

    def expire(self, before: float, at_least: int) -> None:
        """Expire snapshots older than `before`, and delete the files that only they used."""
        expire = self._table.expireSnapshots().expireOlderThan(int(before * 1000))
        expire.retainLast(at_least).commit()

    def _create(self, tables: Any, wanted: dict[str, Any], hours: str) -> Any:
        schema = self._iceberg.SchemaParser.fromJson(json.dumps(wanted))
        spec = self._iceberg.PartitionSpec.builderFor(schema).hour(hours).build()
        mapping = self._iceberg.mapping
        properties = self._java.util.HashMap()
        for name, value in PROPERTIES.items():
            properties.put(name, value)
        # Spark writes column names to files, not field ids.
        names = mapping.NameMappingParser.toJson(mapping.MappingUtil.create(schema))
        properties.put("schema.name-mapping.default", names)
        return tables.create(schema, spec, properties, self._url)

    def _set_properties(self, wanted: Mapping[str, str]) -> None:
        found = self._table.properties()
        different = {name: value for name, value in wanted.items() if found.get(name) != value}
        if not different:
            return
        change = self._table.updateProperties()
        for name, value in different.items():
            change.set(name, value)
        change.commit()

    def _handle(self, file: FoundFile) -> Any:
        """Return Iceberg's DataFile. `file.name` is its URL, whose last folder names the hour."""
        folder = file.name.split("/")[-2]
        metrics = self._iceberg.parquet.ParquetUtil.fileMetrics(
            self._table.io().newInputFile(file.name),
            self._iceberg.MetricsConfig.forTable(self._table),
            self._mapping,
        )
        builder = self._iceberg.DataFiles.builder(self._table.spec()).withPath(file.name)
        builder = builder.withFormat("parquet").withFileSizeInBytes(file.size)
        return builder.withPartitionPath(folder).withMetrics(metrics).build()


def evolution_of(iceberg: Any, table: Any, url: str, wanted: Shape, evolution: SchemaEvolution) -> Any | None:
    """Return the uncommitted change that adds the columns of the rows; None if the table has them. PipelineError if it
    cannot have them. Columns that the rows lack stay, and are NULL."""
    found = json.loads(iceberg.SchemaParser.toJson(table.schema()))
    here, there = columns_of(wanted), columns_of(found)
    different = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    if not different:
        return None
    change, cause = table.updateSchema(), ""
    try:
        change.unionByNameWith(iceberg.SchemaParser.fromJson(json.dumps(wanted))).apply()
    except (Py4JJavaError, PySparkException) as error:
        cause = str(error).splitlines()[0]
    if not cause and evolution == "add":
        return change
    raise PipelineError(
        f"The Iceberg table at {url} has other columns than the flow that fills it ({', '.join(different)}): "
        f"{'set `schema_evolution: add`, ' if not cause else ''}change it with Iceberg, or write to another path.",
        cause,
    )


def iceberg_of(session: SparkSession) -> Any:
    """Return Iceberg's Java package; PipelineError if the library is not on the class path."""
    package = jvm_of(session).org.apache.iceberg
    if not isinstance(package.hadoop.HadoopTables, type(package)):
        return package
    raise PipelineError(
        f"`format: iceberg` wants Iceberg's library in Spark: `spark.jars.packages: {LIBRARY}:<its newest version>` "
        "in the configuration, or its jars in `spark.jars`."
    )


def _committed(change: Any) -> bool:
    """Commit; return False if a concurrent commit invalidated the change."""
    try:
        change.commit()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "ValidationException":
            return False
        raise
    return True
