"""Fewer and larger files in an Iceberg table, for hours that no longer grow; old snapshots go.

Spark merges the files of an hour into new ones, and one commit exchanges them: readers see the hour before or after.
A merge is noted before its files are written, with the files that it replaces, so that those of a merge that was killed
can be removed. That must wait until one of the replaced files has left the table: who believes that the merge is still
his, however long he was asleep, cannot commit it from then on.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from barnabas.common.durations import seconds_of
from barnabas.pipelines.definitions.settings import Compaction
from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.pipelines.lake.iceberg_table import IcebergTable, TableFile
from barnabas.pipelines.lake.layout import plan_merges

logger = logging.getLogger(__name__)

SNAPSHOTS_KEPT = 100  # at least, however old: the last batch of a stream is looked for in them
NOTES = "_merges"


class IcebergCompactor:
    """For one table; `data` is its folder of files. Runs in the thread of its writer."""

    def __init__(
        self, session: SparkSession, table: IcebergTable, data: HadoopFolder, rule: Compaction
    ) -> None:
        self._session = session
        self._table = table
        self._data = data
        self._notes = data.below(NOTES)
        self._rule = rule

    def run(self) -> int:
        """Merge what is worth it; how many hours that were."""
        merged = 0
        files = {f"{_folder(file.hour)}/{index}": file for index, file in enumerate(self._table.files())}
        for merge in plan_merges(((name, file.size) for name, file in files.items()), self._rule):
            merged += self._merge([files[name] for name in merge.files], merge.pieces)
        self.remove_abandoned_files()
        self._table.expire(time.time() - seconds_of(self._rule.keep), SNAPSHOTS_KEPT)
        return merged

    def remove_abandoned_files(self) -> None:
        """Files of merges that were killed before their commit, once nobody can commit them any more."""
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
        done = bool(new) and self._table.replace(old, new, name)  # nothing: it was cleared away
        if done:
            logger.info("merged %d files of one hour into %d", len(old), len(new))
        else:
            self._data.delete(name)
        self._notes.delete(name)
        return done


def _folder(hour: int | None) -> str:
    """The hour as `plan_merges` knows hours; one beyond those that Python counts is left as it is."""
    if hour is None:
        return "none"
    try:
        return datetime.fromtimestamp(hour * 3600, UTC).strftime("date=%Y-%m-%d/hour=%H")
    except (ValueError, OverflowError, OSError):
        return "none"
