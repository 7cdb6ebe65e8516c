"""Polls a database table: each fetch stages the rows between the last end of the column and a new one (`staging`)."""

from __future__ import annotations

import time
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from barnabas.connect.jdbc import statements as sql
from barnabas.connect.jdbc.connection import SPARK_FAILURES, Database, DatabaseError
from barnabas.connect.secrets import without_password
from barnabas.connect.staging import StagedRows
from barnabas.spark import PipelineError, jvm_of, words_of


class TableFeeder:
    def __init__(
        self,
        session: SparkSession,
        database: Database,
        table: str,
        by: str,
        storage: str,
        max_rows: int,
        settle: float,
    ) -> None:
        self._session = session
        self._database = database
        self._table = table
        self.column = by
        self._max_rows = max_rows
        self._settle = settle
        self.incoming = StagedRows(session, storage)
        self._schema: StructType | None = None

    def schema(self) -> StructType:
        """Return the table's columns; PipelineError if the incrementing column is missing."""
        if self._schema is None:
            with self._database.connected(self._session) as connection:
                connection.columns_of(self._table)  # gives a better error message than Spark
            self._schema = self._rows().schema
            there = {name.lower(): name for name in self._schema.names}
            if self.column.lower() not in there:
                raise PipelineError(
                    f"The table {self._table} has no column {self.column}; it has {', '.join(self._schema.names)}."
                )
            self.column = there[self.column.lower()]
        return self._schema

    def fetch(self) -> bool:
        incoming = self.incoming
        incoming.open(self.schema())
        last, start = incoming.last()
        end = self._new_end(start)
        if end is None:
            return False
        rows = self._rows().filter(self._after(start) & (F.col(self._quoted) <= self._literal(end)))
        try:
            incoming.stage_rows(last + 1, end, rows)
        except SPARK_FAILURES as error:
            raise self._away(error) from None
        return True

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
        """Return the highest value among the next `max_rows` rows, after waiting for `settle`; None without rows."""
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

    # -- Values of the column --------------------------------------------------------------------------

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
            f"Cannot read the table {self._table} at {self._database.location}; retrying.",
            without_password(words_of(error)),
            "",
        )


def _timestamp(java: Any, text: str) -> Any:
    instant = java.time.Instant.parse(text)
    found = java.sql.Timestamp(instant.toEpochMilli())
    found.setNanos(instant.getNano())
    return found
