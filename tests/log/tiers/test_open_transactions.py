"""A log that goes on at the tiered end without its tail has the markers that it lacks."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.log.producer import Producer
from barnabas.log.recovery.replay import transaction_marker
from barnabas.log.tiers.open_transactions import missing_markers
from barnabas.records.batch import iterate_headers
from barnabas.records.control import EndTransactionMarker

NOW = 1_700_000_000_000


class Open(NamedTuple):
    producer_id: int
    first_offset: int
    committed: bool | None


def producer(producer_id: int, start: int | None, epoch: int = 3, coordinator_epoch: int = -1) -> Producer:
    made = Producer(producer_id, epoch)
    made.transaction_start = start
    made.coordinator_epoch = coordinator_epoch
    return made


def told(batch: bytearray) -> tuple[int, int, EndTransactionMarker | None]:
    ((_, header),) = iterate_headers(batch)
    return header.producer_id, header.producer_epoch, transaction_marker(bytes(batch), header)


def test_each_open_transaction_ends_as_the_footer_says() -> None:
    known = [producer(1, 10, coordinator_epoch=7), producer(2, 12), producer(3, None), producer(4, 14)]
    footer = [Open(1, 10, True), Open(2, 12, False), Open(4, 14, None)]
    assert [told(batch) for batch in missing_markers(footer, known, NOW)] == [
        (1, 3, EndTransactionMarker(True, 7)),
        (2, 3, EndTransactionMarker(False, 0)),
        (4, 3, EndTransactionMarker(False, 0)),
    ]


def test_an_outcome_of_an_earlier_transaction_of_the_producer_does_not_count() -> None:
    (batch,) = missing_markers([Open(1, 5, True)], [producer(1, 10)], NOW)
    assert told(batch) == (1, 3, EndTransactionMarker(False, 0))


def test_without_open_transactions_nothing_is_written() -> None:
    assert missing_markers([Open(1, 5, True)], [producer(1, None)], NOW) == []
