"""A fetch without a session is answered from its request as it would be by a session that lives for one request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.common.types import ZERO_UUID
from barnabas.handlers.fetch import attempt
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection

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
    """The answer and what was counted."""
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
