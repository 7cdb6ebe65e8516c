"""A chain of stateful flows with storage on HDFS and on S3A, whose driver is killed (`make hdfs`).

Streaming tables with `--continuous`: deduplication within the watermark, a join of streams, `transformWithState`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.testing import EmbeddedBroker
from tests.pipelines.lake.hdfs import Hdfs
from tests.pipelines.lake.test_object_store import s3_server
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.jars import requires_hdfs, requires_s3a, s3a_jars
from tests.support.tiering.stores import BUCKET, SECRET
from tests.support.waiting import still_running, until

SECONDS = 400.0  # on a busy machine
START = 1_800_000_000
TIMES = 20  # in a part; each twice
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import Row, SparkSession, functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

spark = SparkSession.active()

@dp.table
def first():
    stream = spark.readStream.format("barnabas").option("subscribe", "events").option("startingOffsets", "earliest")
    stream = stream.option("kafka.bootstrap.servers", spark.conf.get("barnabas.bootstrap.servers"))
    stream = stream.option("value.format", "json").option("maxOffsetsPerTrigger", "25")
    return stream.schema("at BIGINT, machine STRING").load().withColumn("time", F.timestamp_seconds("at"))

@dp.table
def second():
    return spark.readStream.table("first").withWatermark("time", "1 hour").dropDuplicatesWithinWatermark(["at"])

@dp.table
def joined():
    one = spark.readStream.table("second").withWatermark("time", "1 hour").select("at", "time")
    other = spark.readStream.table("first").withWatermark("time", "1 hour")
    other = other.select(F.col("at").alias("other_at"), F.col("time").alias("other_time"), "machine")
    return one.join(other, F.expr("at = other_at AND other_time BETWEEN time AND time + INTERVAL 1 MINUTE"))

class Numbered(StatefulProcessor):
    def init(self, handle):
        self.state = handle.getValueState("count", "number LONG")

    def handleInputRows(self, key, rows, timers):
        count = self.state.get()[0] if self.state.exists() else 0
        for row in rows:
            count += 1
            yield Row(machine=key[0], at=row["at"], number=count)
        self.state.update((count,))

    def close(self):
        pass

@dp.table
def numbered():
    rows = spark.readStream.table("first").groupBy("machine")
    return rows.transformWithState(Numbered(), "machine STRING, at LONG, number LONG", "Append", "None")
"""


@pytest.fixture
def hdfs_storage(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with Hdfs(tmp_path / "hdfs") as hdfs:
        yield f"{hdfs.url}/numbers", hdfs.client_settings()


@pytest.fixture
def s3a_storage() -> Iterator[tuple[str, dict[str, str]]]:
    with s3_server() as options:
        settings = {
            "endpoint": options["endpoint"],
            "endpoint.region": "us-east-1",
            "access.key": options["access_key_id"],
            "secret.key": SECRET,
            "path.style.access": "true",
        }
        yield f"s3a://{BUCKET}/numbers", {f"fs.s3a.{name}": value for name, value in settings.items()}


@pytest.mark.timeout(1500)
@pytest.mark.extended
@pytest.mark.parametrize(
    "kind", [pytest.param("hdfs", marks=requires_hdfs), pytest.param("s3a", marks=requires_s3a)]
)
def test_a_chain_of_stateful_flows_is_exact_after_kills_of_the_driver(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    storage, settings = request.getfixturevalue(f"{kind}_storage")
    for name, value in settings.items():
        spark._jsc.hadoopConfiguration().set(name, value)
    with EmbeddedBroker() as broker:
        broker.create_topic("events", partitions=2)
        chain = Chain(spark, tmp_path / "numbers", storage, settings, broker.bootstrap_servers)
        chain.send(0)
        chain.kill_when(lambda: chain.has_files("joined"))
        chain.send(1)
        chain.kill_when(lambda: chain.is_in_batch("numbered"))
        chain.send(2)
        chain.kill_when(lambda: chain.is_in_batch("joined"))
        chain.run_to_the_end()
        count = 3 * TIMES
        for name, rows in {"first": 2 * count, "second": count, "joined": 2 * count}.items():
            table = chain.table(name)
            assert (table.count(), table.select("at").distinct().count()) == (rows, count), name
        for machine in ("m0", "m1"):
            found = chain.table("numbered").where(f"machine = '{machine}'").collect()
            assert sorted(row.number for row in found) == list(range(1, count + 1))
            assert len({row["at"] for row in found}) == count


class Chain:
    def __init__(
        self, spark: SparkSession, folder: Path, storage: str, settings: Mapping[str, str], bootstrap: str
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._bootstrap = bootstrap
        self._state = HadoopFolder(spark, f"{storage}/barnabas")
        configuration = {f"spark.hadoop.{name}": value for name, value in settings.items()}
        configuration |= {"barnabas.bootstrap.servers": bootstrap, "spark.driver.memory": "800m"}
        configuration |= {"spark.jars": ",".join(map(str, s3a_jars())), "spark.sql.shuffle.partitions": "2"}
        spec = {"name": "numbers", "storage": storage, "configuration": configuration}
        libraries = [{"glob": {"include": "transformations/**"}}]
        (folder / "transformations").mkdir(parents=True)
        (folder / "transformations" / "flows.py").write_text(FLOWS)
        (folder / "spark-pipeline.yml").write_text(json.dumps({**spec, "libraries": libraries}))
        (folder / "barnabas.yml").write_text("trigger: 500 milliseconds\n")

    def send(self, part: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in range(2 * TIMES):
            row = {"at": START + 100 * part + number // 2, "machine": f"m{number % 2}"}
            producer.produce("events", json.dumps(row), partition=number // 2 % 2)
        assert producer.flush(60) == 0

    def kill_when(self, condition: Callable[[], bool]) -> None:
        """Run it continuously until the condition holds, then kill the driver, its JVM and its workers."""
        log = self._folder / "log"
        with log.open("wb") as said:
            running = subprocess.Popen(
                self._command("--continuous"),
                cwd=PROJECT_ROOT, start_new_session=True, stdout=said, stderr=said,
            )  # fmt: skip
        alive = still_running(running, lambda: log.read_text(errors="replace")[-4000:])
        try:
            until(condition, lambda: log.read_text()[-4000:], SECONDS, meanwhile=alive)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()

    def run_to_the_end(self) -> None:
        done = subprocess.run(
            self._command(), cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]

    def has_files(self, table: str) -> bool:
        return any(name.endswith(".parquet") for name in self._state.below(f"tables/{table}").names())

    def is_in_batch(self, flow: str) -> bool:
        """True if the last batch of the flow is planned and not committed."""
        checkpoint = self._state.below(f"checkpoints/{flow}")
        planned, committed = (set(checkpoint.below(name).names()) for name in ("offsets", "commits"))
        return bool(planned - committed)

    def table(self, name: str) -> DataFrame:
        return self._spark.read.parquet(self._state.path_of(f"tables/{name}"))

    def _command(self, *options: str) -> list[str]:
        run = [sys.executable, "-m", "barnabas", "pipeline", "run", str(self._folder)]
        return [*run, "--master", "local[2]", *options]
