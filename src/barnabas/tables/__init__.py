"""Topics as tables for Arrow, pandas, polars and DuckDB, read from brokers, a data folder or a bucket.

orders = barnabas.table("orders", bootstrap="127.0.0.1:9092")
orders.since("1h").to_pandas()

Entry points: Table, open_table, TableError. Needs the extra `barnabas[table]`; `ddl` alone needs neither pyarrow nor
numba. Manual: docs/tables.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tables.ddl import DdlField, Type, parse_fields
    from barnabas.tables.errors import BadValueError, SchemaError, TableError
    from barnabas.tables.opening import open_table, source_of
    from barnabas.tables.registered import newest_avro
    from barnabas.tables.registered_protobuf import protobuf_format
    from barnabas.tables.rows import RowBuilder
    from barnabas.tables.schemas import ReadSchema, find_shape
    from barnabas.tables.shapes import ValueFormat
    from barnabas.tables.sources import OpenSource
    from barnabas.tables.sql import QueryResult, describe, query
    from barnabas.tables.table import Table
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "ddl": "DdlField Type parse_fields",
            "errors": "BadValueError SchemaError TableError",
            "opening": "open_table source_of",
            "registered": "newest_avro",
            "registered_protobuf": "protobuf_format",
            "rows": "RowBuilder",
            "schemas": "ReadSchema find_shape",
            "shapes": "ValueFormat",
            "sources": "OpenSource",
            "sql": "QueryResult describe query",
            "table": "Table",
        },
    )

__all__ = [
    "BadValueError",
    "DdlField",
    "OpenSource",
    "QueryResult",
    "ReadSchema",
    "RowBuilder",
    "SchemaError",
    "Table",
    "TableError",
    "Type",
    "ValueFormat",
    "describe",
    "find_shape",
    "newest_avro",
    "open_table",
    "parse_fields",
    "protobuf_format",
    "query",
    "source_of",
]
