"""Topics as tables for Arrow, pandas, polars and DuckDB, read from brokers, a data folder or a bucket.

orders = barnabas.table("orders", bootstrap="127.0.0.1:9092")
orders.since("1h").to_pandas()

Entry points: Table, open_table, TableError. Needs the extra `barnabas[table]`; `ddl` alone needs neither pyarrow nor
numba. Manual: docs/tables.md.
"""
