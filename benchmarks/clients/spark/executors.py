"""Source and sink on executors of a standalone cluster, each limited to a share of a core.

Options are --bootstrap, --topic to read, --target to write, --records and --executors.

Both formats are measured in one session, in turn. Each query runs WARM_UPS times without the limit, for compilers and
workers, then ROUNDS times with it. CPU is that of the executors with their Python workers; driver and broker are not
limited and not counted. `rows` is what Spark needs to generate the rows of a write: the sink of the format `noop`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's convention

from barnabas.spark.session import session_builder
from benchmarks.clients.spark.cpu_quota import CpuQuota
from benchmarks.subjects.spark import OURS, THEIRS
from tests.support.spark.jars import connector_jars
from tests.support.spark.standalone import StandaloneCluster

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
ROUNDS = 3
WARM_UPS = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--target"):
        parser.add_argument(name, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--executors", type=int, required=True)
    parser.add_argument("--cores", type=float, default=0.2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = StandaloneCluster(Path(folder), options.executors, "1g", {"PYSPARK_PYTHON": sys.executable})
        with cluster, CpuQuota() as quota:
            spark = _session(cluster.url, options.executors)
            try:
                print(json.dumps(_measured(spark, quota, options)))
            finally:
                spark.stop()


def _session(master: str, executors: int) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # it has Barnabas, on the executors too
    settings = {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.driver.memory": "1g",
        "spark.executor.memory": "800m",
        "spark.executor.cores": "1",
        "spark.cores.max": str(executors),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.network.timeout": "600s",
        "spark.executor.heartbeatInterval": "60s",
    }
    spark = session_builder("executors", master=master, settings=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _measured(
    spark: SparkSession, quota: CpuQuota, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    queries: dict[str, Callable[[], None]] = {
        "rows": lambda: _rows(spark, options).write.format("noop").mode("overwrite").save()
    }
    for source in (THEIRS, OURS):
        queries[f"{source}_read"] = partial(_read, spark, options, source)
        queries[f"{source}_write"] = partial(_write, spark, options, source)
    for _ in range(WARM_UPS):
        for query in queries.values():
            query()
    quota.limit(EXECUTOR, f":{spark.sparkContext.getConf().get('spark.driver.port')}", options.cores)
    cost: dict[str, list[float]] = {name: [] for name in queries}
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(ROUNDS):
        for name, query in queries.items():
            before, began = quota.cpu_seconds(), time.perf_counter()
            query()
            seconds[name].append(time.perf_counter() - began)
            cost[name].append(quota.cpu_seconds() - before)
    medians = {name: statistics.median(each) for name, each in cost.items()}
    count = options.records
    return {
        source: {
            "read_cpu": count / medians[f"{source}_read"],
            "read_rate": count / statistics.median(seconds[f"{source}_read"]),
            "write_cpu": count / medians[f"{source}_write"],
            "write_rate": count / statistics.median(seconds[f"{source}_write"]),
            "sink_cpu": count / max(medians[f"{source}_write"] - medians["rows"], 1e-9),
        }
        for source in (THEIRS, OURS)
    }


def _read(spark: SparkSession, options: argparse.Namespace, source: str) -> None:
    arguments = {"kafka.bootstrap.servers": options.bootstrap, "subscribe": options.topic}
    frame = spark.read.format(source).options(**arguments).load()
    found = frame.agg(F.count("*"), F.sum(F.length("value"))).first()
    assert found is not None
    assert found[0] == options.records, found


def _write(spark: SparkSession, options: argparse.Namespace, source: str) -> None:
    arguments = {"kafka.bootstrap.servers": options.bootstrap, "topic": options.target}
    _rows(spark, options).write.format(source).options(**arguments).mode("append").save()


def _rows(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    numbers = spark.range(0, options.records, 1, options.executors)
    return numbers.selectExpr("cast(id as string) key", "rpad(cast(id as string), 100, 'x') value")


if __name__ == "__main__":
    main()
