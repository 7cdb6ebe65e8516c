"""A chain of streaming tables in continuous mode, with stream joins and deduplication, killed during processing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.running.measures import MakeRunner, add_file, rows
from tests.support.programs import PROJECT_ROOT
from tests.support.waiting import still_running, until

TIMEOUT = 180
CHAIN = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.active()

@dp.table
def first():
    stream = spark.readStream.schema("at BIGINT, machine STRING, heat DOUBLE").json(spark.conf.get("measures.path"))
    return stream.withColumn("time", F.timestamp_seconds("at"))

@dp.table
def second():
    return spark.readStream.table("first").withWatermark("time", "1 hour").dropDuplicatesWithinWatermark(["at"])

@dp.table
def joined():
    one = spark.readStream.table("second").withWatermark("time", "1 hour").select("at", "time")
    other = spark.readStream.table("first").withWatermark("time", "1 hour")
    other = other.select(F.col("at").alias("other_at"), F.col("time").alias("other_time"), "machine")
    return one.join(other, F.expr("at = other_at AND other_time BETWEEN time AND time + INTERVAL 1 MINUTE"))
"""


@pytest.mark.timeout(2 * TIMEOUT)
def test_a_chain_of_tables_is_exact_after_kill_9(make: MakeRunner, tmp_path: Path) -> None:
    """Each time is there twice: once in `second`, and twice in `joined`."""
    tables = tmp_path / "storage/barnabas/tables"
    send(tmp_path, "1.json", 0)
    make(python=CHAIN, sql="")
    log = tmp_path / "log"
    run = json.dumps([str(tmp_path), {}])
    command = [sys.executable, "-m", "tests.pipelines.library.run_forever", "127.0.0.1:1", run]
    with log.open("wb") as output:
        running = subprocess.Popen(
            command, cwd=PROJECT_ROOT, start_new_session=True, stdout=output, stderr=output
        )
    alive = still_running(running, lambda: log.read_text()[-4000:])
    try:
        until(lambda: any(tables.glob("joined/*.parquet")), "no joined rows", TIMEOUT, meanwhile=alive)
        before = len(list(tables.glob("first/*.parquet")))
        send(tmp_path, "2.json", 100)
        until(lambda: len(list(tables.glob("first/*.parquet"))) > before, "no rows", TIMEOUT, meanwhile=alive)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    send(tmp_path, "3.json", 200)
    last = make(python=CHAIN, sql="")
    last.run_once()
    for name, count in {"first": 120, "second": 60, "joined": 120}.items():
        last.session.catalog.refreshTable(name)
        table = last.session.table(name)
        assert (table.count(), table.select("at").distinct().count()) == (count, 60), name


def send(folder: Path, name: str, start: int) -> None:
    """Not at the epoch: Spark's first watermark, which would drop it as late."""
    first = 1_800_000_000 + start
    add_file(folder, name, rows(*((first + n // 2, f"m{n % 2}", float(n)) for n in range(40))))
