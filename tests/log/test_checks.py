"""Batches that a leader rejects, with the error codes of Apache Kafka 4.3.1."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from struct import pack_into

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.disk import Disk
from barnabas.log.log import Log
from barnabas.records.batch import read_header, write_crc
from barnabas.records.compression import Codec
from barnabas.records.record import InvalidRecords
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    NOW,
    append,
    batch,
    content,
    headers,
    marker,
    new_log,
    produced,
    read_all,
)

HOUR = 3_600_000


def log_with(tmp_path: Path, **settings: object) -> Log:
    return new_log(tmp_path / "orders-0", replace(LogConfig(), **settings))  # type: ignore[arg-type]


def changed(position: int, layout: str, value: int, *, sign: bool = True) -> bytearray:
    """A valid batch with one header field changed, and the checksum corrected."""
    data = batch(b"a", b"b")
    pack_into(layout, data, position, value)
    if sign:
        write_crc(data, 0, len(data))
    return data


def wrong_checksum() -> bytearray:
    data = batch(b"a")
    data[-1] ^= 1
    return data


BAD_BATCHES: list[tuple[str, Callable[[], bytearray], ErrorCode]] = [
    ("a wrong checksum", wrong_checksum, ErrorCode.CORRUPT_MESSAGE),
    ("magic 3", lambda: changed(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    ("a negative length", lambda: changed(8, ">i", -1, sign=False), ErrorCode.CORRUPT_MESSAGE),
    ("a length below the header's", lambda: changed(8, ">i", 48, sign=False), ErrorCode.CORRUPT_MESSAGE),
    ("a length too short", lambda: changed(8, ">i", 60, sign=False), ErrorCode.CORRUPT_MESSAGE),
    ("a length too long", lambda: changed(8, ">i", 5000, sign=False), ErrorCode.INVALID_RECORD),
    ("magic 0", lambda: changed(16, ">b", 0), ErrorCode.INVALID_RECORD),
    ("magic 1", lambda: changed(16, ">b", 1), ErrorCode.INVALID_RECORD),
    ("a short message of magic 1", lambda: bytearray(16) + b"\x01" + bytes(20), ErrorCode.INVALID_RECORD),
    ("two batches", lambda: batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
    ("nothing", bytearray, ErrorCode.INVALID_RECORD),
    ("half a header", lambda: batch(b"a")[:30], ErrorCode.INVALID_RECORD),
    ("a control batch", lambda: marker(7, 0, committed=True), ErrorCode.INVALID_RECORD),
    ("a record count that lies", lambda: changed(57, ">i", 3), ErrorCode.INVALID_RECORD),
    ("no records", lambda: changed(57, ">i", 0), ErrorCode.INVALID_RECORD),
    ("a base offset", lambda: changed(0, ">q", 5, sign=False), ErrorCode.INVALID_RECORD),
    ("a producer without a sequence", lambda: produced(7, 0, -1, b"a"), ErrorCode.INVALID_RECORD),
    ("a LogAppendTime of its own", lambda: changed(21, ">h", 8), ErrorCode.INVALID_TIMESTAMP),
    ("a time far ahead", lambda: batch(b"a", timestamp=NOW + HOUR + 1), ErrorCode.INVALID_TIMESTAMP),
]


@pytest.mark.parametrize(
    ("data", "code"), [row[1:] for row in BAD_BATCHES], ids=[row[0] for row in BAD_BATCHES]
)
def test_a_bad_batch_is_refused_and_changes_nothing(
    tmp_path: Path, data: Callable[[], bytearray], code: ErrorCode
) -> None:
    log = log_with(tmp_path)
    with pytest.raises(KafkaError) as refusal:
        log.append_as_leader(memoryview(data()), 0, NOW)
    assert refusal.value.code is code
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    assert append(log, batch(b"good")).first_offset == 0


def test_a_batch_above_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    log = log_with(tmp_path, max_message_bytes=200)
    with pytest.raises(KafkaError) as refusal:
        append(log, batch(b"x" * 200))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes allows 200" in str(refusal.value)


def test_a_batch_above_segment_bytes_is_refused(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=200)
    with pytest.raises(KafkaError) as refusal:
        append(log, batch(b"x" * 200))
    assert refusal.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    log = log_with(tmp_path, cleanup_policy=frozenset({"compact"}))
    append(log, batch(b"a", key=b"key"))
    with pytest.raises(InvalidRecords) as refusal:
        append(log, batch(b"a", b"b", key=None))
    assert refusal.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in refusal.value.record_errors] == [0, 1]


def test_records_are_inspected_if_configured(tmp_path: Path) -> None:
    rubbish = batch(b"x" * 50)
    rubbish[61:70] = b"\xff" * 9
    write_crc(rubbish, 0, len(rubbish))
    trusting = log_with(tmp_path / "a")
    assert append(trusting, bytearray(rubbish)).first_offset == 0
    strict = log_with(tmp_path / "b", barnabas_validate_records="all")
    with pytest.raises(KafkaError) as refusal:
        append(strict, bytearray(rubbish))
    assert refusal.value.code is ErrorCode.INVALID_RECORD


def test_records_from_before_the_allowed_time_are_named(tmp_path: Path) -> None:
    log = log_with(tmp_path, message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidRecords) as refusal:
        append(log, batch(b"a", timestamp=NOW - 1001))
    assert refusal.value.code is ErrorCode.INVALID_TIMESTAMP
    assert refusal.value.record_errors[0][0] == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_by_the_topic_config(tmp_path: Path, codec: str) -> None:
    log = log_with(tmp_path, compression_type=codec)
    append(log, batch(b"x" * 500))
    assert headers(log.read(0, 1000, 1))[0].compression == Codec[codec.upper()]
    assert read_all(log) == [(0, b"x" * 500)]


def test_batches_are_unpacked_for_a_topic_that_wants_them_uncompressed(tmp_path: Path) -> None:
    log = log_with(tmp_path, compression_type="uncompressed")
    append(log, batch(b"x" * 500, compression=Codec.GZIP))
    assert headers(log.read(0, 1000, 1))[0].compression == Codec.NONE
    assert read_all(log) == [(0, b"x" * 500)]


def test_a_producers_own_compression_is_kept_byte_by_byte(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    data = batch(b"x" * 500, compression=Codec.ZSTD)
    append(log, data)
    assert content(log.read(0, 1000, 1))[21:] == data[21:]


def test_log_append_time_is_the_brokers(tmp_path: Path) -> None:
    log = log_with(tmp_path, message_timestamp_type="LogAppendTime")
    result = append(log, batch(b"a", timestamp=NOW + 10 * HOUR), now_ms=NOW + 5)
    assert result.log_append_time == NOW + 5
    header = headers(log.read(0, 1000, 1))[0]
    assert header.is_log_append_time
    assert header.max_timestamp == NOW + 5
    assert log.offset_for_timestamp(NOW) == (0, NOW + 5, 0)


def test_a_duplicate_is_answered_with_the_append_time_of_its_original(tmp_path: Path) -> None:
    log = log_with(tmp_path, message_timestamp_type="LogAppendTime")
    append(log, produced(7, 0, 0, b"a"), now_ms=NOW + 5)
    assert append(log, produced(7, 0, 0, b"a"), now_ms=NOW + 50) == (0, 0, NOW + 5, True)


def test_new_settings_are_in_force_at_once(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    append(log, batch(b"x" * 100))
    log.update_config(LogConfig(max_message_bytes=100))
    with pytest.raises(KafkaError):
        append(log, batch(b"x" * 100))


def test_writes_are_refused_while_the_disk_has_less_than_the_reserve() -> None:
    fs = FaultyFileSystem(space=10_000)
    log = new_log("/data/orders-0", fs=fs)
    log.disk = Disk(fs, "/data", reserve_bytes=5000)
    append(log, batch(b"a"), now_ms=NOW)
    fs.space = 4999
    append(log, batch(b"b"), now_ms=NOW + 999)  # asked at most once a second
    with pytest.raises(KafkaError) as refusal:
        append(log, batch(b"c"), now_ms=NOW + 1000)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "barnabas.disk.reserve.bytes" in str(refusal.value)
    with pytest.raises(KafkaError):
        append(log, batch(b"c"), now_ms=NOW + 1001)
    fs.space = 9000
    assert append(log, batch(b"c"), now_ms=NOW + 2000).first_offset == 2


def test_a_follower_takes_batches_as_they_are(tmp_path: Path) -> None:
    leader, follower = log_with(tmp_path / "leader"), log_with(tmp_path / "follower")
    append(leader, batch(b"a", b"b"), epoch=2)
    append(leader, produced(7, 0, 0, b"c"), epoch=4)
    sent = content(leader.read(0, 10_000, 3))
    assert follower.append_as_follower(memoryview(bytearray(sent)))[:2] == (0, 2)
    assert content(follower.read(0, 10_000, 3)) == sent
    assert follower.epochs.entries == ((2, 0), (4, 2))
    assert follower.producers.get(7) is not None


def test_follower_rejects_known_and_damaged_batches(tmp_path: Path) -> None:
    leader, follower = log_with(tmp_path / "leader"), log_with(tmp_path / "follower")
    append(leader, batch(b"a"))
    sent = bytearray(content(leader.read(0, 10_000, 1)))
    damaged = bytearray(sent)
    damaged[-1] ^= 1
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        follower.append_as_follower(memoryview(damaged))
    follower.append_as_follower(memoryview(sent))
    with pytest.raises(KafkaError, match="already ends at 1"):
        follower.append_as_follower(memoryview(sent))
    assert read_header(content(follower.read(0, 100, 1))).base_offset == 0


def test_an_empty_log_that_starts_within_a_batch_takes_all_of_it(tmp_path: Path) -> None:
    """DeleteRecords moves a leader's log start into a batch; a new follower gets the complete batch."""
    leader, follower = new_log(tmp_path / "leader-0"), new_log(tmp_path / "follower-0")
    append(leader, batch(b"a", b"b", b"c"))
    follower.truncate_fully_and_start_at(1)
    follower.append_as_follower(memoryview(bytearray(content(leader.read(1, 1000, 3)))))
    assert (follower.log_start_offset, follower.log_end_offset) == (0, 3)
