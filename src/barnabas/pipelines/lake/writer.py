"""Micro-batches into folders of Parquet files, each record once, whatever is killed when.

A batch is written to a hidden folder of this attempt alone. Then the list of its files and of their final names is
noted under the number of the batch: this is the decision, and it is made once, even if two drivers believe that the
batch is theirs. Then each file is renamed into its partition. A batch that Spark runs again and that has been decided
is not written again: what was left of its renames is done, and nothing else. Readers see whole files only, and no
record twice; within a batch files appear one by one.

A driver that finds its batch decided by another one, or later batches, stops: it was replaced while it was asleep, or
the pipeline was started twice.

Spark's own file sink keeps a list of valid files beside the data instead, which only Spark reads: others see the
files of killed tasks, and nobody may merge small files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.settings import Lake
from barnabas.pipelines.lake.compaction import Compactor
from barnabas.pipelines.lake.iceberg_writing import IcebergWriter
from barnabas.pipelines.lake.layout import HIDDEN, final_name
from barnabas.spark import BatchLog, HadoopFolder, PipelineError, compute_only, require_creation_once

COMPACT_EVERY = 20  # batches: looking for small files lists the whole table
ASIDE = f"{HIDDEN}/aside/batches"
COLUMNS = "columns.json"


class LakeWriter:
    """What `foreachBatch` calls for one table. `query` names the stream: a new checkpoint counts its batches from 0."""

    def __init__(self, session: SparkSession, lake: Lake, partitions: Sequence[str], query: str) -> None:
        self._lake = lake
        self._partitions = list(partitions)
        self._query = query
        self._folder = HadoopFolder(session, lake.path)
        require_creation_once(self._folder)
        self._attempts = self._folder.below(f"{ASIDE}/{query}")
        self._log = BatchLog(self._folder.below(f"{HIDDEN}/batches/{query}"))
        self._columns: dict[str, str] = {}
        self._compactor = None
        if lake.compaction is not None:
            self._compactor = Compactor(session, self._folder, lake.compaction)
            self._compactor.finish_interrupted()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self._check_columns(frame)
        latest = self._log.latest_number()
        if latest > batch:
            raise self._replaced(batch)
        if latest == batch:
            compute_only(frame)
        else:
            self._decide(frame, batch)
        self._finish(batch)
        if self._compactor is not None and batch % COMPACT_EVERY == COMPACT_EVERY - 1:
            self._compactor.run()

    def _check_columns(self, frame: DataFrame) -> None:
        """Columns may come; one that has changed its type would make files that nobody reads together."""
        notes = self._folder.below(HIDDEN)
        known = self._columns or json.loads(notes.read_text(COLUMNS) or "{}")
        wanted = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        changed = sorted(name for name in wanted if known.get(name, wanted[name]) != wanted[name])
        if changed:
            raise PipelineError(
                f"The table at {self._lake.path} has other types than the flow that fills it ("
                f"{', '.join(f'{name} is {known[name]}, not {wanted[name]}' for name in changed)}): write to another "
                "path, and give the pipeline another storage to fill it from the beginning."
            )
        if not known.items() >= wanted.items():
            notes.write_text(COLUMNS, json.dumps({**known, **wanted}))
        self._columns = {**known, **wanted}

    def _decide(self, frame: DataFrame, batch: int) -> None:
        attempt = f"{batch}-{uuid.uuid4().hex}"
        try:
            moves = self._write_aside(frame, batch, attempt)
        except Exception as error:  # whatever Spark makes of it when another driver clears its folder away
            if self._log.latest_number() >= batch:
                raise self._replaced(batch) from error
            raise
        if not self._log.decide(batch, {"attempt": attempt, "moves": moves}):
            self._attempts.delete(attempt)
            raise self._replaced(batch)

    def _write_aside(self, frame: DataFrame, batch: int, attempt: str) -> dict[str, str]:
        if self._lake.files_per_batch is not None:
            frame = frame.coalesce(self._lake.files_per_batch)
        frame.write.partitionBy(*self._partitions).parquet(self._attempts.path_of(attempt))
        written = [found.name for found in self._attempts.below(attempt).written_files()]
        return {name: final_name(name, self._query, batch, index) for index, name in enumerate(written)}

    def _finish(self, batch: int) -> None:
        decided: dict[str, Any] = self._log.read(batch) or {"attempt": "", "moves": {}}
        for name, target in decided["moves"].items():
            self._folder.move(f"{ASIDE}/{self._query}/{decided['attempt']}/{name}", target)
        for attempt in self._attempts.names():
            if int(attempt.split("-")[0]) <= batch:  # those of others are nobody's now
                self._attempts.delete(attempt)

    def _replaced(self, batch: int) -> PipelineError:
        return PipelineError(
            f"Another run of this pipeline has written batch {batch} to {self._lake.path}, and this one stops: nothing "
            "is lost, and nothing is there twice. Run a pipeline once at a time; if there is no other run, the "
            "checkpoint is an old copy: give it another storage and another path."
        )


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
