"""Delayed delivery to share groups, in topics with `barnabas.delay.enable`; dead-letter records.

Two headers, both with a decimal number: `barnabas-deliver-at` is a time in epoch milliseconds, `barnabas-delay-ms`
is relative to the record's timestamp. The last one in a record counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from barnabas.common.types import TopicPartition
from barnabas.records.batch import BatchHeader
from barnabas.records.record import Buffer, Header, InvalidRecords, Record, read_headers
from barnabas.records.varints import read_varint

# -- Dead letters (KIP-1191): records that a share group has given up, as written to its dead-letter topic

TOPIC_HEADER = "__dlq.errors.topic"
PARTITION_HEADER = "__dlq.errors.partition"
OFFSET_HEADER = "__dlq.errors.offset"
GROUP_HEADER = "__dlq.errors.group"
DELIVERIES_HEADER = "__dlq.errors.delivery.count"
REASON_HEADER = "__dlq.errors.message"

# Kafka 4.4's texts.
REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class DeadLetterOrigin(NamedTuple):
    """Origin of dead-letter records, and the reason."""

    group_id: str
    origin: TopicPartition
    deliveries: int
    reason: str


def dead_letters(
    given_up: DeadLetterOrigin, records: Iterable[Record], now_ms: int, *, copied: bool
) -> list[Record]:
    """Build the dead-letter records; keys and values are included only if the group copies records."""
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


def _headers(given_up: DeadLetterOrigin, offset: int) -> tuple[Header, ...]:
    facts = (
        (TOPIC_HEADER, given_up.origin.topic),
        (PARTITION_HEADER, given_up.origin.partition),
        (OFFSET_HEADER, offset),
        (GROUP_HEADER, given_up.group_id),
        (DELIVERIES_HEADER, given_up.deliveries),
        (REASON_HEADER, given_up.reason),
    )
    return tuple((name, str(fact).encode()) for name, fact in facts)


DELIVER_AT_HEADER = "barnabas-deliver-at"
DELAY_HEADER = "barnabas-delay-ms"

NOT_DELAYED = 0
MAX_DIGITS = 18  # below 2^63


def due_ms(record: Record) -> int:
    """Delivery time of the record; 0 for immediately. ValueError if a header is not a number."""
    due = NOT_DELAYED
    for name, value in record.headers:
        if name == DELIVER_AT_HEADER:
            due = _number(value)
        elif name == DELAY_HEADER:
            due = record.timestamp + _number(value)
    return due


def _number(value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > MAX_DIGITS:
        raise ValueError(value)
    return int(value)


def check_delays(
    data: Buffer,
    header: BatchHeader,
    now_ms: int,
    retention_ms: int | None,
    breathe: Callable[[], None] | None = None,
) -> None:
    """Raise InvalidRecords if a record is due after its retention (None: unlimited).

    `data` are the decompressed records of a batch that was validated before.
    """
    if header.is_control:
        return
    for index, record in enumerate(_with_headers_only(data, header)):
        if breathe is not None:
            breathe()
        try:
            due = due_ms(record) if record.headers else NOT_DELAYED
        except ValueError:
            raise _refused(
                index, f"{DELIVER_AT_HEADER} and {DELAY_HEADER} need a number of milliseconds"
            ) from None
        if retention_ms is not None and due - now_ms > retention_ms:
            raise _refused(
                index,
                f"the record is due in {due - now_ms} ms, but retention is {retention_ms} ms: "
                "raise the topic's retention.ms, or deliver it earlier",
            )


def _with_headers_only(data: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records without keys and values, which are skipped."""
    position = 0
    for index in range(header.record_count):
        length, position = read_varint(data, position)
        end = position + length
        delta, position = read_varint(data, position + 1)
        _, position = read_varint(data, position)
        for _ in ("key", "value"):
            length, position = read_varint(data, position)
            position += max(length, 0)
        headers = () if data[position] == 0 else read_headers(bytes(data[position:end]), 0, end - position)[0]
        yield Record(header.base_offset + index, header.base_timestamp + delta, None, None, headers)
        position = end


def _refused(index: int, problem: str) -> InvalidRecords:
    return InvalidRecords(problem, [(index, problem)])
