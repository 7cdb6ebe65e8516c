"""The frames of the load generators, read by an independent implementation of the format."""

import struct

from fastcrc.crc32 import iscsi as crc32c
from kafka.record import MemoryRecords

from benchmarks import wire


def test_record_batch_has_a_valid_checksum_and_record_count() -> None:
    batch = wire.record_batch(100, 3)
    length, magic, crc = struct.unpack_from(">i4xbI", batch, 8)
    assert length == len(batch) - 12
    assert magic == 2
    assert crc == crc32c(batch[21:])
    assert struct.unpack_from(">i", batch, 57) == (3,)


def test_a_keyed_batch_has_one_record_for_each_key() -> None:
    keys = [b"key-%03d" % number for number in range(200)]  # offset deltas of one and of two bytes
    batch = wire.keyed_batch(keys, 100)
    assert struct.unpack_from(">i", batch, 8) == (len(batch) - 12,)
    assert struct.unpack_from(">I", batch, 17) == (crc32c(batch[21:]),)
    records = list(MemoryRecords(batch).next_batch())
    assert [record.key for record in records] == keys
    assert [record.offset for record in records] == list(range(200))
    assert {record.value for record in records} == {b"x" * 100}


def test_frames_carry_their_own_length() -> None:
    for frame in (wire.produce_frame("t", 0, wire.record_batch(10, 1)), wire.fetch_frame("t", 0, 0)):
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
