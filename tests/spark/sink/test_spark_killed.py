"""kill -9 of JVM, driver and workers during a batch; a new Spark continues from the checkpoint.

One Spark runs a query for each place, all of them come to their faults, and it is killed once.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from tests.spark.sink.spark_query import start_query
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java
from tests.support.programs import PROJECT_ROOT
from tests.support.topics import create_topic, open_transactions, read_committed
from tests.support.waiting import still_running, until

pytestmark = [requires_java, pytest.mark.timeout(600)]  # a second Spark, on a machine with much else to do

IN_TRANSACTIONS = {"handedOverBytes": "0"}
ROWS = {f"{batch}.txt": [f"{batch}{row}" for row in range(50)] for batch in "ab"}


@dataclass
class Case:
    """Where the query is when Spark is killed, how many transactions are open then, and how and where it writes."""

    place: str
    open: int
    options: dict[str, str] = field(default_factory=lambda: IN_TRANSACTIONS)
    on_kafka: bool = False


CASES = {
    "before the decision": Case("before the decision", open=2),
    "between the decision and the first EndTxn": Case("after the decision", open=2),
    "between two EndTxn": Case("between two EndTxn", open=1),
    "after the commit and before Spark's": Case("after done", open=0),
    "after rows that tasks handed over and before Spark's commit": Case("after done", open=0, options={}),
    "between two EndTxn on Apache Kafka": Case("between two EndTxn", open=1, on_kafka=True),
}


class KilledQuery:
    def __init__(self, case: Case, bootstrap: str, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.flag = folder / "flag"
        self._bootstrap, self._topic = bootstrap, f"killed-{folder.name}"
        self.options = {"kafka.bootstrap.servers": bootstrap, "topic": self._topic, "sinkId": self._topic}
        self.options.update(case.options)
        create_topic(bootstrap, self._topic, partitions=2)
        (folder / "in").mkdir()
        for name, rows in ROWS.items():
            (folder / "in" / name).write_text("".join(f"{row}\n" for row in rows))
        self.flag.touch()

    @property
    def arguments(self) -> tuple[str, dict[str, str], str]:
        return str(self.folder), self.options, f"{self.case.place}:pause:{self.flag}"

    @property
    def batches_of_spark(self) -> list[str]:
        """Spark's commit log."""
        commits = self.folder / "checkpoint" / "commits"
        return sorted(file.name for file in commits.glob("[0-9]*"))

    @property
    def open_transactions(self) -> list[str]:
        return open_transactions(self._bootstrap, self._topic)

    @property
    def rows(self) -> Counter[str]:
        return Counter(message.value().decode() for message in read_committed(self._bootstrap, self._topic))


@pytest.fixture(scope="module")
def killed(
    broker: EmbeddedBroker, kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, KilledQuery]:
    queries = {}
    for name, case in CASES.items():
        cluster = kafka if case.on_kafka else broker
        queries[name] = KilledQuery(case, cluster.bootstrap_servers, tmp_path_factory.mktemp("query"))
    errors = tmp_path_factory.mktemp("spark") / "stderr"
    with errors.open("wb") as stderr, start_spark(list(queries.values()), stderr.fileno()) as process:
        try:
            wait_for_faults(process, list(queries.values()), errors)
        finally:
            kill_session(process.pid)
    return queries


def start_spark(queries: list[KilledQuery], stderr: int) -> subprocess.Popen[bytes]:
    serialized = json.dumps([query.arguments for query in queries])
    command = [sys.executable, "-m", "tests.spark.sink.spark_query", serialized]
    paths = f"{PROJECT_ROOT}{os.pathsep}{PROJECT_ROOT / 'src'}"
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen(command, env=environment, start_new_session=True, stderr=stderr)


def wait_for_faults(process: subprocess.Popen[bytes], queries: list[KilledQuery], errors: Path) -> None:
    def tail() -> str:
        return errors.read_text()[-4000:]

    def are_reached() -> bool:
        return not any(query.flag.exists() for query in queries)

    until(are_reached, tail, 300, meanwhile=still_running(process, tail))


def kill_session(leader: int) -> None:
    """All at once. Spark's Python workers are a process group of their own, but of the same session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(stat.read_text().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile


@pytest.mark.parametrize("name", CASES)
def test_new_spark_session_continues_where_a_killed_one_stopped(
    spark: SparkSession, killed: dict[str, KilledQuery], name: str
) -> None:
    query = killed[name]
    assert query.batches_of_spark == []
    assert len(query.open_transactions) == query.case.open
    start_query(spark, query.folder, query.options).awaitTermination()
    assert query.batches_of_spark == ["0", "1"]
    assert query.rows == Counter(row for rows in ROWS.values() for row in rows)
