"""Fewer and larger files for the hours that no longer grow.

The merged files are written to a hidden folder, what is to be exchanged is noted, and then the old files go and the new
ones come. Without a table format no exchange of files is one step for readers: one that lists the folder in these
milliseconds misses the hour, but never sees a record twice. After a crash the noted exchange is finished before
anything else is written.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipelines.definitions.settings import Compaction
from barnabas.pipelines.hadoop_files import HadoopFolder
from barnabas.pipelines.lake.layout import HIDDEN, Merge, plan_merges

logger = logging.getLogger(__name__)

NOTES = f"{HIDDEN}/merges"


class Compactor:
    """For one table. Runs in the thread of its writer, so that nobody adds files to a partition meanwhile."""

    def __init__(self, session: SparkSession, folder: HadoopFolder, rule: Compaction) -> None:
        self._session = session
        self._folder = folder
        self._notes = folder.below(NOTES)
        self._rule = rule

    def run(self) -> int:
        """Merge what is worth it; how many partitions that were."""
        merges = plan_merges(self._folder.all_files(), self._rule)
        for merge in merges:
            self._merge(merge)
        return len(merges)

    def finish_interrupted(self) -> None:
        for name in self._notes.names():
            text = self._notes.read_text(name)
            if name.endswith(".json") and text is not None:
                self._exchange(name, json.loads(text))

    def _merge(self, merge: Merge) -> None:
        number = uuid.uuid4().hex
        aside = f"{HIDDEN}/aside/merge-{number}"
        sources = [self._folder.path_of(name) for name in merge.files]
        merged = self._session.read.parquet(*sources).coalesce(merge.pieces)
        merged.write.mode("overwrite").parquet(self._folder.path_of(aside))
        written = [found.name for found in self._folder.below(aside).all_files()]
        note = {
            "aside": aside,
            "remove": list(merge.files),
            "add": {
                f"{aside}/{name}": f"{merge.partition}/merged-{number}-{index:04d}{name[name.index('.') :]}"
                for index, name in enumerate(written)
            },
        }
        self._notes.write_text(f"{number}.json", json.dumps(note))
        self._exchange(f"{number}.json", note)
        logger.info("merged %d files of %s into %d", len(merge.files), merge.partition, len(written))

    def _exchange(self, name: str, note: dict[str, Any]) -> None:
        """Each step does no harm when it is repeated."""
        for old in note["remove"]:
            self._folder.delete(old)
        for source, target in note["add"].items():
            if self._folder.exists(source):
                self._folder.move(source, target)
        self._folder.delete(note["aside"])
        self._notes.delete(name)
