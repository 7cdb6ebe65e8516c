"""Inspection of batches: small ones on the loop, large ones in a thread."""

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log.inspection import SHORT_DATA, Inspected, InspectionRequiredError, inspect, largest_data
from barnabas.log.log import Log, Origin
from barnabas.records.batch import read_header
from barnabas.records.compression import Codec
from barnabas.records.record import InvalidRecords
from tests.support.builders.logs import NOW, append, batch, headers, new_log

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
HOUR = 3_600_000


def long_batch(key: bytes | None = b"k", codec: Codec = Codec.ZSTD, timestamp: int = NOW) -> bytearray:
    return batch(bytes(2 * SHORT_DATA), key=key, compression=codec, timestamp=timestamp)


def looked_into(data: bytearray, unchecked: InspectionRequiredError) -> Inspected:
    return inspect(memoryview(data), unchecked.header, unchecked.config, NOW)


def refused_at_once(log: Log, data: bytearray) -> InspectionRequiredError:
    with pytest.raises(InspectionRequiredError) as raised:
        append(log, data)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    return raised.value


@pytest.mark.parametrize("codec", list(Codec))
def test_large_batch_is_appended_after_its_inspection(tmp_path: Path, codec: Codec) -> None:
    log = new_log(tmp_path / "orders-0", COMPACTED)
    data = long_batch(codec=codec)
    inspected = looked_into(data, refused_at_once(log, data))
    assert log.append_as_leader(memoryview(data), 0, NOW, inspected=inspected).last_offset == 0


def test_a_long_batch_is_refused_for_the_same_reasons_as_a_short_one(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", COMPACTED)
    data = long_batch(key=None)
    with pytest.raises(InvalidRecords, match="without key"):
        looked_into(data, refused_at_once(log, data))


def test_inspection_result_is_valid_only_for_the_same_config(tmp_path: Path) -> None:
    recompressing = LogConfig(compression_type="gzip")
    log = new_log(tmp_path / "orders-0", recompressing)
    data = long_batch(key=None)
    inspected = looked_into(data, refused_at_once(log, data))
    log.update_config(COMPACTED)
    with pytest.raises(InspectionRequiredError) as raised:
        log.append_as_leader(memoryview(data), 0, NOW, inspected=inspected)
    assert raised.value.config is COMPACTED
    with pytest.raises(InvalidRecords, match="without key"):
        looked_into(data, raised.value)


def test_log_append_time_is_the_time_of_the_append_not_of_the_inspection(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", replace(COMPACTED, message_timestamp_type="LogAppendTime"))
    data = long_batch()
    inspected = looked_into(data, refused_at_once(log, data))
    result = log.append_as_leader(memoryview(data), 0, NOW + 500, inspected=inspected)
    assert result.log_append_time == NOW + 500
    assert headers(log.read(0, 1000, 1))[0].max_timestamp == NOW + 500


def test_batch_of_many_records_counts_as_large_regardless_of_its_bytes(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", COMPACTED)
    refused_at_once(log, batch(*[b""] * 2001))
    assert append(log, batch(*[b""] * 2000)).last_offset == 1999


def test_large_batch_without_a_needed_inspection_is_appended_immediately(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    assert append(log, long_batch()).last_offset == 0
    assert append(log, long_batch(timestamp=-1)).last_offset == 1


def test_large_batch_with_a_future_timestamp_is_inspected_in_a_thread(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    data = long_batch(timestamp=NOW + 2 * HOUR)
    unchecked = refused_at_once(log, data)
    with pytest.raises(InvalidRecords) as refusal:
        looked_into(data, unchecked)
    assert refusal.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refusal.value.record_errors] == [0]


def test_a_coordinators_batches_never_wait(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", replace(COMPACTED, compression_type="gzip"))
    data = long_batch(codec=Codec.NONE)
    assert log.append_as_leader(memoryview(data), 0, NOW, origin=Origin.COORDINATOR).last_offset == 0
    assert headers(log.read(0, 1000, 1))[0].compression == Codec.GZIP


def test_the_bound_on_decompressed_bytes_leaves_room_for_the_largest_message() -> None:
    assert largest_data(LogConfig()) == 32 << 20
    assert largest_data(LogConfig(max_message_bytes=100 << 20)) == 200 << 20


def test_a_batch_may_not_outgrow_the_largest_message_by_another_codec(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", LogConfig(compression_type="uncompressed", max_message_bytes=1000))
    with pytest.raises(KafkaError) as refusal:
        append(log, batch(bytes(2000), compression=Codec.LZ4))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_no_batch_claims_more_records_than_its_data_can_hold(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", LogConfig(barnabas_validate_max_bytes=1, max_message_bytes=7000))
    assert append(log, batch(*[b""] * 1000, compression=Codec.ZSTD)).last_offset == 999
    with pytest.raises(KafkaError, match="can contain at most 2000"):
        append(log, batch(*[b""] * 2001, compression=Codec.ZSTD))
    assert read_header(batch(*[b""] * 2001, compression=Codec.ZSTD)).size < 7000


@pytest.mark.parametrize(("codec", "parts"), [(Codec.LZ4, 3), (Codec.SNAPPY, 3), (Codec.GZIP, 1)])
def test_a_setting_bounds_the_blocks_of_a_batch(tmp_path: Path, codec: Codec, parts: int) -> None:
    """64 KiB or less in a block, and one member of gzip, which counts as ten."""
    data = batch(bytes(90_000), key=b"k", compression=codec)
    enough = replace(COMPACTED, barnabas_validate_max_blocks=10 * parts)
    assert looked_into(data, InspectionRequiredError(read_header(data), enough)).config is enough
    if codec is not Codec.GZIP:
        with pytest.raises(InvalidRecords, match=r"barnabas\.validate\.max\.blocks"):
            looked_into(
                data,
                InspectionRequiredError(
                    read_header(data), replace(COMPACTED, barnabas_validate_max_blocks=1)
                ),
            )
