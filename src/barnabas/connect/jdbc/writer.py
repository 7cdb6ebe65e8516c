"""Exactly-once JDBC sink: tasks stage rows, and one database transaction merges them.

Spark's tasks fill a staging table. One transaction then merges the rows of this attempt and records the batch as
done. A writer killed before the transaction leaves staged rows that are never merged; a writer killed after it finds
the batch recorded. `statements` describes the tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.connect.endpoints import DELETED, ERROR, ORDER, fields_of
from barnabas.connect.jdbc import statements as sql
from barnabas.connect.jdbc.connection import SPARK_FAILURES, Database, DatabaseError, JdbcConnection
from barnabas.connect.secrets import without_password
from barnabas.spark import PipelineError, compute_only, jvm_of, words_of

if TYPE_CHECKING:
    from barnabas.connect.sinks.jdbc import JdbcSink


# -- Tables of the JDBC sink, created or checked before the first batch: some databases commit on DDL --


@dataclass(frozen=True)
class Tables:
    target: str
    staging: str
    batches: str

    @classmethod
    def of(cls, target: str, connector: str) -> Tables:
        return cls(target, sql.staging_name(target, connector), f"{sql.schema_of(target)}{sql.BATCHES}")

    def make_batches(self, connection: JdbcConnection, dialect: sql.SqlDialect) -> None:
        if not connection.has(self.batches):
            _create(connection, self.batches, [dialect.create_batches(sql.schema_of(self.target))])

    def make_target(
        self,
        connection: JdbcConnection,
        dialect: sql.SqlDialect,
        types: Mapping[str, str],
        keys: Sequence[str],
    ) -> None:
        _create(connection, self.target, [dialect.create_target(self.target, types, keys)])

    def add_columns(
        self, connection: JdbcConnection, dialect: sql.SqlDialect, types: Mapping[str, str]
    ) -> None:
        """Add the fields that the table lacks. Old rows have NULL there, and other writers need not know them."""
        there = {name.lower() for name in connection.columns_of(self.target)}
        connection.rollback()
        for name, kind in types.items():
            if name.lower() not in there:
                connection.execute(dialect.add_column(self.target, name, kind))
                connection.commit()

    def names_in_target(self, connection: JdbcConnection, fields: Sequence[str]) -> dict[str, str]:
        """Map each field to the column name in the table: some databases use upper case only."""
        there = {name.lower(): name for name in connection.columns_of(self.target)}
        connection.rollback()
        lacking = [name for name in fields if name.lower() not in there]
        if lacking:
            raise PipelineError(
                f"The table {self.target} has no column for {', '.join(lacking)}: add it, or drop the field with "
                "the transform `drop`."
            )
        return {name: there[name.lower()] for name in fields}

    def make_staging(
        self, connection: JdbcConnection, dialect: sql.SqlDialect, types: Mapping[str, str]
    ) -> None:
        """Create the staging table; recreate it if the fields changed since the last run: its rows were not merged."""
        if connection.has(self.staging):
            there = {name.lower() for name in connection.columns_of(self.staging)}
            connection.rollback()
            if {name.lower() for name in types} <= there:
                return
            connection.execute(f"DROP TABLE {self.staging}")
            connection.commit()
        _create(connection, self.staging, dialect.create_staging(self.staging, self.target, types))


def _create(connection: JdbcConnection, table: str, create: list[str]) -> None:
    try:
        for statement in create:
            connection.execute(statement)
        connection.commit()
    except DatabaseError:
        connection.rollback()
        if not connection.has(table):  # another connector may have created it
            raise


def types_of(session: SparkSession, url: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column types in Spark's dialect of the database."""
    java = jvm_of(session).org.apache.spark.sql
    dialect = java.jdbc.JdbcDialects.get(url)
    types = {}
    for name, kind in columns.items():
        try:
            found = java.execution.datasources.jdbc.JdbcUtils.getJdbcType(
                java.types.DataType.fromDDL(kind), dialect
            )
        except Py4JJavaError:
            raise PipelineError(
                f"The field {name} is {kind}, which has no column type: cast it to `string`, or drop it with "
                "the transform `drop`."
            ) from None
        types[name] = str(found.databaseTypeDefinition())
    return types


# -- Batches of tables with keys: the newest row of each key; rows without a key are rejected ----------


def without_deleted(rows: DataFrame) -> DataFrame:
    return rows.filter(~F.coalesce(F.col(DELETED), F.lit(False))) if DELETED in rows.columns else rows


def divided_by_key(
    rows: DataFrame, columns: Mapping[str, str], keys: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Split into rows with a complete key, and the others with `_error`."""
    rows = rows.withColumns({key: _key(key, columns, keys) for key in keys})
    lacks = F.array_compact(F.array(*(F.when(F.col(f"`{key}`").isNull(), F.lit(key)) for key in keys)))
    reason = F.concat(
        F.array_join(lacks, ", "), F.lit(f" is null, and {', '.join(keys)} is the key of the table")
    )
    return rows.filter(F.size(lacks) == 0), rows.filter(F.size(lacks) > 0).withColumn(ERROR, reason)


def newest(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keep the newest row of each key by `_order`; without it, the last row."""
    ordered = rows if ORDER in rows.columns else rows.withColumn(ORDER, F.monotonically_increasing_id())
    row_struct = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    found = ordered.groupBy(*(F.col(f"`{key}`") for key in keys))
    return found.agg(F.max_by(row_struct, F.col(ORDER)).alias("newest")).select("newest.*")


def _key(key: str, columns: Mapping[str, str], keys: Sequence[str]) -> Column:
    """Key column of a row; a tombstone has only the record key, either plain or as a JSON object."""
    column = F.col(f"`{key}`")
    if "_key" not in columns or DELETED not in columns:
        return column
    text = F.col("_key").cast("string")
    found = F.get_json_object(text, f"$.{key}")
    if len(keys) == 1:
        found = F.coalesce(found, text)
    return F.when(F.col(DELETED), F.coalesce(column, found.try_cast(columns[key]))).otherwise(column)


class JdbcWriter:
    """Writes micro-batches to one table. `passed` is called after each step: tests kill the process there."""

    passed: Callable[[str], None] = staticmethod(lambda step: None)

    def __init__(
        self, sink: JdbcSink, session: SparkSession, connector: str, columns: Mapping[str, str]
    ) -> None:
        self._sink = sink
        self._session = session
        self._connector = connector
        self._columns = dict(columns)
        self._names = {name: name for name in fields_of(columns)}
        self._dialect = sql.dialect_of(sink.url.text)
        self._tables = Tables.of(sink.table, connector)
        self._database = Database.of(sink.url, sink.user, sink.password, sink.options)
        self._run = 0

    def prepare(self) -> None:
        """Create the tables and start a new run, which fences off earlier runs."""
        fields = {name: self._columns[name] for name in self._names}
        types = types_of(self._session, self._sink.url.text, fields)
        with self._database.connected(self._session) as connection:
            self._tables.make_batches(connection, self._dialect)
            if not connection.has(self._sink.table):
                if not self._sink.create:
                    raise PipelineError(
                        f"Table {self._sink.table} does not exist at {self._database.location}."
                    )
                self._tables.make_target(connection, self._dialect, types, self._sink.keys)
            elif self._sink.create and self._sink.schema_evolution == "add":
                self._tables.add_columns(connection, self._dialect, types)
            self._names = self._tables.names_in_target(connection, list(fields))
            staged = {self._names[name]: kind for name, kind in types.items()}
            self._tables.make_staging(connection, self._dialect, staged)
            self._run = self._take_over(connection)

    def write(self, rows: DataFrame, query: str, batch: int) -> DataFrame | None:
        good, refused = self._divided(rows)
        if not self._is_due(query, batch):
            compute_only(good)
            return refused
        attempt = uuid.uuid4().hex
        self.passed("looked")
        self._stage(good, batch, attempt)
        self.passed("staged")
        self._merge(query, batch, attempt)
        self.passed("merged")
        return refused

    def close(self) -> None:
        pass

    def _divided(self, rows: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        keys = self._sink.keys
        if not self._sink.delete:
            rows = without_deleted(rows)
        if not keys:
            return rows, None
        good, refused = divided_by_key(rows, self._columns, keys)
        return (newest(good, keys) if self._sink.mode == "upsert" or self._sink.delete else good), refused

    def _take_over(self, connection: JdbcConnection) -> int:
        name, batches = self._connector, self._tables.batches
        if not connection.execute(f"UPDATE {batches} SET run = run + 1 WHERE connector = ?", [name]):
            values = [name, "", sql.NO_BATCH, 1]
            connection.execute(
                f"INSERT INTO {batches} (connector, query, batch, run) VALUES (?, ?, ?, ?)", values
            )
        [(run,)] = connection.query(f"SELECT run FROM {batches} WHERE connector = ?", [name])
        connection.commit()
        return int(run)

    def _is_due(self, query: str, batch: int) -> bool:
        """Return False if the batch is already in the target."""
        with self._database.connected(self._session) as connection:
            statement = f"SELECT query, batch, run FROM {self._tables.batches} WHERE connector = ?"
            found = connection.query(statement, [self._connector])
            if not found or int(found[0][2]) != self._run:
                raise self._replaced(batch)
            known, last = str(found[0][0]), int(found[0][1])
            if known != query and batch == 0:
                self._begin(connection, query)
                return True
        if known == query and last == batch:
            return False
        if known != query or last != batch - 1:
            raise PipelineError(
                f"{self._tables.batches} has batch {last} of {self._connector}, but Spark's checkpoint continues with "
                f"{batch}{'' if known == query else ' of another query'}: one of them is an older copy. Bring both to "
                "the same state, or give the connector another name and fill another table."
            )
        return True

    def _begin(self, connection: JdbcConnection, query: str) -> None:
        """Reset the batch number for a new checkpoint, which counts from 0."""
        changed = connection.execute(
            f"UPDATE {self._tables.batches} SET query = ?, batch = ? WHERE connector = ? AND run = ?",
            [query, sql.NO_BATCH, self._connector, self._run],
        )
        if not changed:
            raise self._replaced(0)
        connection.commit()

    def _stage(self, rows: DataFrame, batch: int, attempt: str) -> None:
        deleted_flag = F.coalesce(F.col(DELETED), F.lit(False)) if DELETED in self._columns else F.lit(False)
        staged = rows.select(
            F.lit(self._run).cast("bigint").alias(sql.RUN),
            F.lit(batch).cast("bigint").alias(sql.BATCH),
            F.lit(attempt).alias(sql.ATTEMPT),
            F.monotonically_increasing_id().alias(sql.ROW),
            deleted_flag.cast("smallint").alias(sql.GONE),
            *(F.col(f"`{name}`").alias(there) for name, there in self._names.items()),
        )
        options = {**self._database.spark_options(self._session), "dbtable": self._tables.staging}
        try:
            staged.write.format("jdbc").options(**options).mode("append").save()
        except SPARK_FAILURES as error:
            raise DatabaseError(
                f"Cannot stage batch {batch} at {self._database.location}; nothing of it is in "
                f"{self._sink.table}; retrying.",
                without_password(words_of(error)),
                "",
            ) from None

    def _merge(self, query: str, batch: int, attempt: str) -> None:
        with self._database.connected(self._session) as connection:
            counted = connection.execute(
                f"UPDATE {self._tables.batches} SET batch = ? "
                "WHERE connector = ? AND query = ? AND batch = ? AND run = ?",
                [batch, self._connector, query, batch - 1, self._run],
            )
            if not counted:
                raise self._replaced(batch)
            self.passed("counted")
            for statement in self._merging():
                connection.execute(statement, sql.parameters_of(statement, attempt))
            self.passed("changed")
            swept = f"DELETE FROM {self._tables.staging} WHERE {sql.RUN} < ? OR ({sql.RUN} = ? AND {sql.BATCH} <= ?)"
            connection.execute(swept, [self._run, self._run, batch])
            self.passed("swept")
            connection.commit()

    def _merging(self) -> list[str]:
        sink, dialect, staging = self._sink, self._dialect, self._tables.staging
        fields, keys = list(self._names.values()), [self._names[key] for key in sink.keys]
        statements = [dialect.delete(sink.table, staging, keys)] if sink.delete else []
        if sink.mode == "upsert":
            return [*statements, *dialect.upsert(sink.table, staging, fields, keys)]
        return [*statements, dialect.insert(sink.table, staging, fields)]

    def _replaced(self, batch: int) -> PipelineError:
        return PipelineError(
            f"Another run of {self._connector} has taken over at {self._database.location}, and this one stops: "
            f"nothing of batch {batch} is in {self._sink.table} twice. Run a connector once at a time, or give one of "
            "them another name."
        )
