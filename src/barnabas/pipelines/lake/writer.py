"""Folders of Parquet files: `LakeWriter` writes micro-batches exactly once, `Compactor` merges small files.

A batch is written to a hidden folder of the attempt. The list of its files and their final names is then stored under
the batch number: this commits the batch, and succeeds once even if two drivers process it. Then each file is renamed
into its partition. If Spark repeats a committed batch, the data is not written again; only the remaining renames are
completed. Readers see complete files only and no record twice; the files of a batch appear one by one.

A driver that finds its batch committed by another driver, or a later batch, stops: it was replaced while suspended, or
the pipeline was started twice.

Spark's file sink instead keeps a list of valid files next to the data, which only Spark reads: other readers see the
files of killed tasks, and small files cannot be merged.
"""

from __future__ import annotations

import json
import logging
import posixpath
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake.iceberg_writing import IcebergWriter, check_iceberg
from barnabas.pipelines.lake.layout import HIDDEN, FileMerge, final_name, is_of_batch, plan_merges
from barnabas.spark import (
    BatchLog,
    FoundFile,
    HadoopFolder,
    PipelineError,
    compute_only,
    require_creation_once,
)

# -- Compaction ----------------------------------------------------------------------------------------
# Merged files are written to a hidden folder of the attempt. The list of files to exchange is then stored under the
# next number of the partition: this commits the merge, and succeeds once even if two drivers merge the same partition.
# Only then are the old files deleted and the new ones moved in. Without a table format this exchange is not atomic: a
# reader that lists the folder within these milliseconds misses the partition, but never sees a record twice.
#
# Each run completes the last committed merge of a partition before it lists the files, whether the driver that
# committed it is dead, suspended or running: the steps of an exchange are idempotent and safe to run concurrently.
# Merges are therefore applied in order, and a removed file is never merged again. Files leave a partition only through
# a committed merge, so a driver that saw all of its files after the last merge and obtains the next number knows that
# they still existed. A driver that does not obtain the number discards its merge.

logger = logging.getLogger(__name__)

MERGE_LOG = f"{HIDDEN}/merges"
MERGE_ATTEMPTS = f"{HIDDEN}/aside/merges"


class Compactor:
    """Merges the small files of partitions that no longer grow.

    Runs in the writer's thread, so that no files are added to a partition meanwhile.
    """

    def __init__(self, session: SparkSession, folder: HadoopFolder, rule: Compaction) -> None:
        self._session = session
        self._folder = folder
        self._rule = rule

    def run(self) -> int:
        """Merge small files; return the number of merged partitions."""
        self.finish_interrupted()
        merges = plan_merges(self._swept(self._folder.all_files()), self._rule)
        return sum([self._merge(merge) for merge in merges])

    def finish_interrupted(self) -> None:
        """Complete merges that were committed but not finished."""
        left = {posixpath.dirname(found.name) for found in self._folder.below(MERGE_ATTEMPTS).all_files()}
        for folder in sorted(left):
            latest = self._decisions(posixpath.dirname(folder)).latest()
            if latest is not None and latest[1]["aside"] == f"{MERGE_ATTEMPTS}/{folder}":
                self._exchange(*latest)

    def _swept(self, found: list[FoundFile]) -> list[FoundFile]:
        """Delete files that a merge had removed, and return the others. On stores where a rename is a copy, a driver
        suspended during a rename restores its file when it resumes."""
        merged = {posixpath.dirname(note.name) for note in self._folder.below(MERGE_LOG).all_files()}
        back: set[str] = set()
        for partition in merged & {posixpath.dirname(file.name) for file in found if is_of_batch(file.name)}:
            removed = {name for note in self._decisions(partition).all() for name in note["remove"]}
            back |= removed & {file.name for file in found}
        for name in sorted(back):
            logger.warning("%s was merged before and has come back: removed", name)
            self._folder.delete(name)
        return [file for file in found if file.name not in back]

    def _merge(self, merge: FileMerge) -> bool:
        decisions = self._decisions(merge.partition)
        latest = decisions.latest()
        if latest is not None:  # possibly committed after this merge was planned
            self._exchange(*latest)
        number = 0 if latest is None else latest[0] + 1
        there = {
            f"{merge.partition}/{found.name}" for found in self._folder.below(merge.partition).all_files()
        }
        if not there.issuperset(merge.files):
            return False  # another driver merged them
        aside = f"{MERGE_ATTEMPTS}/{merge.partition}/{number}-{uuid.uuid4().hex}"
        try:
            note = self._write_aside(merge, aside, number)
        except Exception:  # any error of Spark if another driver deleted the files
            if decisions.latest_number() < number:
                raise
            self._folder.delete(aside)
            return False
        if not decisions.decide(number, note):
            self._folder.delete(aside)
            return False
        self._exchange(number, note)
        logger.info("merged %d files of %s into %d", len(merge.files), merge.partition, len(note["add"]))
        return True

    def _write_aside(self, merge: FileMerge, aside: str, number: int) -> dict[str, Any]:
        sources = [self._folder.path_of(name) for name in merge.files]
        # Merge the schemas: later files may have additional columns.
        merged = self._session.read.option("mergeSchema", "true").parquet(*sources).coalesce(merge.pieces)
        merged.write.parquet(self._folder.path_of(aside))
        written = [found.name for found in self._folder.below(aside).written_files()]
        if not written:
            raise OSError(f"{self._folder.path_of(aside)} is empty: its files were removed")
        unique = posixpath.basename(aside)
        add = {
            f"{aside}/{name}": f"{merge.partition}/merged-{unique}-{index:04d}{name[name.index('.') :]}"
            for index, name in enumerate(written)
        }
        return {"aside": aside, "remove": list(merge.files), "add": add}

    def _exchange(self, number: int, note: dict[str, Any]) -> None:
        """Replace the old files. Each step is idempotent and safe to run concurrently: names are never reused."""
        for old in note["remove"]:
            self._folder.delete(old)
        for source, target in note["add"].items():
            self._folder.move(source, target)
        attempts = self._folder.below(posixpath.dirname(note["aside"]))
        for attempt in attempts.names():
            if int(attempt.split("-")[0]) <= number:  # can no longer be committed
                attempts.delete(attempt)

    def _decisions(self, partition: str) -> BatchLog:
        return BatchLog(self._folder.below(f"{MERGE_LOG}/{partition}"))


COMPACT_EVERY = 20  # batches: finding small files lists the whole table
BATCH_ATTEMPTS = f"{HIDDEN}/aside/batches"
COLUMNS = "columns.json"


# -- Writer --------------------------------------------------------------------------------------------


class LakeWriter:
    """The `foreachBatch` function of one table. `query` identifies the stream: each checkpoint counts from batch 0."""

    def __init__(self, session: SparkSession, lake: Lake, partitions: Sequence[str], query: str) -> None:
        self._lake = lake
        self._partitions = list(partitions)
        self._query = query
        self._folder = HadoopFolder(session, lake.path)
        require_creation_once(self._folder)
        self._attempts = self._folder.below(f"{BATCH_ATTEMPTS}/{query}")
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
        notes = self._folder.below(HIDDEN)
        known = self._columns or known_columns(self._folder)
        self._columns = evolved(self._lake, known, frame.schema)
        if self._columns != known:
            notes.write_text(COLUMNS, json.dumps(self._columns))

    def _decide(self, frame: DataFrame, batch: int) -> None:
        attempt = f"{batch}-{uuid.uuid4().hex}"
        try:
            moves = self._write_aside(frame, batch, attempt)
        except Exception as error:  # any error of Spark if another driver deletes the folder
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
            self._folder.move(f"{BATCH_ATTEMPTS}/{self._query}/{decided['attempt']}/{name}", target)
        for attempt in self._attempts.names():
            if int(attempt.split("-")[0]) <= batch:  # can no longer be committed
                self._attempts.delete(attempt)

    def _replaced(self, batch: int) -> PipelineError:
        return PipelineError(
            f"Another run of this pipeline has written batch {batch} to {self._lake.path}, and this one stops: no "
            "records are lost or duplicated. Start a pipeline only once at a time. Without another run, the checkpoint "
            "is an old copy: use another storage and another path."
        )


def known_columns(folder: HadoopFolder) -> dict[str, str]:
    """Return the types of a table's columns; empty before its first batch."""
    found: dict[str, str] = json.loads(folder.below(HIDDEN).read_text(COLUMNS) or "{}")
    return found


def evolved(lake: Lake, known: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the columns of the table with those of the rows; PipelineError if it cannot hold both: files with two
    types of a column cannot be read together."""
    wanted = {field.name: field.dataType.simpleString() for field in schema.fields}
    changed = sorted(name for name in wanted if known.get(name, wanted[name]) != wanted[name])
    if changed:
        raise PipelineError(
            f"The table at {lake.path} has other types than the flow that fills it ("
            f"{', '.join(f'{name} is {known[name]}, not {wanted[name]}' for name in changed)}): write to another "
            "path, and give the pipeline another storage to fill it from the beginning."
        )
    new = sorted(wanted.keys() - known.keys())
    if known and new and lake.schema_evolution == "fail":
        raise PipelineError(
            f"The table at {lake.path} lacks columns of the flow that fills it ({', '.join(new)}), and its "
            "`schema_evolution` is `fail`: use `add`, or leave the columns out."
        )
    return {**known, **wanted}


def check_schema(session: SparkSession, lake: Lake, schema: StructType) -> None:
    """Raise PipelineError if the rows do not fit the existing table. Writes nothing."""
    if lake.format == "iceberg":
        check_iceberg(session, lake, schema)
    else:
        evolved(lake, known_columns(HadoopFolder(session, lake.path)), schema)


def query_id(session: SparkSession, checkpoint: str) -> str:
    """Return the id of the stream in a checkpoint; Spark writes it before the first batch."""
    text = HadoopFolder(session, checkpoint).read_text("metadata")
    assert text is not None, f"{checkpoint} has no metadata"
    return str(json.loads(text)["id"])


def lake_writer(
    session: SparkSession, lake: Lake, partitions: Sequence[str], checkpoint: str
) -> Callable[[DataFrame, int], None]:
    """Return a writer created with the first batch, once Spark has assigned the stream id."""
    kind: type[IcebergWriter | LakeWriter] = IcebergWriter if lake.format == "iceberg" else LakeWriter
    made: list[IcebergWriter | LakeWriter] = []

    def write(frame: DataFrame, batch: int) -> None:
        if not made:
            made.append(kind(session, lake, partitions, query_id(session, checkpoint)))
        made[0](frame, batch)

    return write
