"""A consumer with small fetches makes progress on every partition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.records.batch import iterate_headers
from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import produce
from tests.support.clients import RawConnection

PARTITIONS = 3
RECORDS = 20


def wanted(index: int, offset: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)


@pytest.mark.parametrize("max_bytes", [1, 100, 250, 1000])
def test_records_that_found_no_room_are_in_one_of_the_next_answers(
    broker: EmbeddedBroker, bootstrap: str, max_bytes: int
) -> None:
    topic = broker.create_topic(partitions=PARTITIONS)
    for index in range(PARTITIONS):
        for _ in range(RECORDS):
            produce(bootstrap, topic, [b"x" * 50], partition=index)
    offsets: Counter[int] = Counter()
    changed = list(range(PARTITIONS))
    session, epoch, most_ahead = 0, 0, 0
    with RawConnection(broker.port) as connection:
        while sum(offsets.values()) < PARTITIONS * RECORDS:
            topics = [
                FetchTopic(topic=topic, partitions=[wanted(index, offsets[index]) for index in changed])
            ]
            request = FetchRequest(
                max_wait_ms=20_000,
                min_bytes=1,
                max_bytes=max_bytes,
                session_id=session,
                session_epoch=epoch,
                topics=topics if changed else [],
            )
            connection.set_timeout(5)  # fetches do not wait while there are records
            answer: Any = connection.ask(request, 11)
            session, epoch, changed = answer.session_id, epoch + 1, []
            for part in (part for each in answer.responses for part in each.partitions if part.records):
                changed.append(part.partition_index)
                offsets[part.partition_index] += sum(
                    header.record_count for _, header in iterate_headers(bytes(part.records))
                )
            most_ahead = max(most_ahead, max(offsets.values()) - min(offsets[i] for i in range(PARTITIONS)))
    assert offsets == dict.fromkeys(range(PARTITIONS), RECORDS)
    assert most_ahead <= max(1, max_bytes // 100)
