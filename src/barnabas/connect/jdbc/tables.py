"""The tables that the JDBC sink needs, made or checked before the first batch: a database may not mix DDL with a
transaction that matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from barnabas.connect.jdbc import statements as sql
from barnabas.connect.jdbc.connection import Connection, DatabaseError
from barnabas.spark.errors import PipelineError
from barnabas.spark.jvm import jvm_of


@dataclass(frozen=True)
class Tables:
    target: str
    staging: str
    batches: str

    @classmethod
    def of(cls, target: str, connector: str) -> Tables:
        return cls(target, sql.staging_name(target, connector), f"{sql.schema_of(target)}{sql.BATCHES}")

    def make_batches(self, connection: Connection, dialect: sql.Dialect) -> None:
        if not connection.has(self.batches):
            _create(connection, self.batches, [dialect.create_batches(sql.schema_of(self.target))])

    def make_target(
        self, connection: Connection, dialect: sql.Dialect, types: Mapping[str, str], keys: Sequence[str]
    ) -> None:
        _create(connection, self.target, [dialect.create_target(self.target, types, keys)])

    def names_in_target(self, connection: Connection, fields: Sequence[str]) -> dict[str, str]:
        """Of each field, the name that the table has for it: some databases know capital letters only."""
        there = {name.lower(): name for name in connection.columns_of(self.target)}
        connection.rollback()
        lacking = [name for name in fields if name.lower() not in there]
        if lacking:
            raise PipelineError(
                f"The table {self.target} has no column for {', '.join(lacking)}: add it, or leave the field out with "
                "a transform `drop`."
            )
        return {name: there[name.lower()] for name in fields}

    def make_staging(self, connection: Connection, dialect: sql.Dialect, types: Mapping[str, str]) -> None:
        """Made again if rows have other fields than in the last run; what is staged in it was never merged."""
        if connection.has(self.staging):
            there = {name.lower() for name in connection.columns_of(self.staging)}
            connection.rollback()
            if {name.lower() for name in types} <= there:
                return
            connection.execute(f"DROP TABLE {self.staging}")
            connection.commit()
        _create(connection, self.staging, dialect.create_staging(self.staging, self.target, types))


def _create(connection: Connection, table: str, create: list[str]) -> None:
    try:
        for statement in create:
            connection.execute(statement)
        connection.commit()
    except DatabaseError:
        connection.rollback()
        if not connection.has(table):  # another connector was faster
            raise


def types_of(session: SparkSession, url: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Types of columns as Spark's own dialect of the database has them."""
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
                f"The field {name} is {kind}, which a column of a database cannot be: cast it to `string`, or leave it "
                "out with a transform `drop`."
            ) from None
        types[name] = str(found.databaseTypeDefinition())
    return types
