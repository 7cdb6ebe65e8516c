"""kill -9 of driver, task and broker at every step of a batch: each row is written once, and no reader hangs.

The protocol is tried at every step, and with several drivers at once, in `test_protocol.py`; the sink inside Spark in
`test_writing.py`. Here the processes, the brokers and the kills are real, and the reader is confluent-kafka's.
"""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.spark.sink.sabotage import wake_up_file
from tests.spark.sink.small_spark import BATCHES, rows_of, sink_of
from tests.support.brokers import BrokerProcess
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java
from tests.support.topics import create_topic, open_transactions, read_committed
from tests.support.waiting import still_running, until

TASKS = 2
SECONDS = 100.0

# While a batch is planned, while its tasks write, while it is committed.
PLACES = [
    "after ClaimSink",
    "after the run",
    "before the decision",
    "after the decision",
    "between two EndTxn",
    "after CommitParts",
    "after done",
]
# The driver writes the first batch itself in one transaction; in the second one it replaces a task.
HANDED_OVER_PLACES = ["before done", "after done", "after StoreBatch"]


class Query:
    def __init__(self, bootstrap: str, topic: str, folder: Path, inline: bool = False) -> None:
        self.bootstrap, self.topic, self._inline = bootstrap, topic, inline
        self.checkpoint = folder / "checkpoint"
        self.checkpoint.mkdir()
        self.flag = folder / "flag"

    def start(self, fault: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.spark.sink.small_spark", self.bootstrap, self.topic]
        command += [str(self.checkpoint), str(TASKS), "inline" if self._inline else "transactions"]
        if fault:
            self.flag.touch()
            command.append(f"{fault}:{self.flag}")
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    def run(self, fault: str = "") -> tuple[int, str]:
        with self.start(fault) as process:
            _, errors = process.communicate(timeout=SECONDS)
        return process.returncode, errors.decode()

    def wait_for_fault(self, process: subprocess.Popen[bytes]) -> None:
        until(
            lambda: not self.flag.exists(),
            "the fault was not reached",
            SECONDS,
            meanwhile=still_running(process, process.communicate),
        )

    def finish(self) -> None:
        code, errors = self.run()
        assert code == 0, errors

    def wait_until_timed_out(self) -> None:
        """Until the broker has aborted transactions of the dead driver."""
        until(lambda: not open_transactions(self.bootstrap, sink_of(self.topic)), seconds=SECONDS)

    def check(self) -> None:
        found = Counter(message.value().decode() for message in read_committed(self.bootstrap, self.topic))
        expected = [row for batch in range(BATCHES) for task in range(TASKS) for row in rows_of(batch, task)]
        assert found == Counter(expected)


@pytest.fixture(scope="module")
def own_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def query(own_broker: EmbeddedBroker, tmp_path: Path) -> Query:
    return Query(own_broker.bootstrap_servers, own_broker.create_topic(partitions=2), tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_the_driver_may_be_killed(query: Query, place: str) -> None:
    code, errors = query.run(f"{place}:kill")
    assert code == -signal.SIGKILL, errors
    query.finish()
    query.check()


@pytest.mark.parametrize("place", HANDED_OVER_PLACES)
def test_the_driver_may_be_killed_while_it_writes_rows_for_its_tasks(
    own_broker: EmbeddedBroker, tmp_path: Path, place: str
) -> None:
    topic = own_broker.create_topic(partitions=2)
    query = Query(own_broker.bootstrap_servers, topic, tmp_path, inline=True)
    code, errors = query.run(f"{place}:kill")
    assert code == -signal.SIGKILL, errors
    query.finish()
    query.check()


@pytest.mark.parametrize("place", ["before the task's rows", "after the task's rows"])
def test_a_task_may_be_killed(query: Query, place: str) -> None:
    code, errors = query.run(f"{place}:kill")
    assert code == 1, errors
    query.finish()
    query.check()


def test_a_driver_that_sleeps_through_its_replacement_writes_nothing_twice(query: Query) -> None:
    zombie = query.start("before the decision:pause")
    query.wait_for_fault(zombie)
    query.finish()
    wake_up_file(query.flag).touch()
    _, errors = zombie.communicate(timeout=SECONDS)
    assert zombie.returncode == 1
    assert b"has taken over the sink" in errors
    query.check()


@pytest.fixture(scope="module")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.mark.parametrize("place", ["after the task's rows", "after the decision", "between two EndTxn"])
def test_the_broker_may_be_killed_and_come_back(
    mortal_broker: BrokerProcess, tmp_path: Path, place: str
) -> None:
    topic = f"orders-{tmp_path.name}"
    create_topic(mortal_broker.bootstrap_servers, topic, partitions=2)
    query = Query(mortal_broker.bootstrap_servers, topic, tmp_path)
    process = query.start(f"{place}:pause")
    query.wait_for_fault(process)
    mortal_broker.kill()
    wake_up_file(query.flag).touch()
    mortal_broker.start()
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors.decode()
    query.check()


# -- Apache Kafka, whose transactions time out ------------------------------------------------------------


@pytest.fixture
def kafka_query(kafka: ApacheKafka, tmp_path: Path) -> Query:
    topic = f"orders-{tmp_path.name}"
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    return Query(kafka.bootstrap_servers, topic, tmp_path)


@requires_java
@pytest.mark.parametrize("place", ["before the decision", "between two EndTxn"])
def test_on_apache_kafka_the_driver_may_be_killed(kafka_query: Query, place: str) -> None:
    code, errors = kafka_query.run(f"{place}:kill")
    assert code == -signal.SIGKILL, errors
    kafka_query.finish()
    kafka_query.check()


@requires_java
def test_on_apache_kafka_a_driver_that_was_away_for_too_long_writes_the_batch_again(
    kafka_query: Query,
) -> None:
    code, errors = kafka_query.run("after the decision:kill")
    assert code == -signal.SIGKILL, errors
    kafka_query.wait_until_timed_out()
    kafka_query.finish()
    kafka_query.check()


@requires_java
def test_on_apache_kafka_a_batch_of_which_a_part_was_committed_stops_the_query(kafka_query: Query) -> None:
    code, errors = kafka_query.run("between two EndTxn:kill")
    assert code == -signal.SIGKILL, errors
    kafka_query.wait_until_timed_out()
    for _ in range(2):
        code, errors = kafka_query.run()
        assert code == 1
        assert "batch 0 is only partly in the topics" in errors
