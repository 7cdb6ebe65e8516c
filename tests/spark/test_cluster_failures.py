"""Executors that die, hang, return or are slow: sink and tables have each record once (`make spark-clusters`).

Run by `make spark-clusters`.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import deltalake
import pyarrow.parquet
import pytest

from barnabas.testing import EmbeddedBroker
from tests.spark.cluster_query import HOLD, SECONDS, TARGETS, parent_of
from tests.support.programs import PROJECT_ROOT, descendants
from tests.support.spark.jars import requires_connect_jars, requires_iceberg
from tests.support.spark.reading import produce
from tests.support.spark.standalone import StandaloneCluster
from tests.support.topics import open_transactions, read_committed
from tests.support.waiting import still_running, until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1500), requires_iceberg, requires_connect_jars]

SIZE = 60_000  # of a value: tasks send some batches before they are held
ROWS = 40
ZOMBIE_SECONDS = 3.0
QUICK_LOSS = {
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
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
    """A query one of whose tasks waits, with rows already written."""

    def __init__(self, program: Program, target: str) -> None:
        self._program = program
        self._target = target
        self._folder = program.folder / target

    def run(self, while_held: Callable[[int], None]) -> None:
        self._await("held")
        while_held(int((self._folder / "held").read_text()))
        self._await("finished")

    def release(self) -> None:
        (self._folder / "hold").unlink()

    def await_end(self) -> None:
        self._await("finished")

    def run_again(self) -> None:
        """A later batch of the same query ends abandoned attempts."""
        self._program.send([b"later"])
        (self._folder / "again").touch()
        self._await("ended")

    def written(self) -> Counter[bytes]:
        table = self._folder / "table"
        if self._target == "topic":
            found = read_committed(self._program.bootstrap, self._program.target)
            return Counter(message.value() for message in found)
        if self._target == "iceberg":
            return Counter(map(base64.b64decode, json.loads((self._folder / "values").read_text())))
        if self._target == "delta":
            return Counter(deltalake.DeltaTable(str(table)).to_pyarrow_table()["value"].to_pylist())
        files = [pyarrow.parquet.ParquetFile(path) for path in table.glob("*.parquet")]  # as any reader
        return Counter(value for file in files for value in file.read(["value"])["value"].to_pylist())

    def _await(self, name: str) -> None:
        self._program.await_file(self._folder / name)


class Program:
    """A process on the cluster with one query after the other, and the topic that they read."""

    def __init__(
        self, cluster: StandaloneCluster, broker: EmbeddedBroker, folder: Path, settings: dict[str, str]
    ) -> None:
        self.folder = folder
        self.bootstrap = broker.bootstrap_servers
        self.source, self.target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        self.values: list[bytes] = []
        for partition in (0, 1):
            values = [b"%d-%d " % (partition, row) + b"x" * SIZE for row in range(ROWS)]
            self.send([*values, HOLD] if partition == 0 else values, partition)
        for target in TARGETS:
            (folder / target).mkdir()
            (folder / target / "hold").touch()
        self._process = self._started(cluster.url, settings)

    def send(self, values: list[bytes], partition: int = 0) -> None:
        produce(self.bootstrap, self.source, values, partition=partition)
        self.values += values

    def await_file(self, path: Path) -> None:
        until(path.exists, self._log, SECONDS, meanwhile=still_running(self._process, self._log))

    def assert_ended(self) -> None:
        assert self._process.wait(SECONDS) == 0, self._log()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def _started(self, master: str, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        given = {
            "folder": str(self.folder),
            "settings": settings,
            "master": master,
            "bootstrap": self.bootstrap,
            "source": self.source,
            "target": self.target,
        }
        command = [sys.executable, "-m", "tests.spark.cluster_query", json.dumps(given)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["PYTHONPATH"] = str(PROJECT_ROOT)
        environment.pop("SPARK_HOME", None)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=PROJECT_ROOT)


Check = Callable[[dict[str, str], Callable[[HeldQuery, int], None]], None]


@pytest.fixture
def check(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[Check]:
    """Run the queries with settings and a failure while a task is held: each target has each row once."""
    programs: list[Program] = []

    def run(settings: dict[str, str], failure: Callable[[HeldQuery, int], None]) -> None:
        program = Program(cluster, broker, tmp_path, settings)
        programs.append(program)
        for target in TARGETS:
            held = HeldQuery(program, target)
            held.run(partial(failure, held))
            held.run_again()
            assert held.written() == Counter(program.values), target
            assert open_transactions(program.bootstrap, program.target) == [], target
        program.assert_ended()

    with EmbeddedBroker() as broker:
        yield run
        for program in programs:
            program.end()


def test_an_executor_killed_in_mid_task_leaves_no_row_missing_or_repeated(check: Check) -> None:
    def kill(held: HeldQuery, executor: int) -> None:
        os.kill(executor, signal.SIGKILL)
        held.release()

    check({}, kill)


def test_a_worker_that_hangs_and_returns_after_the_batch_writes_nothing_visible(check: Check) -> None:
    def suspend(held: HeldQuery, executor: int) -> None:
        worker, zombies = parent_of(executor), [executor, *descendants(executor)]
        for process in (worker, *zombies):  # the worker cannot end its executor
            os.kill(process, signal.SIGSTOP)
        try:
            held.await_end()  # without them
            held.release()
        finally:
            for process in zombies:
                _resume(process)
            time.sleep(ZOMBIE_SECONDS)
            _resume(worker)

    check(QUICK_LOSS, suspend)


def test_a_speculative_attempt_and_the_slow_one_write_each_row_once(check: Check) -> None:
    def wait(held: HeldQuery, executor: int) -> None:
        held.await_end()  # thanks to the second attempt
        held.release()

    check(SPECULATION, wait)


def test_dynamic_allocation_that_removes_idle_executors_loses_nothing(check: Check) -> None:
    check(DYNAMIC, lambda held, executor: held.release())


def _resume(process: int) -> None:
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return
