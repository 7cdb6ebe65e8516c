"""Latest record of each key: the content of a compacted topic, compacted already or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from barnabas.tables.sql import database

if TYPE_CHECKING:
    from barnabas.tables.table import Table


def latest_rows(table: Table, columns: list[str], memory: str | None) -> pa.Table:
    """Within a partition, the larger offset is newer; across partitions, the larger timestamp.

    Records without a key are left out. DuckDB sorts, and spills beyond `memory`.
    """
    prefix = "" if table.shape.value is None else "_"
    key, value = f"{prefix}key", f"{prefix}value"
    partition, offset, timestamp = table.names
    needed = list(dict.fromkeys([*columns, key, value, partition, offset, timestamp]))
    chosen = ", ".join(map(quoted, columns))
    query = f"""
        WITH newest AS (
            SELECT {chosen}, {value} IS NULL AS "tombstone?", row_number() OVER (
                PARTITION BY {key} ORDER BY {timestamp} DESC, {offset} DESC) AS "rank?"
            FROM (
                SELECT *, row_number() OVER (PARTITION BY {partition}, {key} ORDER BY {offset} DESC) AS "within?"
                FROM records WHERE {key} IS NOT NULL
            ) WHERE "within?" = 1
        )
        SELECT {chosen} FROM newest WHERE "rank?" = 1 AND NOT "tombstone?"
    """
    with database({"records": table.dataset(needed)}, memory) as connection:
        found: pa.Table = connection.sql(query).to_arrow_table()
    return found.cast(table.shape.select(columns).schema)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
