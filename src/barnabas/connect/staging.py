"""Rows that Spark cannot stream by itself, brought to where it can: Parquet files of the connector's storage.

A look at the source takes rows from the last end to a new one. The new end is noted before the rows are written; that
they are there is decided by one file (`lake/writer`), and the next look begins where the last decided one ended. So
each row is in one file, once, whatever is killed, and Spark reads each file once.
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


class Incoming:
    """`passed` is told each step when it is done: tests stop there."""

    passed: Callable[[str], None] = staticmethod(lambda step: None)

    def __init__(self, session: SparkSession, storage: str) -> None:
        folder = f"{storage}/barnabas/incoming"
        self._session = session
        self.data = f"{folder}/rows"
        self._ends = BatchLog(HadoopFolder(session, folder).below("ends"))
        self._decided = BatchLog(HadoopFolder(session, self.data).below(f"{HIDDEN}/batches/{WRITER}"))
        self._writer: LakeWriter | None = None

    def open(self, schema: StructType) -> None:
        """What was decided and not finished when the last run was killed, is finished."""
        if self._writer is None:
            HadoopFolder(self._session, self.data).make()
            self._writer = LakeWriter(self._session, Lake(path=self.data), [], WRITER)
            last = self._decided.latest_number()
            if last >= 0:
                self._writer(self._session.createDataFrame([], schema), last)

    def stream(self, schema: StructType) -> DataFrame:
        """What was brought, each file once, and then deleted."""
        HadoopFolder(self._session, self.data).make()
        return self._session.readStream.schema(schema).option("cleanSource", "delete").parquet(self.data)

    def last(self) -> tuple[int, Any | None]:
        """The number of the last look that brought something, and where it ended; -1 before the first."""
        number = self._decided.latest_number()
        return number, None if number < 0 else self._ends.read(number)

    def stage_rows(self, number: int, end: Any, rows: DataFrame) -> None:
        assert self._writer is not None, "open first"
        self._ends.write(number, end)
        self.passed("noted")
        self._writer(rows, number)
        self.passed("decided")
