"""Rows of a materialized view as records of a compacted topic: those that have changed since it was computed last.

What was published is kept beside the tables, by number. A run that dies after it has written to the topic writes the
same records once more: each stands for its key, so that at least once is as good as once. A key that the view no longer
has gets a tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder

MARK = "published"
SCHEMA = "key STRING, value STRING"


class ViewPublisher:
    """For one view; `options` are those of the sink."""

    def __init__(self, session: SparkSession, view: str, options: Mapping[str, str], storage: str) -> None:
        self._session = session
        self._view = view
        self._options = dict(options)
        self._folder = HadoopFolder(session, f"{storage}/published/{view}")

    def publish(self, rows: DataFrame) -> None:
        number, before = self._published()
        now = self._folder.path_of(str(number + 1))
        _keyed(self._view, rows).write.mode("overwrite").parquet(now)
        after = self._session.read.schema(SCHEMA).parquet(now)
        changed = after.alias("new").join(before.alias("old"), "key", "full_outer")
        changed = changed.where(~F.col("new.value").eqNullSafe(F.col("old.value")))
        changed.select("key", "new.value").write.format("barnabas").options(**self._options).mode(
            "append"
        ).save()
        self._folder.below(str(number + 1)).write_text(MARK, "")
        for name in self._folder.names():
            if name != str(number + 1):
                self._folder.delete(name)

    def _published(self) -> tuple[int, DataFrame]:
        """The number of what the topic has, and its rows. Files of a run that died before the topic had all do not
        count."""
        done = [int(name) for name in self._folder.names() if self._folder.exists(f"{name}/{MARK}")]
        if not done:
            return 0, self._session.createDataFrame([], SCHEMA)
        return max(done), self._session.read.schema(SCHEMA).parquet(
            self._folder.path_of(f"{max(done)}/part-*")
        )


def _keyed(view: str, rows: DataFrame) -> DataFrame:
    if "key" not in rows.columns or len(rows.columns) < 2:
        raise PipelineError(f"`publish` wants a column `key` in {view}, a string, and others beside it.")
    rest = [F.col(f"`{name}`") for name in rows.columns if name != "key"]
    return rows.select(F.col("key").cast("string"), F.to_json(F.struct(*rest)).alias("value"))
