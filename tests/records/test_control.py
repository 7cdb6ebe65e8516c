import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from barnabas.records.batch import read_header
from barnabas.records.builder import build_batch
from barnabas.records.control import (
    ControlType,
    EndTransactionMarker,
    control_type,
    end_transaction_marker,
    parse_end_transaction,
)
from barnabas.records.record import InvalidRecords, Record, iterate_records
from tests.support.builders.records import NOW


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_comes_back(committed: bool) -> None:
    marker = EndTransactionMarker(committed, coordinator_epoch=12)
    batch = end_transaction_marker(77, 3, marker, timestamp=NOW, base_offset=50, leader_epoch=4)
    header = read_header(batch)
    (record,) = iterate_records(batch, header)
    assert parse_end_transaction(record) == marker
    assert (record.offset, record.timestamp) == (50, NOW)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, -1)
    assert header.leader_epoch == 4


@pytest.mark.parametrize("committed", [True, False])
def test_other_clients_understand_our_markers(committed: bool) -> None:
    batch = bytes(end_transaction_marker(77, 3, EndTransactionMarker(committed, 0), timestamp=NOW))
    by_kafka_python = kafka_python_records.DefaultRecordBatch(batch)
    assert by_kafka_python.is_control_batch
    (record,) = by_kafka_python
    assert (record.commit, record.abort) == (committed, not committed)
    (record,) = aiokafka_records.DefaultRecordBatch(batch)
    assert ControlRecord.parse(record.key) == (COMMIT_MARKER if committed else ABORT_MARKER)


def test_other_control_records_are_no_markers() -> None:
    leader_change = Record(0, NOW, b"\x00\x00\x00\x02", b"")
    assert control_type(leader_change) is ControlType.LEADER_CHANGE
    assert parse_end_transaction(leader_change) is None
    assert control_type(Record(0, NOW, b"\x00\x00\x01\x00", b"")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00\x00\x01", b""),
        (b"\xff\xff\x00\x01", b""),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x00", b"\x00"),
    ],
)
def test_markers_cut_short_are_refused(key: bytes | None, value: bytes | None) -> None:
    batch = build_batch([Record(0, NOW, key, value)], control=True)
    (record,) = iterate_records(batch, read_header(batch))
    with pytest.raises(InvalidRecords):
        parse_end_transaction(record)
