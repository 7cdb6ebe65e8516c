"""Transactions across kill -9 of the broker and its clients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.clients.conftest import consume
from tests.clients.test_transactions_confluent import end_offsets, transactional
from tests.support.brokers import BrokerProcess
from tests.support.waiting import until

WORKER = Path(__file__).parent / "exactly_once_worker.py"
TIMEOUT = 60.0
COUNT = 900


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = (
        "auto.create.topics.enable=true",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
        "offsets.topic.num.partitions=3",
        "transaction.state.log.num.partitions=3",
    )
    broker = BrokerProcess(tmp_path / "data", *settings).start()
    yield broker
    broker.kill()


def fill(bootstrap: str, topic: str, count: int, first: int = 0) -> list[bytes]:
    """Send numbers from `first` on, each of them once, also while a broker dies."""
    values = [b"%d" % number for number in range(first, first + count)]
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT) == 0
    return values


def start_worker(library: str, bootstrap: str, count: int = COUNT) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(WORKER), library, bootstrap, "input", "output", str(count)])


def committed_offset(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"workers-{topic}", "log_level": 0})
    try:
        return max(consumer.committed([TopicPartition(topic, 0)], 2.0)[0].offset, 0)
    except KafkaException:
        return 0
    finally:
        consumer.close()


def wait_for_progress(bootstrap: str, reached: int) -> None:
    """Of the worker. It may be slow on a busy machine: the deadline is for its next commit, not for all of them."""
    done = -1
    while done < reached:
        before = done
        until(lambda: committed_offset(bootstrap, "input") > before, "the worker's next commit", TIMEOUT)  # noqa: B023 - called at once
        done = committed_offset(bootstrap, "input")


def wait_for_end(worker: subprocess.Popen[bytes], bootstrap: str, count: int = COUNT) -> int:
    """The exit code of a worker that has done everything."""
    wait_for_progress(bootstrap, count)
    return worker.wait(TIMEOUT)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("library", ["confluent", pytest.param("aiokafka", marks=pytest.mark.extended)])
def test_each_input_is_processed_exactly_once_with_any_process_killed(
    process: BrokerProcess, library: str
) -> None:
    bootstrap = process.bootstrap_servers
    values = fill(bootstrap, "input", COUNT)
    worker = start_worker(library, bootstrap)
    try:
        for number, kill_broker in enumerate((True, False, True, False)):
            wait_for_progress(bootstrap, 1 + number * COUNT // 5)
            if kill_broker:
                process.kill()
                process.start()
            else:
                worker.kill()
                worker.wait()
                worker = start_worker(library, bootstrap)
        assert wait_for_end(worker, bootstrap) == 0
    finally:
        worker.kill()
        worker.wait()
    found = consume(bootstrap, "output", COUNT, isolation_level="read_committed")
    assert [message.value() for message in found] == values
    everything = end_offsets(bootstrap, "output", "read_uncommitted")
    assert end_offsets(bootstrap, "output", "read_committed") == everything  # nothing hangs


def test_an_open_transaction_survives_a_crash_and_can_be_committed(process: BrokerProcess) -> None:
    producer = transactional(process.bootstrap_servers, "steady")
    producer.begin_transaction()
    producer.produce("survivors", b"before", partition=0)
    assert producer.flush(TIMEOUT) == 0
    process.kill()
    process.start()
    assert end_offsets(process.bootstrap_servers, "survivors", "read_committed") == (0, 0)
    producer.produce("survivors", b"after", partition=0)
    producer.commit_transaction(TIMEOUT)
    found = consume(process.bootstrap_servers, "survivors", 2, isolation_level="read_committed")
    assert [message.value() for message in found] == [b"before", b"after"]


def test_an_open_transaction_of_a_dead_client_is_aborted_after_a_crash(process: BrokerProcess) -> None:
    producer = transactional(process.bootstrap_servers, "dead", transaction_timeout_ms=1000)
    producer.begin_transaction()
    producer.produce("leftovers", b"never committed", partition=0)
    assert producer.flush(TIMEOUT) == 0
    process.kill()
    process.start()
    until(
        lambda: end_offsets(process.bootstrap_servers, "leftovers", "read_committed") == (0, 2), "the abort"
    )


def test_a_zombie_stays_fenced_over_a_clean_restart(process: BrokerProcess) -> None:
    zombie = transactional(process.bootstrap_servers, "fenced")
    transactional(process.bootstrap_servers, "fenced")
    process.stop()
    process.start()
    zombie.begin_transaction()
    zombie.produce("fenced", b"too late", partition=0)
    with pytest.raises(KafkaException):
        zombie.commit_transaction(TIMEOUT)
