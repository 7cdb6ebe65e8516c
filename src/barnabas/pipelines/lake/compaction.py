"""Fewer and larger files for the hours that no longer grow.

The merged files are written to a hidden folder of this attempt alone. What is to be exchanged is noted under the next
number of the hour: this is the decision, and it is made once, even if two drivers merge the same hour. Only then the
old files go and the new ones come. Without a table format no exchange of files is one step for readers: one that lists
the folder in these milliseconds misses the hour, but never sees a record twice.

The next run carries out the last decision of an hour before it looks at its files, whether the one who made it is
dead, asleep or at work: each step of an exchange does no harm when it is repeated, or done by two at once. So decisions
are carried out in their order, and nothing that one of them removes is merged again. And because files of an hour go by
a decision only, who has found them all after the last one, and gets the next number, knows that they were there until
then. Who does not get it has merged in vain, and says nothing.
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

NOTES = f"{HIDDEN}/merges"
ASIDE = f"{HIDDEN}/aside/merges"


class Compactor:
    """For one table. Runs in the thread of its writer, so that nobody adds files to a partition meanwhile."""

    def __init__(self, session: SparkSession, folder: HadoopFolder, rule: Compaction) -> None:
        self._session = session
        self._folder = folder
        self._rule = rule

    def run(self) -> int:
        """Merge what is worth it; how many partitions that were."""
        self.finish_interrupted()
        merges = plan_merges(self._swept(self._folder.all_files()), self._rule)
        return sum([self._merge(merge) for merge in merges])

    def finish_interrupted(self) -> None:
        """Exchanges that were decided and not finished."""
        left = {posixpath.dirname(found.name) for found in self._folder.below(ASIDE).all_files()}
        for folder in sorted(left):
            latest = self._decisions(posixpath.dirname(folder)).latest()
            if latest is not None and latest[1]["aside"] == f"{ASIDE}/{folder}":
                self._exchange(*latest)

    def _swept(self, found: list[FoundFile]) -> list[FoundFile]:
        """Without files that a merge has removed. Where a rename is a copy, a driver that fell asleep in one brings a
        file back when it wakes up."""
        merged = {posixpath.dirname(note.name) for note in self._folder.below(NOTES).all_files()}
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
        if latest is not None:  # perhaps it was made after the merge was planned
            self._exchange(*latest)
        number = 0 if latest is None else latest[0] + 1
        there = {
            f"{merge.partition}/{found.name}" for found in self._folder.below(merge.partition).all_files()
        }
        if not there.issuperset(merge.files):
            return False  # another driver was faster
        aside = f"{ASIDE}/{merge.partition}/{number}-{uuid.uuid4().hex}"
        try:
            note = self._write_aside(merge, aside, number)
        except Exception:  # whatever Spark makes of files that are not there any more
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
        # A table may have got columns since its first files: those of one file alone would not be all.
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
        """Each step does no harm when it is repeated, or done by two at once: no name comes again."""
        for old in note["remove"]:
            self._folder.delete(old)
        for source, target in note["add"].items():
            self._folder.move(source, target)
        attempts = self._folder.below(posixpath.dirname(note["aside"]))
        for attempt in attempts.names():
            if int(attempt.split("-")[0]) <= number:  # what was not decided by now never will be
                attempts.delete(attempt)

    def _decisions(self, partition: str) -> BatchLog:
        return BatchLog(self._folder.below(f"{NOTES}/{partition}"))
