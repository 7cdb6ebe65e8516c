"""Dead letters (KIP-1191): records that a share group has given up, as they stand in its dead-letter topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.records.record import Header, Record
from barnabas.common.types import TopicPartition

TOPIC_HEADER = "__dlq.errors.topic"
PARTITION_HEADER = "__dlq.errors.partition"
OFFSET_HEADER = "__dlq.errors.offset"
GROUP_HEADER = "__dlq.errors.group"
DELIVERIES_HEADER = "__dlq.errors.delivery.count"
REASON_HEADER = "__dlq.errors.message"

# As Kafka 4.4 writes them.
REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class GivenUp(NamedTuple):
    """Why records are in a dead-letter topic, and where they come from."""

    group_id: str
    origin: TopicPartition
    deliveries: int
    reason: str


def dead_letters(given_up: GivenUp, records: Iterable[Record], now_ms: int, *, copied: bool) -> list[Record]:
    """The dead letters of some records; with what they hold, if that is to be copied."""
    return [
        Record(
            0,
            now_ms,
            record.key if copied else None,
            record.value if copied else None,
            (*(record.headers if copied else ()), *_headers(given_up, record.offset)),
        )
        for record in records
    ]


def _headers(given_up: GivenUp, offset: int) -> tuple[Header, ...]:
    facts = (
        (TOPIC_HEADER, given_up.origin.topic),
        (PARTITION_HEADER, given_up.origin.partition),
        (OFFSET_HEADER, offset),
        (GROUP_HEADER, given_up.group_id),
        (DELIVERIES_HEADER, given_up.deliveries),
        (REASON_HEADER, given_up.reason),
    )
    return tuple((name, str(fact).encode()) for name, fact in facts)
