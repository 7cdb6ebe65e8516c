"""Topics as tables: read by Arrow, pandas, polars and DuckDB, from brokers, from a data folder or from a bucket.

orders = barnabas.table("orders", bootstrap="127.0.0.1:9092")
orders.since("1h").to_pandas()

An extra (`barnabas[table]`); `ddl` alone needs neither pyarrow nor numba. docs/tables.md is the manual.
"""
