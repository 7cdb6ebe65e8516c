"""Acquired records and acknowledgements of a share group member."""

from barnabas.client.share.acquired import AcknowledgeType, open_acquired, to_batches
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.share import AcquiredRecords
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record

TP = TopicPartition("jobs", 0)


def batch(first: int, count: int) -> bytes:
    built = bytearray(build_batch([Record(0, 0, None, str(first + n).encode(), ()) for n in range(count)]))
    built[:8] = first.to_bytes(8, "big")
    return bytes(built)


def acquired(first: int, last: int, deliveries: int = 1) -> AcquiredRecords:
    return AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)


def test_only_acquired_records_are_given_out_with_how_often_they_were_delivered() -> None:
    taken, gaps = open_acquired(TP, memoryview(batch(10, 5)), [acquired(11, 12), acquired(14, 14, 3)])
    assert [(one.offset, one.delivery_count) for one in taken] == [(11, 1), (12, 1), (14, 3)]
    assert not gaps


def test_an_acquired_offset_without_a_record_is_answered_for_as_a_gap() -> None:
    marker = bytearray(end_transaction_marker(1, 0, EndTransactionMarker(True, 0), timestamp=0))
    marker[:8] = (12).to_bytes(8, "big")
    taken, gaps = open_acquired(TP, memoryview(batch(10, 2) + bytes(marker)), [acquired(10, 12)])
    assert [one.offset for one in taken] == [10, 11]
    assert gaps == {12: AcknowledgeType.GAP}


def test_neighbours_with_the_same_answer_share_a_batch() -> None:
    answers = {
        1: AcknowledgeType.ACCEPT,
        2: AcknowledgeType.ACCEPT,
        3: AcknowledgeType.REJECT,
        5: AcknowledgeType.REJECT,
    }
    spelt = [(one.first_offset, one.last_offset, one.acknowledge_types) for one in to_batches(answers)]
    assert spelt == [(1, 2, [1]), (3, 3, [3]), (5, 5, [3])]
    assert to_batches({}) == []
