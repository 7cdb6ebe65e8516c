"""Table patterns of the connector, and the publication of their changes."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.connect.sources.postgres.database import explained, one
from barnabas.spark import SourceError

if TYPE_CHECKING:
    from barnabas.connect.sources.postgres.database import Connection

PUBLISHED = """
SELECT c.oid::int8, p.schemaname::text, p.tablename::text, {columns}, {rows}, c.relkind::text,
       pg_catalog.pg_relation_size(c.oid) / current_setting('block_size')::int
FROM pg_catalog.pg_publication_tables p
JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY 2, 3
"""
COLUMN_LISTS = 150_000  # first server version with column lists and row filters
ALL_COLUMNS = "ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0)"

TABLES = """
SELECT n.nspname::text, c.relname::text, c.relreplident::text,
       EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema' ORDER BY 1, 2
"""


@dataclass(frozen=True)
class PublishedTable:
    relation_id: int
    schema: str
    name: str
    columns: Sequence[str]
    condition: str | None
    kind: str
    blocks: int

    @property
    def text(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Patterns:
    """`public.orders`, `public.*`, `shop_*.orders`; a name without a schema is in `public`."""

    texts: tuple[str, ...]

    def match(self, schema: str, name: str) -> bool:
        return any(fnmatch.fnmatchcase(f"{schema}.{name}", text) for text in self.full)

    @property
    def full(self) -> list[str]:
        return [text if "." in text else f"public.{text}" for text in self.texts]

    def single(self) -> tuple[str, str] | None:
        """Return schema and name if the patterns can match only one table."""
        if len(self.texts) != 1 or any(letter in self.texts[0] for letter in "*?["):
            return None
        schema, _, name = self.full[0].partition(".")
        return schema, name


def ensure_publication(connection: Connection, publication: str, patterns: Patterns) -> None:
    """Create the publication, or check that an existing one contains the tables."""
    (there,) = one(
        connection, "SELECT count(*) FROM pg_catalog.pg_publication WHERE pubname = %s", publication
    )
    requested = _wanted(connection, patterns)
    if there:
        _check(connection, publication, patterns, [f"{schema}.{name}" for schema, name in requested])
    else:
        _create(connection, publication, requested)


def published(connection: Connection, publication: str, patterns: Patterns) -> list[PublishedTable]:
    has_lists = connection.info.server_version >= COLUMN_LISTS
    query = PUBLISHED.format(
        columns="p.attnames::text[]" if has_lists else ALL_COLUMNS,
        rows="p.rowfilter" if has_lists else "NULL",
    )
    with explained(f"the tables of publication {publication} cannot be listed"):
        found = [PublishedTable(*row) for row in connection.execute(query, (publication,)).fetchall()]
    return [table for table in found if patterns.match(table.schema, table.name)]


def _wanted(connection: Connection, patterns: Patterns) -> list[tuple[str, str]]:
    found = connection.execute(TABLES).fetchall()
    matching = [row for row in found if patterns.match(row[0], row[1])]
    if not matching:
        raise SourceError(
            f"no table is named {' or '.join(patterns.full)}: check `tables`, and that `url` names the right database"
        )
    keyless = [
        f"{schema}.{name}" for schema, name, identity, keyed in matching if not _has_identity(identity, keyed)
    ]
    if keyless:
        raise SourceError(
            f"{', '.join(keyless)}: no primary key. Once its changes are published, PostgreSQL would refuse "
            "every UPDATE "
            f"and DELETE on it. Give it a primary key, or ALTER TABLE {keyless[0]} REPLICA IDENTITY FULL, or "
            "leave it out"
        )
    return [(schema, name) for schema, name, _, _ in matching]


def _has_identity(identity: str, has_primary_key: bool) -> bool:
    return identity in ("f", "i") or (identity == "d" and has_primary_key)


def _check(connection: Connection, publication: str, patterns: Patterns, requested: list[str]) -> None:
    there = published(connection, publication, patterns)
    roots = {table.text for table in there} | _roots(connection, [table.relation_id for table in there])
    lacking = [name for name in requested if name not in roots]
    if lacking:
        raise SourceError(
            f"publication {publication} does not have {', '.join(lacking)}. Its owner adds them by ALTER PUBLICATION "
            f"{publication} ADD TABLE {', '.join(lacking)}; rows that they have by now are not read. To read "
            "those too, start "
            "over with another `slot` and `publication` and an empty topic"
        )


def _roots(connection: Connection, relation_ids: list[int]) -> set[str]:
    """Return the partitioned tables whose partitions are published individually."""
    query = """
    SELECT DISTINCT n.nspname || '.' || c.relname FROM unnest(%s::oid[]) AS leaf
    CROSS JOIN LATERAL (SELECT pg_catalog.pg_partition_root(leaf) AS root) AS found
    JOIN pg_catalog.pg_class c ON c.oid = found.root JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    """
    return {name for (name,) in connection.execute(query, (relation_ids,)).fetchall()}


def _create(connection: Connection, publication: str, requested: list[tuple[str, str]]) -> None:
    from psycopg import sql

    tables = sql.SQL(", ").join(sql.Identifier(*names) for names in requested)
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)").format(
        sql.Identifier(publication), tables
    )
    with explained(
        f"publication {publication} cannot be created: as owner of the tables, with CREATE on the database, run "
        f"{statement.as_string(connection)}"
    ):
        connection.execute(statement)
