"""New rows of a table of a database, brought to where Spark can stream: Parquet files of the connector's storage.

A look takes rows whose column is above the last end and not above a new one. The new end is noted before rows are read;
that the rows are there is decided by one file (`lake/writing`), and the next look begins where the last decided one
ended. So each row is in one file, once, whatever is killed, and Spark reads each file once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from barnabas.pipelines.batch_log import BatchLog
from barnabas.pipelines.connectors.jdbc import statements as sql
from barnabas.pipelines.connectors.jdbc.connection import SPARK_FAILURES, Database, DatabaseError
from barnabas.pipelines.connectors.secrets import without_password
from barnabas.pipelines.definitions.settings import Lake
from barnabas.pipelines.errors import PipelineError, words_of
from barnabas.pipelines.hadoop_files import HadoopFolder
from barnabas.pipelines.jvm import jvm_of
from barnabas.pipelines.lake.layout import HIDDEN
from barnabas.pipelines.lake.writing import LakeWriter

WRITER = "incoming"


class TableFeeder:
    """`passed` is told each step when it is done: tests stop there."""

    passed: Callable[[str], None] = staticmethod(lambda step: None)

    def __init__(
        self,
        session: SparkSession,
        database: Database,
        table: str,
        by: str,
        folder: str,
        max_rows: int,
        settle: float,
    ) -> None:
        self._session = session
        self._database = database
        self._table = table
        self.column = by
        self._max_rows = max_rows
        self._settle = settle
        self.data = f"{folder}/rows"
        self._ends = BatchLog(HadoopFolder(session, folder).below("ends"))
        self._decided = BatchLog(HadoopFolder(session, self.data).below(f"{HIDDEN}/batches/{WRITER}"))
        self._writer: LakeWriter | None = None
        self._schema: StructType | None = None

    def schema(self) -> StructType:
        """The table's columns; PipelineError if the one that grows is not among them."""
        if self._schema is None:
            with self._database.connected(self._session) as connection:
                connection.columns_of(self._table)  # says what is wrong, which Spark does not
            self._schema = self._rows().schema
            there = {name.lower(): name for name in self._schema.names}
            if self.column.lower() not in there:
                raise PipelineError(
                    f"The table {self._table} has no column {self.column}; it has {', '.join(self._schema.names)}."
                )
            self.column = there[self.column.lower()]
            HadoopFolder(self._session, self.data).make()
        return self._schema

    def fetch(self) -> bool:
        writer = self._open()
        last = self._decided.latest_number()
        start = None if last < 0 else self._ends.read(last)
        end = self._new_end(start)
        if end is None:
            return False
        self._ends.write(last + 1, end)
        self.passed("noted")
        rows = self._rows().filter(self._after(start) & (F.col(self._quoted) <= self._literal(end)))
        try:
            writer(rows, last + 1)
        except SPARK_FAILURES as error:
            raise self._away(error) from None
        self.passed("decided")
        return True

    def _open(self) -> LakeWriter:
        """What was decided and not finished when the last run was killed, is finished."""
        if self._writer is None:
            self._writer = LakeWriter(self._session, Lake(path=self.data), [], WRITER)
            last = self._decided.latest_number()
            if last >= 0:
                self._writer(self._session.createDataFrame([], self.schema()), last)
        return self._writer

    @property
    def _quoted(self) -> str:
        return f"`{self.column}`"

    def _rows(self) -> DataFrame:
        options = {**self._database.spark_options(self._session), "dbtable": self._table}
        try:
            return self._session.read.format("jdbc").options(**options).load()
        except SPARK_FAILURES as error:
            raise self._away(error) from None

    def _new_end(self, start: str | None) -> str | None:
        """The highest value of at most so many rows more, which has been there for a while."""
        dialect = sql.dialect_of(self._database.url.text)
        with self._database.connected(self._session) as connection:
            column = next(
                name for name in connection.columns_of(self._table) if name.lower() == self.column.lower()
            )
            statement = dialect.next_end(self._table, column, self._max_rows, begins=start is None)
            [(found,)] = connection.query(statement, [] if start is None else [self._parameter(start)])
        if found is None:
            return None
        time.sleep(self._settle)
        return self._text(found)

    def _after(self, start: str | None) -> Any:
        column = F.col(self._quoted)
        return column.isNotNull() if start is None else column > self._literal(start)

    # -- values of the column ---------------------------------------------------------------------------------

    @property
    def _is_time(self) -> bool:
        kind = self.schema()[self.column].dataType
        return isinstance(kind, TimestampType | TimestampNTZType)

    def _literal(self, text: str) -> Any:
        return F.lit(text).cast(self.schema()[self.column].dataType)

    def _parameter(self, text: str) -> Any:
        java = jvm_of(self._session).java
        if self._is_time:
            return _timestamp(java, text)
        return java.math.BigDecimal(text)

    def _text(self, value: Any) -> str:
        if not self._is_time:
            return str(value.toPlainString() if isinstance(value, JavaObject) else value)
        return str(value.toInstant().toString())

    def _away(self, error: Exception) -> DatabaseError:
        return DatabaseError(
            f"The table {self._table} at {self._database.place} could not be read; it is tried again.",
            without_password(words_of(error)),
            "",
        )


def _timestamp(java: Any, text: str) -> Any:
    instant = java.time.Instant.parse(text)
    found = java.sql.Timestamp(instant.toEpochMilli())
    found.setNanos(instant.getNano())
    return found
