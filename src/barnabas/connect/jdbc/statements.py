"""SQL statements of the JDBC sink. No I/O.

One table of batches per schema, with one row per connector:

    connector   the connector's name
    query       the id of the Spark query; a new checkpoint has a new id
    batch       the last batch merged into the target
    run         incremented at each start: fences off earlier runs

One staging table per connector. Its rows carry run, batch and attempt, and a row number that is the same in every
attempt of a Spark task: the primary key admits one attempt of each task, however many Spark runs. Rows of the target
change only in the transaction that moves `batch` from n-1 to n.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.spark import PipelineError

BATCHES = "barnabas_batches"
RUN, BATCH, ATTEMPT, ROW, GONE = (
    "barnabas_run", "barnabas_batch", "barnabas_attempt", "barnabas_row", "barnabas_deleted",
)  # fmt: skip
NO_BATCH = -1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*){0,2}")


@dataclass(frozen=True)
class SqlDialect:
    """Standard SQL. An upsert is a DELETE, an UPDATE and an INSERT."""

    quote: str = '"'
    text: str = "VARCHAR(250)"
    number: str = "BIGINT"
    small: str = "SMALLINT"

    def quoted(self, name: str) -> str:
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"

    def create_batches(self, schema: str) -> str:
        return (
            f"CREATE TABLE {schema}{BATCHES} (connector {self.text} NOT NULL PRIMARY KEY, query {self.text} NOT NULL, "
            f"batch {self.number} NOT NULL, run {self.number} NOT NULL)"
        )

    def create_staging(self, staging: str, target: str, columns: Mapping[str, str]) -> list[str]:
        """Return the DDL of the staging table; `columns` maps fields to the types of Spark's JDBC dialect."""
        own = [
            f"{RUN} {self.number} NOT NULL",
            f"{BATCH} {self.number} NOT NULL",
            f"{ATTEMPT} {self.text} NOT NULL",
            f"{ROW} {self.number} NOT NULL",
            f"{GONE} {self.small} NOT NULL",
        ]
        fields = [f"{self.quoted(name)} {kind}" for name, kind in columns.items()]
        key = f"PRIMARY KEY ({ATTEMPT}, {ROW})"
        return [f"CREATE TABLE {staging} ({', '.join([*own, *fields, key])})"]

    def create_target(self, target: str, columns: Mapping[str, str], keys: Sequence[str]) -> str:
        fields = [
            f"{self.quoted(name)} {kind}{' NOT NULL' if name in keys else ''}"
            for name, kind in columns.items()
        ]
        key = [f"PRIMARY KEY ({', '.join(map(self.quoted, keys))})"] if keys else []
        return f"CREATE TABLE {target} ({', '.join([*fields, *key])})"

    def add_column(self, target: str, name: str, kind: str) -> str:
        return f"ALTER TABLE {target} ADD {self.quoted(name)} {kind}"

    def insert(self, target: str, staging: str, fields: Sequence[str]) -> str:
        named = ", ".join(map(self.quoted, fields))
        return f"INSERT INTO {target} ({named}) SELECT {named} FROM {staging} WHERE {_mine()} AND {GONE} = 0"

    def delete(self, target: str, staging: str, keys: Sequence[str]) -> str:
        return f"DELETE FROM {target} WHERE EXISTS ({self._staged(target, staging, keys, 1)})"

    def upsert(self, target: str, staging: str, fields: Sequence[str], keys: Sequence[str]) -> list[str]:
        others = [name for name in fields if name not in keys]
        named = ", ".join(map(self.quoted, fields))
        of_stage = ", ".join(f"s.{self.quoted(name)}" for name in fields)
        same = " AND ".join(f"s.{self.quoted(key)} = t.{self.quoted(key)}" for key in keys)
        statements = []
        if others:
            changes = ", ".join(
                f"{self.quoted(name)} = (SELECT s.{self.quoted(name)} FROM {staging} s "
                f"WHERE {self._match(target, keys)} AND {_mine('s.')})"
                for name in others
            )
            exists = self._staged(target, staging, keys, 0)
            statements.append(f"UPDATE {target} SET {changes} WHERE EXISTS ({exists})")
        statements.append(
            f"INSERT INTO {target} ({named}) SELECT {of_stage} FROM {staging} s WHERE {_mine('s.')} AND s.{GONE} = 0 "
            f"AND NOT EXISTS (SELECT 1 FROM {target} t WHERE {same})"
        )
        return statements

    def next_end(self, table: str, column: str, limit: int, *, begins: bool) -> str:
        """Query for the highest value among the next `limit` rows. Its parameter is the last value, unless `begins`."""
        name = self.quoted(column)
        after = f"{name} IS NOT NULL" if begins else f"{name} > ?"
        few = self.first(limit)
        return f"SELECT MAX(v) FROM (SELECT {name} AS v FROM {table} WHERE {after} ORDER BY {name} {few}) n"

    def first(self, number: int) -> str:
        return f"FETCH FIRST {number} ROWS ONLY"

    def _match(self, target: str, keys: Sequence[str]) -> str:
        return " AND ".join(f"s.{self.quoted(key)} = {target}.{self.quoted(key)}" for key in keys)

    def _staged(self, target: str, staging: str, keys: Sequence[str], deleted_flag: int) -> str:
        match = self._match(target, keys)
        return f"SELECT 1 FROM {staging} s WHERE {match} AND {_mine('s.')} AND s.{GONE} = {deleted_flag}"


class PostgresDialect(SqlDialect):
    """Upserts change only the columns of the rows and need a unique key on `keys`. Staging columns have the target's
    types, so that strings are converted to `jsonb`, `uuid` and so on."""

    def create_staging(self, staging: str, target: str, columns: Mapping[str, str]) -> list[str]:
        named = ", ".join(map(self.quoted, columns))
        own = f"0::bigint {RUN}, 0::bigint {BATCH}, ''::varchar(250) {ATTEMPT}, 0::bigint {ROW}, 0::smallint {GONE}"
        return [
            f"CREATE UNLOGGED TABLE {staging} AS SELECT {own}, {named} FROM {target} WHERE false",
            f"ALTER TABLE {staging} ADD PRIMARY KEY ({ATTEMPT}, {ROW})",
        ]

    def upsert(self, target: str, staging: str, fields: Sequence[str], keys: Sequence[str]) -> list[str]:
        others = [name for name in fields if name not in keys]
        changes = ", ".join(f"{self.quoted(name)} = EXCLUDED.{self.quoted(name)}" for name in others)
        action = f"UPDATE SET {changes}" if others else "NOTHING"
        by = ", ".join(map(self.quoted, keys))
        return [f"{self.insert(target, staging, fields)} ON CONFLICT ({by}) DO {action}"]


class MySqlDialect(SqlDialect):
    def first(self, number: int) -> str:
        return f"LIMIT {number}"

    def upsert(self, target: str, staging: str, fields: Sequence[str], keys: Sequence[str]) -> list[str]:
        kept = [name for name in fields if name not in keys] or list(keys)
        changes = ", ".join(f"{self.quoted(name)} = VALUES({self.quoted(name)})" for name in kept)
        return [f"{self.insert(target, staging, fields)} ON DUPLICATE KEY UPDATE {changes}"]


class SqlServerDialect(SqlDialect):
    def first(self, number: int) -> str:
        return f"OFFSET 0 ROWS {super().first(number)}"


def dialect_of(url: str) -> SqlDialect:
    kind = url.removeprefix("jdbc:").split(":")[0]
    if kind == "postgresql":
        return PostgresDialect()
    if kind in ("mysql", "mariadb"):
        return MySqlDialect(quote="`")
    if kind == "oracle":
        return SqlDialect(text="VARCHAR2(250)", number="NUMBER(19)", small="NUMBER(5)")
    if kind == "sqlserver":
        return SqlServerDialect()
    return SqlDialect()


def _mine(prefix: str = "") -> str:
    """Condition on the rows of one attempt, with the attempt id as its parameter."""
    return f"{prefix}{ATTEMPT} = ?"


def parameters_of(statement: str, attempt: str) -> list[str]:
    return [attempt] * statement.count("?")


def staging_name(table: str, connector: str) -> str:
    """Return the name of the staging table, in the schema of the target."""
    schema, _, _ = table.rpartition(".")
    own = re.sub(r"[^a-z0-9]", "_", connector.lower())[:40]
    return f"{schema}.barnabas_stage_{own}" if schema else f"barnabas_stage_{own}"


def schema_of(table: str) -> str:
    """Return the schema with its dot; empty for the connection's default schema."""
    schema, dot, _ = table.rpartition(".")
    return schema + dot


def check_table(table: str) -> None:
    if not _NAME.fullmatch(table):
        raise PipelineError(f"not a valid table name: {table!r} (use TABLE or SCHEMA.TABLE).")
