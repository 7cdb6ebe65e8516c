"""PostgreSQL connections, and catalog queries for types and tables. Only this module and `slot` use psycopg."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.connect.sources.postgres.decoding import Column, Relation
from barnabas.connect.sources.postgres.values import SESSION, PgType, Types
from barnabas.spark import SourceError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST = 14
CONNECT_SECONDS = 10
TIMEOUTS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)

TYPES = """
SELECT oid::int8, typname, CASE WHEN typtype = 'd' THEN typbasetype::int8 ELSE 0 END,
       CASE WHEN typcategory = 'A' AND typtype = 'b' THEN typelem::int8 ELSE 0 END, typdelim::text
FROM pg_catalog.pg_type WHERE typtype IN ('b', 'd', 'e', 'r', 'm')
"""

PRIMARY_KEYS = """
SELECT i.indrelid::int8, array_agg(a.attname::text ORDER BY array_position(i.indkey::int2[], a.attnum))
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid AND c.relkind IN ('r', 'p')
WHERE i.indisprimary AND c.relnamespace <> 'pg_catalog'::regnamespace GROUP BY i.indrelid
"""

COLUMNS = """
SELECT a.attname::text, a.atttypid::int8, a.atttypmod, c.relreplident::text,
       CASE c.relreplident WHEN 'f' THEN true WHEN 'n' THEN false
       ELSE EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)
                    AND CASE c.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert errors of the server to a SourceError that begins with `what`."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise SourceError(f"{what}: {' '.join(str(error).split())}") from error


def connect(url: str, password: str | None = None, *, replication: bool = False) -> Connection:
    """Connect in autocommit mode, with output formats independent of the server's settings."""
    import psycopg

    more: dict[str, Any] = {"password": password} if password is not None else {}
    if replication:
        more["replication"] = "database"
    try:
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="barnabas connect", **more
        )
    except psycopg.Error as error:
        needed = ", and that the user has the REPLICATION attribute" if replication else ""
        raise SourceError(
            f"PostgreSQL cannot be reached, or rejects the user: {' '.join(str(error).split())}. Check `url`, `user` "
            f"and `password`, and pg_hba.conf on the server{needed}"
        ) from error
    with explained("cannot initialize the session"):
        for name in TIMEOUTS:  # the snapshot's transaction stays open while it is read
            connection.execute(f"SET {name} = 0")
        if not replication:
            _prepare(connection)
    return connection


def _prepare(connection: Connection) -> None:
    if connection.info.server_version // 10_000 < OLDEST:
        connection.close()
        raise SourceError(
            f"PostgreSQL {OLDEST} or newer is required; this is {connection.info.server_version // 10_000}"
        )
    for name, value in SESSION.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


def one(connection: Connection, query: str, *values: Any) -> tuple[Any, ...]:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    found: tuple[Any, ...] = row
    return found


def types_of(connection: Connection) -> Types:
    found = connection.execute(TYPES).fetchall()
    return {
        type_id: PgType(name, base, element, delimiter) for type_id, name, base, element, delimiter in found
    }


def primary_keys(connection: Connection) -> dict[int, Sequence[str]]:
    return dict(connection.execute(PRIMARY_KEYS).fetchall())


def describe_table(
    connection: Connection, relation_id: int, schema: str, name: str, only: Sequence[str]
) -> Relation:
    """Describe a table as `pgoutput` would; `only` are the published columns."""
    found = connection.execute(COLUMNS, (relation_id,)).fetchall()
    columns = tuple(
        Column(column, kind, modifier, key) for column, kind, modifier, _, key in found if column in only
    )
    return Relation(relation_id, schema, name, found[0][3] if found else "n", columns)


def columns_of(connection: Connection, schema: str, name: str) -> tuple[Column, ...]:
    query = """
    SELECT c.oid::int8, ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
    """
    found = connection.execute(query, (schema, name)).fetchone()
    if found is None:
        raise SourceError(
            f"table {schema}.{name} does not exist: check `tables`, and that `url` names the right database"
        )
    return describe_table(connection, found[0], schema, name, found[1]).columns
