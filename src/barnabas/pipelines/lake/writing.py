"""Micro-batches into folders of Parquet files, each record once, whatever is killed when.

A batch is written to a hidden folder first, where a repeated attempt starts over. Then the list of its files and of
their final names is noted under the number of the batch: this is the decision. Then each file is renamed into its
partition. A batch that Spark runs again and that has been decided is not written again: what was left of its renames is
done, and nothing else. Readers see whole files only, and no record twice; within a batch files appear one by one.

Spark's own file sink keeps a list of valid files beside the data instead, which only Spark reads: others see the
leftovers of killed tasks, and nobody may merge small files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.batch_log import BatchLog, compute_only
from barnabas.pipelines.definitions.settings import Lake
from barnabas.pipelines.hadoop_files import HadoopFolder
from barnabas.pipelines.lake.compaction import Compactor
from barnabas.pipelines.lake.iceberg_writing import IcebergWriter
from barnabas.pipelines.lake.layout import HIDDEN, final_name

COMPACT_EVERY = 20  # batches: looking for small files lists the whole table


class LakeWriter:
    """What `foreachBatch` calls for one table. `query` names the stream: a new checkpoint counts its batches anew."""

    def __init__(self, session: SparkSession, lake: Lake, partitions: Sequence[str], query: str) -> None:
        self._lake = lake
        self._partitions = list(partitions)
        self._query = query
        self._folder = HadoopFolder(session, lake.path)
        self._log = BatchLog(self._folder.below(f"{HIDDEN}/batches/{query}"))
        self._compactor = None
        if lake.compaction is not None:
            self._compactor = Compactor(session, self._folder, lake.compaction)
            self._compactor.finish_interrupted()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        decided = self._log.read(batch)
        if decided is None:
            decided = self._write_aside(frame, batch)
            self._log.write(batch, decided)
        else:
            compute_only(frame)
        self._finish(decided, batch)
        if self._compactor is not None and batch % COMPACT_EVERY == COMPACT_EVERY - 1:
            self._compactor.run()

    def _write_aside(self, frame: DataFrame, batch: int) -> dict[str, str]:
        aside = self._aside(batch)
        if self._lake.files_per_batch is not None:
            frame = frame.coalesce(self._lake.files_per_batch)
        frame.write.mode("overwrite").partitionBy(*self._partitions).parquet(self._folder.path_of(aside))
        written = [found.name for found in self._folder.below(aside).all_files()]
        return {name: final_name(name, self._query, batch, index) for index, name in enumerate(written)}

    def _finish(self, moves: dict[str, str], batch: int) -> None:
        aside = self._aside(batch)
        for name, target in moves.items():
            if self._folder.exists(f"{aside}/{name}"):
                self._folder.move(f"{aside}/{name}", target)
        self._folder.delete(aside)

    def _aside(self, batch: int) -> str:
        return f"{HIDDEN}/aside/{self._query}-{batch}"


def query_id(session: SparkSession, checkpoint: str) -> str:
    """The id that Spark has given the stream of a checkpoint; it is there before the first batch."""
    text = HadoopFolder(session, checkpoint).read_text("metadata")
    assert text is not None, f"{checkpoint} has no metadata"
    return str(json.loads(text)["id"])


def lake_writer(
    session: SparkSession, lake: Lake, partitions: Sequence[str], checkpoint: str
) -> Callable[[DataFrame, int], None]:
    """A writer that is made with the first batch, when Spark has named the stream."""
    kind: type[IcebergWriter | LakeWriter] = IcebergWriter if lake.format == "iceberg" else LakeWriter
    made: list[IcebergWriter | LakeWriter] = []

    def write(frame: DataFrame, batch: int) -> None:
        if not made:
            made.append(kind(session, lake, partitions, query_id(session, checkpoint)))
        made[0](frame, batch)

    return write
