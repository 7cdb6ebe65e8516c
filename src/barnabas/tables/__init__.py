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
    from barnabas.tables.ddl import DdlField as DdlField
    from barnabas.tables.ddl import Type as Type
    from barnabas.tables.ddl import parse_fields as parse_fields
    from barnabas.tables.errors import BadValueError as BadValueError
    from barnabas.tables.errors import SchemaError as SchemaError
    from barnabas.tables.errors import TableError as TableError
    from barnabas.tables.opening import TableOptions as TableOptions
    from barnabas.tables.opening import open_table as open_table
    from barnabas.tables.opening import source_of as source_of
    from barnabas.tables.registered import newest_avro as newest_avro
    from barnabas.tables.registered import registered_format as registered_format
    from barnabas.tables.registered_protobuf import protobuf_format as protobuf_format
    from barnabas.tables.rows import RowBuilder as RowBuilder
    from barnabas.tables.schemas import ReadSchema as ReadSchema
    from barnabas.tables.schemas import find_shape as find_shape
    from barnabas.tables.shapes import ValueFormat as ValueFormat
    from barnabas.tables.sources import OpenSource as OpenSource
    from barnabas.tables.sql import QueryResult as QueryResult
    from barnabas.tables.sql import describe as describe
    from barnabas.tables.sql import query as query
    from barnabas.tables.table import Table as Table
else:
    __getattr__ = lazy_exports(__name__)
