"""Keys and values of the internal topics."""

import struct

import pytest

from barnabas.protocol import ProtocolError, UnknownVersionError
from barnabas.protocol.coordinator_records import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    decode_versioned,
    encode_key,
    encode_versioned,
)
from barnabas.protocol.messages.consumer import ConsumerProtocolSubscription
from barnabas.protocol.messages.records.group import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.messages.records.transaction import TransactionLogKey


def test_a_committed_offset_has_the_bytes_kafka_has_written_since_version_0_9() -> None:
    key = encode_key(OffsetCommitKey("group", "topic", 3))
    assert key == struct.pack(">h", 1) + b"\0\5group" + b"\0\5topic" + struct.pack(">i", 3)
    value = encode_versioned(OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9), 3)
    assert value == struct.pack(">hqih", 3, 7, -1, 1) + b"m" + struct.pack(">q", 9)


def test_a_key_and_its_value_are_read_back() -> None:
    key = OffsetCommitKey("group", "topic", 3)
    value = OffsetCommitValue(offset=7, commit_timestamp=9)
    read = decode_key(GROUP_RECORDS, encode_key(key))
    assert read == key
    for version in range(2, 5):
        assert decode_value(GROUP_RECORDS, read, encode_versioned(value, version)) == value


def test_every_topic_numbers_its_record_types_on_its_own() -> None:
    assert sorted(GROUP_RECORDS) == [*range(9), *range(10, 18), *range(19, 24), 10_093]
    assert sorted(TRANSACTION_RECORDS) == [0]
    assert sorted(SHARE_RECORDS) == [0, 1]
    assert isinstance(decode_key(TRANSACTION_RECORDS, encode_key(TransactionLogKey("id"))), TransactionLogKey)


def test_records_of_a_newer_broker_are_distinguished_from_damaged_ones() -> None:
    with pytest.raises(UnknownRecordTypeError, match="99"):
        decode_key(GROUP_RECORDS, struct.pack(">h", 99) + b"abc")
    with pytest.raises(UnknownVersionError):
        decode_value(GROUP_RECORDS, OffsetCommitKey(), struct.pack(">h", 99))
    with pytest.raises(ProtocolError):
        decode_key(GROUP_RECORDS, b"\0")
    with pytest.raises(ProtocolError):
        decode_key(GROUP_RECORDS, struct.pack(">hh", 1, 50))


def test_embedded_member_data_has_a_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a", "b"])
    for version in range(4):
        assert (
            decode_versioned(ConsumerProtocolSubscription, encode_versioned(subscription, version))
            == subscription
        )
