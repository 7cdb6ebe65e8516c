"""Rows of the table, in the order of measurement."""

from benchmarks.model import Row
from benchmarks.rows import (
    cluster,
    cold,
    compaction,
    consume,
    consumer_groups,
    cost,
    groups,
    growth,
    ingest,
    jobs,
    latency,
    memory,
    mirror,
    produce,
    registry,
    requests,
    share,
    spark,
    spark_executors,
    spark_growth,
    spark_write,
    startup,
    tables,
    transactions,
)
from benchmarks.rows.console import cluster as console_cluster
from benchmarks.rows.console import logs as console_logs
from benchmarks.rows.console import search as console_search
from benchmarks.rows.security import acls, quotas, scram, tls
from benchmarks.rows.tiering import copying, replica, restore
from benchmarks.rows.tiering import latency as tier_latency

# Memory is last: it is measured after all other rows.
ALL_ROWS: tuple[Row, ...] = (
    *produce.ROWS,
    *requests.ROWS,
    *consume.ROWS,
    *cost.ROWS,
    *latency.ROWS,
    *acls.ROWS,
    *quotas.ROWS,
    *tls.ROWS,
    *scram.ROWS,
    *groups.ROWS,
    *share.ROWS,
    *jobs.ROWS,
    *consumer_groups.ROWS,
    *transactions.ROWS,
    *compaction.ROWS,
    *startup.ROWS,
    *ingest.ROWS,
    *registry.ROWS,
    *cold.ROWS,
    *growth.ROWS,
    *cluster.ROWS,
    *copying.ROWS,
    *tier_latency.ROWS,
    *replica.ROWS,
    *restore.ROWS,
    *mirror.ROWS,
    *tables.ROWS,
    *console_search.ROWS,
    *console_cluster.ROWS,
    *console_logs.ROWS,
    *spark.ROWS,
    *spark_growth.ROWS,
    *spark_write.ROWS,
    *spark_executors.ROWS,
    *memory.ROWS,
)


def select(names: list[str]) -> tuple[Row, ...]:
    """Rows whose name begins with one of `names`; all rows if `names` is empty."""
    if not names:
        return ALL_ROWS
    chosen = tuple(row for row in ALL_ROWS if row.name.startswith(tuple(names)))
    if not chosen:
        raise SystemExit(f"no such row; there are: {', '.join(row.name for row in ALL_ROWS)}")
    return chosen
