"""Append-only tables of files, exactly once. Deleted rows are skipped.

`to: {parquet: {path: "hdfs://name/lake/orders", partitions: [day]}}`
`to: {iceberg: {path: "s3a://lake/orders", hours: time}}`
`to: {delta: {path: "s3a://lake/orders"}}`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.endpoints import DELETED, ConnectorContext, ConnectorEndpoint, fields_of, url_of
from barnabas.pipelines.definitions import Compaction, Lake, SchemaEvolution
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Append = Callable[["DataFrame", str, int], None]


class ParquetSink(ConnectorEndpoint, frozen=True):
    """Plain Parquet files in folders by `partitions`, with the writer of a pipeline's lake."""

    is_routed: ClassVar[bool] = False

    path: str
    partitions: tuple[str, ...] = ()
    files_per_batch: int | None = None
    compaction: Compaction | None = None
    schema_evolution: SchemaEvolution = "add"

    def location(self) -> str:
        return f"parquet {self.path}"

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> TableWriter:
        _require(self.partitions, columns)
        lake = Lake(
            path=url_of(self.path, context.folder),
            compaction=self.compaction,
            files_per_batch=self.files_per_batch,
            schema_evolution=self.schema_evolution,
        )
        return TableWriter(_LakeAppend(session, lake, self.partitions))


class IcebergSink(ConnectorEndpoint, frozen=True):
    """An Iceberg table partitioned by the hour of `hours`, a timestamp field, with the writer of a pipeline's lake."""

    is_routed: ClassVar[bool] = False

    path: str
    hours: str
    files_per_batch: int | None = None
    compaction: Compaction | None = None
    schema_evolution: SchemaEvolution = "add"

    def location(self) -> str:
        return f"iceberg {self.path}"

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> TableWriter:
        from barnabas.pipelines.lake import iceberg_of

        iceberg_of(session)
        if columns.get(self.hours) != "timestamp":
            raise PipelineError(
                f"`hours` of an Iceberg table, {self.hours}, must be a field of type timestamp."
            )
        lake = Lake(
            path=url_of(self.path, context.folder),
            format="iceberg",
            hours=self.hours,
            compaction=self.compaction,
            files_per_batch=self.files_per_batch,
            schema_evolution=self.schema_evolution,
        )
        return TableWriter(_LakeAppend(session, lake, ()))


class DeltaSink(ConnectorEndpoint, frozen=True):
    """A Delta table, which records the last batch of each query."""

    is_routed: ClassVar[bool] = False

    path: str
    schema_evolution: SchemaEvolution = "add"

    def location(self) -> str:
        return f"delta {self.path}"

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> TableWriter:
        from pyspark.sql.types import DataType, StructField, StructType

        from barnabas.connect.delta import DeltaTable

        table = DeltaTable(session, url_of(self.path, context.folder), self.schema_evolution)
        table.check(
            StructType([StructField(name, DataType.fromDDL(columns[name])) for name in fields_of(columns)])
        )
        return TableWriter(table.append)


class TableWriter:
    def __init__(self, append: Append) -> None:
        self._append = append

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        from pyspark.sql import functions as F

        if DELETED in rows.columns:
            rows = rows.filter(~F.coalesce(F.col(DELETED), F.lit(False)))
        self._append(rows.select(*(F.col(f"`{name}`") for name in fields_of(rows.columns))), query, batch)

    def close(self) -> None:
        pass


class _LakeAppend:
    """Creates the lake's writer with the first batch: a writer serves one query."""

    def __init__(self, session: SparkSession, lake: Lake, partitions: Sequence[str]) -> None:
        self._session = session
        self._lake = lake
        self._partitions = partitions
        self._writer: Callable[[DataFrame, int], None] | None = None

    def __call__(self, rows: DataFrame, query: str, batch: int) -> None:
        if self._writer is None:
            from barnabas.pipelines.lake import IcebergWriter, LakeWriter

            kind = IcebergWriter if self._lake.format == "iceberg" else LakeWriter
            self._writer = kind(self._session, self._lake, self._partitions, query)
        self._writer(rows, batch)


def _require(partitions: Sequence[str], columns: Mapping[str, str]) -> None:
    for name in partitions:
        if name not in columns:
            raise PipelineError(
                f"`partitions` names {name}, which the rows do not have; they have {', '.join(fields_of(columns))}."
            )
