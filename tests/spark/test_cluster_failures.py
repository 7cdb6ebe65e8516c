"""Executors that die, hang and return, or are slow: sink and tables have each record once (`make spark-clusters`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from barnabas.testing import EmbeddedBroker
from tests.spark.cluster_query import HOLD, parent_of
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.reading import produce
from tests.support.spark.standalone import StandaloneCluster
from tests.support.topics import open_transactions, read_committed
from tests.support.waiting import still_running, until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

SECONDS = 400.0  # a cluster on a busy machine
SIZE = 60_000  # of a value: tasks send some batches before they are held
ROWS = 40
QUICK_LOSS = {
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "1s",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.minExecutors": "0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


class HeldQuery:
    """A query one of whose tasks waits, with rows already sent to the broker."""

    def __init__(self, cluster: StandaloneCluster, broker: EmbeddedBroker, folder: Path, kind: str) -> None:
        self._cluster, self._folder = cluster, folder
        self._lake = folder / "lake" if kind == "lake" else None
        self.bootstrap = broker.bootstrap_servers
        self.source, self.target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        self.values: list[bytes] = []
        self._query: subprocess.Popen[bytes] | None = None
        for partition in (0, 1):
            values = [b"%d-%d " % (partition, row) + b"x" * SIZE for row in range(ROWS)]
            self.send([*values, HOLD] if partition == 0 else values, partition)

    def send(self, values: list[bytes], partition: int = 0) -> None:
        produce(self.bootstrap, self.source, values, partition=partition)
        self.values += values

    def run(self, settings: dict[str, str], while_held: Callable[[int], None]) -> None:
        (self._folder / "hold").touch()
        self._query = self._started(settings)
        self._await("held")
        while_held(int((self._folder / "held").read_text()))
        self._await("finished")

    def release(self) -> None:
        (self._folder / "hold").unlink()

    def await_end(self) -> None:
        self._await("finished")

    def run_again(self) -> None:
        """A later batch of the same query ends what abandoned attempts left."""
        self.send([b"later"])
        (self._folder / "again").touch()
        assert self._query is not None
        assert self._query.wait(SECONDS) == 0, self.log()

    def end(self) -> None:
        if self._query is not None:
            self._query.kill()
            self._query.wait()

    def written(self) -> Counter[bytes]:
        if self._lake is not None:
            files = self._lake.glob("*.parquet")  # as any reader finds them
            tables = [pyarrow.parquet.ParquetFile(path).read(["value"]) for path in files]
            return Counter(value for table in tables for value in table["value"].to_pylist())
        return Counter(message.value() for message in read_committed(self.bootstrap, self.target))

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-4000:]

    def _await(self, name: str) -> None:
        assert self._query is not None
        alive = still_running(self._query, self.log)
        until((self._folder / name).exists, self.log, SECONDS, meanwhile=alive)

    def _started(self, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        given = {
            "folder": str(self._folder),
            "settings": settings,
            "master": self._cluster.url,
            "bootstrap": self.bootstrap,
            "source": self.source,
            "target": self.target,
            "lake": "" if self._lake is None else self._lake.as_uri(),
        }
        command = [sys.executable, "-m", "tests.spark.cluster_query", json.dumps(given)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["PYTHONPATH"] = str(PROJECT_ROOT)
        environment.pop("SPARK_HOME", None)
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=PROJECT_ROOT)


@pytest.fixture(params=["topic", "lake"])
def held(request: pytest.FixtureRequest, cluster: StandaloneCluster, tmp_path: Path) -> Iterator[HeldQuery]:
    with EmbeddedBroker() as broker:
        query = HeldQuery(cluster, broker, tmp_path, request.param)
        yield query
        query.end()


def test_an_executor_killed_in_mid_task_leaves_no_row_missing_or_repeated(held: HeldQuery) -> None:
    def kill(executor: int) -> None:
        os.kill(executor, signal.SIGKILL)
        held.release()

    held.run({}, kill)
    _assert_exact(held)


def test_an_executor_that_hangs_and_returns_after_the_batch_writes_nothing_visible(held: HeldQuery) -> None:
    stopped: list[int] = []

    def suspend(executor: int) -> None:
        stopped.extend(_with_descendants(executor))
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        held.await_end()  # without it
        held.release()

    try:
        held.run(QUICK_LOSS, suspend)
    finally:
        for process in stopped:
            _resume(process)
    _assert_exact(held)


def test_a_speculative_attempt_and_the_slow_one_write_each_row_once(held: HeldQuery) -> None:
    def wait(executor: int) -> None:
        held.await_end()  # thanks to the second attempt
        held.release()

    held.run(SPECULATION, wait)
    _assert_exact(held)


def test_dynamic_allocation_that_removes_idle_executors_loses_nothing(held: HeldQuery) -> None:
    held.run(DYNAMIC, lambda executor: held.release())
    _assert_exact(held)


def _assert_exact(held: HeldQuery) -> None:
    held.run_again()
    assert held.written() == Counter(held.values)
    assert open_transactions(held.bootstrap, held.target) == []


def _with_descendants(process: int) -> list[int]:
    others = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [process, *(other for other in others if _is_below(other, process))]


def _is_below(process: int, ancestor: int) -> bool:
    while process > 1:
        try:
            process = parent_of(process)
        except (FileNotFoundError, ProcessLookupError):
            return False
        if process == ancestor:
            return True
    return False


def _resume(process: int) -> None:
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return
