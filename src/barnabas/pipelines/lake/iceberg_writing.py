"""Micro-batches into an Iceberg table, each record once.

Spark writes the files of a batch into a folder of this attempt alone; nobody sees them. One commit makes them part of
the table, under the number of the batch. An attempt that was killed before leaves files that no table has, and the next
attempt removes them after its own commit; one that was killed after it is found in the table, and not repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.spark.batch_log import compute_only
from barnabas.pipelines.definitions.settings import Lake
from barnabas.spark.hadoop_files import FoundFile, HadoopFolder
from barnabas.pipelines.lake.iceberg_compaction import IcebergCompactor
from barnabas.pipelines.lake.iceberg_table import IcebergTable

COMPACT_EVERY = 20  # batches: looking for small files reads the list of all


class IcebergWriter:
    """What `foreachBatch` calls for one table. `without` are columns that only name folders of plain Parquet."""

    def __init__(self, session: SparkSession, lake: Lake, without: Sequence[str], query: str) -> None:
        self._session = session
        self._lake = lake
        self._without = list(without)
        self._query = query
        self._data = HadoopFolder(session, lake.path).below("data")
        self._table: IcebergTable | None = None
        self._compactor: IcebergCompactor | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        frame = frame.drop(*self._without)
        table = self._table or self._open(frame)
        if table.latest_batch(self._query) >= batch:
            compute_only(frame)
            return
        folder = f"{self._name(batch)}{uuid.uuid4().hex[:8]}"
        files = self.write_files(frame, table, folder)
        if files and table.append(files, self._query, batch):
            self._remove_abandoned_files(batch, folder)
        else:
            self._data.delete(folder)
        if self._compactor is not None and batch % COMPACT_EVERY == COMPACT_EVERY - 1:
            self._compactor.run()

    def write_files(self, frame: DataFrame, table: IcebergTable, folder: str) -> list[FoundFile]:
        if self._lake.files_per_batch is not None:
            frame = frame.coalesce(self._lake.files_per_batch)
        hour = F.floor(F.unix_seconds(str(self._lake.hours)) / 3600).cast("int")
        # Iceberg keeps microseconds; Spark's own default of twelve bytes has no statistics.
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = frame.withColumn(table.partition, hour).write.partitionBy(table.partition)
        writer.parquet(self._data.path_of(folder))
        return self._data.below(folder).written_files_by_url()

    def _open(self, frame: DataFrame) -> IcebergTable:
        table = IcebergTable(self._session, self._lake.path, frame.schema, str(self._lake.hours))
        if self._lake.compaction is not None:
            self._compactor = IcebergCompactor(self._session, table, self._data, self._lake.compaction)
            self._compactor.remove_abandoned_files()
        self._table = table
        return table

    def _remove_abandoned_files(self, batch: int, kept: str) -> None:
        """The batch is in the table with the files of one folder: those of other attempts are nobody's."""
        for name in self._data.names():
            if name.startswith(self._name(batch)) and name != kept:
                self._data.delete(name)

    def _name(self, batch: int) -> str:
        return f"batch-{self._query[:8]}-{batch:08d}-"
