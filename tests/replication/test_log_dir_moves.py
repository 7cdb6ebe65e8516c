"""AlterReplicaLogDirs: cancelled, redirected and interrupted moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.broker.log_cleaner import SegmentSwap
from barnabas.broker.worker_process import WorkerProcess
from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition as Place
from barnabas.log.log import Log
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from barnabas.protocol.schema import Message
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until

TP = Place("orders", 0)
COUNT = 400


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    settings = {
        "log.dirs": ",".join(str(tmp_path / name) for name in "abc"),
        "replica.alter.log.dirs.io.max.bytes.per.second": "0",  # a move lasts until it is resumed
    }
    with EmbeddedBroker(settings) as running:
        running.create_topic("orders", partitions=1)
        write(running, range(COUNT))
        yield running


def write(broker: EmbeddedBroker, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number in numbers:
        producer.produce("orders", str(number).encode(), str(number % 7).encode(), partition=0)
    assert producer.flush(60) == 0


def read(broker: EmbeddedBroker) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    end = consumer.get_watermark_offsets(TopicPartition("orders", 0))[1]
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[int] = []
    last = -1
    while last + 1 < end:
        message = consumer.poll(60)
        assert message is not None
        found.append(int(message.value() or b""))
        last = message.offset() or 0
    consumer.close()
    return found


def ask(broker: EmbeddedBroker, message: Message) -> Any:
    async def send() -> Any:
        connection = await BrokerConnection.connect("127.0.0.1", broker.port)
        try:
            return await connection.send(message)
        finally:
            connection.close()

    return asyncio.run(send())


def move(broker: EmbeddedBroker, folder: Path, topic: str = "orders") -> int:
    wanted = AlterReplicaLogDir(str(folder), [AlterReplicaLogDirTopic(topic, [0])])
    answer = ask(broker, AlterReplicaLogDirsRequest(dirs=[wanted]))
    return int(answer.results[0].partitions[0].error_code)


def rows(broker: EmbeddedBroker) -> dict[str, tuple[bool, int]]:
    """Dir -> (is it a copy, its lag)."""
    return {
        Path(result.log_dir).name: (row.is_future_key, row.offset_lag)
        for result in ask(broker, DescribeLogDirsRequest(topics=None)).results
        for topic in result.topics
        if topic.name == "orders"
        for row in topic.partitions
    }


def log_of(broker: EmbeddedBroker) -> Log:
    log = broker.broker.logs.get(TP)
    assert log is not None
    return log


def home(broker: EmbeddedBroker) -> str:
    return Path(log_of(broker).folder).parent.name


def others(broker: EmbeddedBroker) -> list[str]:
    return [name for name in "abc" if name != home(broker)]


def let_go(broker: EmbeddedBroker) -> None:
    broker.broker.moves.throttle.rate = 1 << 40
    until(lambda: not list(broker.broker.logs.moves), "the move does not end")


def test_a_move_can_be_sent_elsewhere_and_called_off(broker: EmbeddedBroker, tmp_path: Path) -> None:
    here, (first, second) = home(broker), others(broker)
    assert move(broker, tmp_path / first) == ErrorCode.NONE
    write(broker, range(COUNT, 2 * COUNT))
    until(lambda: rows(broker).get(first, (False, 0))[0], "the copy is not shown")
    assert rows(broker)[first][1] > 0
    assert move(broker, tmp_path / second) == ErrorCode.NONE
    assert {name: copy for name, (copy, _) in rows(broker).items()} == {here: False, second: True}
    assert move(broker, tmp_path / here) == ErrorCode.NONE
    assert set(rows(broker)) == {here}
    assert move(broker, tmp_path / second) == ErrorCode.NONE
    let_go(broker)
    assert home(broker) == second
    assert read(broker) == list(range(2 * COUNT))


def test_move_continues_after_a_kill_and_after_a_clean_stop(broker: EmbeddedBroker, tmp_path: Path) -> None:
    target = others(broker)[0]
    assert move(broker, tmp_path / target) == ErrorCode.NONE
    broker.kill()
    broker.start()
    write(broker, range(COUNT, COUNT + 50))
    assert rows(broker)[target][0]
    broker.stop()
    broker.start()
    let_go(broker)
    assert home(broker) == target
    assert read(broker) == list(range(COUNT + 50))


def test_a_topic_that_is_deleted_does_not_arrive(broker: EmbeddedBroker, tmp_path: Path) -> None:
    target = others(broker)[0]
    assert move(broker, tmp_path / target) == ErrorCode.NONE
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(["orders"])["orders"].result(60)
    let_go(broker)
    assert all(path.name.endswith("-delete") for path in tmp_path.glob("*/orders*"))


def test_nothing_is_compacted_while_it_is_copied(broker: EmbeddedBroker, tmp_path: Path) -> None:
    log, target = log_of(broker), others(broker)[0]
    before_the_move = SegmentSwap(broker.broker.logs, broker.broker.clock, log, WorkerProcess())
    was_valid = before_the_move.is_valid
    assert was_valid
    assert move(broker, tmp_path / target) == ErrorCode.NONE
    assert not before_the_move.is_valid
    let_go(broker)
    assert not before_the_move.is_valid
    assert SegmentSwap(broker.broker.logs, broker.broker.clock, log, WorkerProcess()).is_valid


@pytest.mark.parametrize(
    ("folder", "topic", "code"),
    [
        ("nowhere", "orders", ErrorCode.LOG_DIR_NOT_FOUND),
        ("a", "unknown", ErrorCode.REPLICA_NOT_AVAILABLE),
    ],
)
def test_impossible_moves_are_rejected_with_kafkas_code(
    broker: EmbeddedBroker, tmp_path: Path, folder: str, topic: str, code: ErrorCode
) -> None:
    assert move(broker, tmp_path / folder, topic) == code


def test_partition_is_created_in_the_previously_requested_dir(broker: EmbeddedBroker, tmp_path: Path) -> None:
    assert move(broker, tmp_path / "c", "later") == ErrorCode.REPLICA_NOT_AVAILABLE
    broker.create_topic("later", partitions=1)
    until(lambda: (tmp_path / "c" / "later-0").exists(), "it is created elsewhere")
