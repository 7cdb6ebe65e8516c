"""Writes micro-batches to an Iceberg table exactly once.

Spark writes the files of a batch to a folder of the attempt, invisible to readers. One commit adds them to the table
under the batch number. An attempt killed before the commit leaves unreferenced files, which the next attempt deletes
after its own commit; an attempt killed after the commit is found in the table and not repeated.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from barnabas.common.durations import seconds_of
from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake.iceberg_table import (
    IcebergTable,
    TableFile,
    evolution_of,
    iceberg_of,
    iceberg_schema,
)
from barnabas.pipelines.lake.layout import plan_merges
from barnabas.spark import FoundFile, HadoopFolder, compute_only

# -- Compaction of hours that no longer grow, and expiry of snapshots ----------------------------------

logger = logging.getLogger(__name__)

SNAPSHOTS_KEPT = 100  # minimum, regardless of age: their summaries contain the last batch of a stream
NOTES = "_merges"


class IcebergCompactor:
    """Compactor of one table; `data` is the folder of its files. Runs in the writer's thread."""

    def __init__(
        self, session: SparkSession, table: IcebergTable, data: HadoopFolder, rule: Compaction
    ) -> None:
        self._session = session
        self._table = table
        self._data = data
        self._notes = data.below(NOTES)
        self._rule = rule

    def run(self) -> int:
        """Merge small files; return the number of merged hours."""
        merged = 0
        files = {f"{_folder(file.hour)}/{index}": file for index, file in enumerate(self._table.files())}
        for merge in plan_merges(((name, file.size) for name, file in files.items()), self._rule):
            merged += self._merge([files[name] for name in merge.files], merge.pieces)
        self.remove_abandoned_files()
        self._table.expire(time.time() - seconds_of(self._rule.keep), SNAPSHOTS_KEPT)
        return merged

    def remove_abandoned_files(self) -> None:
        """Delete files of merges killed before their commit, once they can no longer be committed."""
        notes = {name: json.loads(self._notes.read_text(name) or "[]") for name in self._notes.names()}
        there = {file.path for file in self._table.files()} if notes else set()
        for name, replaced in notes.items():
            if self._table.has_merge(name) or any(f"/{name}/" in path for path in there):
                self._notes.delete(name)
            elif not there.issuperset(replaced):
                self._data.delete(name)
                self._notes.delete(name)

    def _merge(self, old: list[TableFile], pieces: int) -> bool:
        name = f"merge-{uuid.uuid4().hex}"
        self._notes.write_text(name, json.dumps([file.path for file in old]))
        folder = f"{name}/{self._table.partition}={old[0].hour}"
        frame = self._session.read.parquet(*(file.path for file in old))
        frame.coalesce(pieces).write.parquet(self._data.path_of(folder))
        new = self._data.below(name).written_files_by_url()
        done = bool(new) and self._table.replace(old, new, name)  # empty if another driver deleted the files
        if done:
            logger.info("merged %d files of one hour into %d", len(old), len(new))
        else:
            self._data.delete(name)
        self._notes.delete(name)
        return done


def _folder(hour: int | None) -> str:
    """Folder name of the hour for `plan_merges`; hours outside Python's datetime range are not merged."""
    if hour is None:
        return "none"
    try:
        return datetime.fromtimestamp(hour * 3600, UTC).strftime("date=%Y-%m-%d/hour=%H")
    except (ValueError, OverflowError, OSError):
        return "none"


def check_iceberg(session: SparkSession, lake: Lake, schema: StructType) -> None:
    """Raise PipelineError if the rows do not fit the existing table. Writes nothing."""
    iceberg = iceberg_of(session)
    tables = iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration())
    if tables.exists(lake.path):
        evolution_of(
            iceberg, tables.load(lake.path), lake.path, iceberg_schema(schema), lake.schema_evolution
        )


COMPACT_EVERY = 20  # batches: finding small files reads the list of all files


class IcebergWriter:
    """The `foreachBatch` function of one table. `without` are columns that only name folders of plain Parquet."""

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
        # Iceberg stores microseconds; Spark's default, 12-byte INT96, has no statistics.
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = frame.withColumn(table.partition, hour).write.partitionBy(table.partition)
        writer.parquet(self._data.path_of(folder))
        return self._data.below(folder).written_files_by_url()

    def _open(self, frame: DataFrame) -> IcebergTable:
        table = IcebergTable(
            self._session,
            self._lake.path,
            frame.schema,
            str(self._lake.hours),
            self._lake.properties,
            self._lake.schema_evolution,
        )
        if self._lake.compaction is not None:
            self._compactor = IcebergCompactor(self._session, table, self._data, self._lake.compaction)
            self._compactor.remove_abandoned_files()
        self._table = table
        return table

    def _remove_abandoned_files(self, batch: int, kept: str) -> None:
        """Delete the files of other attempts at the batch; the table refers to the folder `kept`."""
        for name in self._data.names():
            if name.startswith(self._name(batch)) and name != kept:
                self._data.delete(name)

    def _name(self, batch: int) -> str:
        return f"batch-{self._query[:8]}-{batch:08d}-"
