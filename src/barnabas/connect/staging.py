"""Stages rows of sources that Spark cannot stream, as Parquet files in the connector's storage.

Each fetch reads the rows from the last end to a new one. It stores the new end before it writes the rows; one file
commits them (`lake/writer`), and the next fetch begins at the last committed end. Each row is therefore staged once,
whenever the process is killed, and Spark reads each file once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from barnabas.pipelines.definitions import Lake
from barnabas.pipelines.lake import HIDDEN, LakeWriter
from barnabas.spark import BatchLog, HadoopFolder

WRITER = "incoming"


class StagedRows:
    """Staged rows of one source. `passed` is called after each step: tests stop there."""

    passed: Callable[[str], None] = staticmethod(lambda step: None)

    def __init__(self, session: SparkSession, storage: str) -> None:
        folder = f"{storage}/barnabas/incoming"
        self._session = session
        self.data = f"{folder}/rows"
        self._ends = BatchLog(HadoopFolder(session, folder).below("ends"))
        self._decided = BatchLog(HadoopFolder(session, self.data).below(f"{HIDDEN}/batches/{WRITER}"))
        self._writer: LakeWriter | None = None

    def open(self, schema: StructType) -> None:
        """Complete a fetch that was committed but not finished when the last run was killed."""
        if self._writer is None:
            HadoopFolder(self._session, self.data).make()
            self._writer = LakeWriter(self._session, Lake(path=self.data), [], WRITER)
            last = self._decided.latest_number()
            if last >= 0:
                self._writer(self._session.createDataFrame([], schema), last)

    def stream(self, schema: StructType) -> DataFrame:
        """Return a stream of the staged rows; it reads each file once, then deletes it."""
        HadoopFolder(self._session, self.data).make()
        return self._session.readStream.schema(schema).option("cleanSource", "delete").parquet(self.data)

    def last(self) -> tuple[int, Any | None]:
        """Return number and end of the last committed fetch; -1 and None before the first."""
        number = self._decided.latest_number()
        return number, None if number < 0 else self._ends.read(number)

    def stage_rows(self, number: int, end: Any, rows: DataFrame) -> None:
        assert self._writer is not None, "open first"
        self._ends.write(number, end)
        self.passed("noted")
        self._writer(rows, number)
        self.passed("decided")
