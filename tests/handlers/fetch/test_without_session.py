"""A fetch without a session gets the same response as one within a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.common.types import ZERO_UUID
from barnabas.handlers.fetch import attempt
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection, frame_of
from tests.support.waiting import until

NOW = 1_700_000_000_000
VERSIONS = (4, 6, 11, 12, 13, 17)
COUNTED = re.compile("fetch.*requests_total|bytesout_total|seconds_count.*Fetch")

FetchItem = list[FetchPartition]


def at(partition: int, offset: int, size: int = 1 << 20, epoch: int = -1) -> FetchPartition:
    return FetchPartition(partition, epoch, offset, partition_max_bytes=size)


# Partition 0 has ten batches of one record, partition 1 has one of 300 records, partition 2 is empty.
CASES: dict[str, tuple[FetchItem, dict[str, Any]]] = {
    "one partition": ([at(0, 0)], {}),
    "from the middle": ([at(0, 7)], {}),
    "within a batch": ([at(1, 20)], {}),
    "at the end": ([at(0, 10)], {}),
    "of an empty partition": ([at(2, 0)], {}),
    "beyond the end": ([at(0, 11)], {}),
    "before the start": ([at(0, -1)], {}),
    "several partitions": ([at(2, 0), at(0, 3), at(1, 0)], {}),
    "one of them out of range": ([at(0, 3), at(1, 5_000), at(2, 0)], {"max_wait_ms": 20_000}),
    "one of them unknown": ([at(0, 3), at(9, 0)], {"max_wait_ms": 20_000}),
    "named twice": ([at(0, 3), at(1, 0), at(0, 5)], {}),
    "less room than a batch": ([at(1, 0, 100)], {}),
    "no room in the request": ([at(1, 0), at(0, 0)], {"max_bytes": 100}),
    "no room for the second, which decides": (
        [at(0, 9), at(1, 0), at(2, 0)],
        {"max_bytes": 200, "min_bytes": 199, "max_wait_ms": 20_000},
    ),
    "an epoch that is over": ([at(0, 0, epoch=-5)], {}),
    "an epoch that is to come": ([at(0, 0, epoch=99)], {}),
    "committed only": ([at(0, 0), at(1, 0)], {"isolation_level": 1}),
    "more than there is, for a moment": ([at(0, 0)], {"min_bytes": 1 << 19, "max_wait_ms": 30}),
    "nothing, for a moment": ([at(2, 0), at(0, 10)], {"min_bytes": 1, "max_wait_ms": 30}),
    "no partition": ([], {}),
    "the end of a session that is not": ([at(0, 0)], {"session_id": 5}),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker, RawConnection(broker.port) as connection:
        broker.create_topic("read", partitions=3)
        small = bytes(build_batch([Record(0, NOW, None, bytes(60))]))
        large = bytes(build_batch([Record(delta, NOW, None, bytes(20)) for delta in range(300)]))
        for partition, batch in [(0, small)] * 10 + [(1, large)]:
            topic = TopicProduceData("read", ZERO_UUID, [PartitionProduceData(partition, batch)])
            connection.ask(ProduceRequest(None, 1, 5_000, [topic]), 8)
        yield broker


def outcome(broker: EmbeddedBroker, name: str, version: int) -> tuple[bytes, dict[str, float]]:
    """Response and counters."""
    wanted, options = CASES[name]
    if version < 7:
        options = {key: value for key, value in options.items() if key != "session_id"}
    before = counted(broker)
    with RawConnection(broker.port) as connection:
        answer = connection.ask(FetchRequest(topics=[topic_of(broker, wanted, version)], **options), version)
    assert isinstance(answer, FetchResponse)
    return encode(answer, version), {
        key: value - before.get(key, 0) for key, value in counted(broker).items()
    }


def topic_of(broker: EmbeddedBroker, wanted: FetchItem, version: int) -> FetchTopic:
    if version < 13:
        return FetchTopic("read", ZERO_UUID, wanted)
    return FetchTopic("", broker.broker.image.topics["read"].topic_id, wanted)


def counted(broker: EmbeddedBroker) -> dict[str, float]:
    return {name: value for name, value in broker.broker.metrics.snapshot().items() if COUNTED.search(name)}


@pytest.mark.parametrize("name", CASES)
def test_the_answer_and_the_metrics_are_those_of_a_session(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [outcome(broker, name, version) for version in VERSIONS]
    monkeypatch.setattr(attempt, "attempt_without_session", lambda *_: None)
    assert short == [outcome(broker, name, version) for version in VERSIONS]


def test_a_fetch_without_a_session_opens_none_and_is_read_from_its_request(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a session was opened")

    sessions: Any = broker.broker.fetch_sessions
    monkeypatch.setattr(sessions, "open", refuse)
    for version in VERSIONS:
        answer, _ = outcome(broker, "several partitions", version)
        assert len(answer) > 300


# -- fetches that wait ---------------------------------------------------------------------------------------

Event = Callable[[EmbeddedBroker, str], None]


def produced(partition: int, records: int = 1) -> Event:
    def event(broker: EmbeddedBroker, topic: str) -> None:
        batch = bytes(build_batch([Record(delta, NOW, None, bytes(60)) for delta in range(records)]))
        data = TopicProduceData(topic, ZERO_UUID, [PartitionProduceData(partition, batch)])
        with RawConnection(broker.port) as connection:
            connection.ask(ProduceRequest(None, 1, 5_000, [data]), 8)

    return event


def deleted(broker: EmbeddedBroker, topic: str) -> None:
    with RawConnection(broker.port) as connection:
        connection.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000), 1)


def cut(broker: EmbeddedBroker, topic: str) -> None:
    """Delete the records of partition 0: its log start moves."""
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, -1)])
    with RawConnection(broker.port) as connection:
        connection.ask(DeleteRecordsRequest([wanted], 5_000), 1)


# Events during a waiting fetch of three partitions, at the end of the first.
WAITS: dict[str, tuple[list[Event], int]] = {
    "a record": ([produced(0)], 1),
    "records in two partitions": ([produced(2), produced(1, 3)], 100),
    "too little, then enough": ([produced(1), produced(1, 20)], 1_000),
    "the log start moves, then a record": ([produced(0), cut, produced(1, 20)], 1_000),
    "the topic is deleted": ([deleted], 1),
}


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("version", [11, 17])
def test_a_fetch_that_waited_is_answered_as_by_a_session(
    broker: EmbeddedBroker, name: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = waited(broker, name, version)
    monkeypatch.setattr(attempt, "attempt_without_session", lambda *_: None)
    assert short == waited(broker, name, version)


def waited(broker: EmbeddedBroker, name: str, version: int) -> tuple[bytes, dict[str, float]]:
    events, min_bytes = WAITS[name]
    broker.create_topic("waited", partitions=3)
    produced(0)(broker, "waited")
    partitions = broker.broker.replicas.by_name["waited"]
    before = counted(broker)
    topic_id = broker.broker.image.topics["waited"].topic_id
    named = FetchTopic("waited") if version < 13 else FetchTopic("", topic_id)
    named.partitions = [at(0, 1), at(1, 0), at(2, 0)]
    request = FetchRequest(topics=[named], min_bytes=min_bytes, max_wait_ms=30_000)
    with RawConnection(broker.port) as connection:
        connection.send(frame_of(request, version, 7))
        until(lambda: all(each._watchers for each in partitions.values()))
        for event in events:
            event(broker, "waited")
        answer = connection.receive()
    assert answer is not None
    assert not any(each._watchers for each in partitions.values())
    if deleted not in events:
        deleted(broker, "waited")
    answer = answer.replace(topic_id, b"id")
    return answer, {
        key: value - before.get(key, 0) for key, value in counted(broker).items() if "waited" not in key
    }


def test_a_session_that_has_sent_everything_waits_without_a_pass(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second fetch of a session, as of Java's consumer: its offset is the log end."""
    passes = []
    read = attempt.Attempt.read

    def counted_read(self: attempt.Attempt, entries: Any) -> None:
        passes.append(1)
        read(self, entries)

    monkeypatch.setattr(attempt.Attempt, "read", counted_read)
    with RawConnection(broker.port) as connection:
        topic = FetchTopic("read", ZERO_UUID, [at(0, 9)])
        opened = connection.ask(FetchRequest(topics=[topic], session_epoch=0), 11)
        assert isinstance(opened, FetchResponse)
        topic.partitions = [at(0, 10)]
        following = FetchRequest(
            topics=[topic], session_id=opened.session_id, session_epoch=1, min_bytes=1, max_wait_ms=30
        )
        answer = connection.ask(following, 11)
    assert isinstance(answer, FetchResponse)
    assert (answer.error_code, answer.responses) == (0, [])
    assert len(passes) == 2  # of the first fetch, and at the deadline of the second
