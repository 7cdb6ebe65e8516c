"""Merges small files of partitions that no longer grow.

Merged files are written to a hidden folder of the attempt. The list of files to exchange is then stored under the next
number of the partition: this commits the merge, and succeeds once even if two drivers merge the same partition. Only
then are the old files deleted and the new ones moved in. Without a table format this exchange is not atomic: a reader
that lists the folder within these milliseconds misses the partition, but never sees a record twice.

Each run completes the last committed merge of a partition before it lists the files, whether the driver that committed
it is dead, suspended or running: the steps of an exchange are idempotent and safe to run concurrently. Merges are
therefore applied in order, and a removed file is never merged again. Files leave a partition only through a committed
merge, so a driver that saw all of its files after the last merge and obtains the next number knows that they still
existed. A driver that does not obtain the number discards its merge.
"""

from __future__ import annotations

import logging
import posixpath
import uuid
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipelines.definitions.settings import Compaction
from barnabas.pipelines.lake.layout import HIDDEN, FileMerge, is_of_batch, plan_merges
from barnabas.spark import BatchLog, FoundFile, HadoopFolder

logger = logging.getLogger(__name__)

MERGE_LOG = f"{HIDDEN}/merges"
MERGE_ATTEMPTS = f"{HIDDEN}/aside/merges"


class Compactor:
    """Compactor of one table. Runs in the writer's thread, so that no files are added to a partition meanwhile."""

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
