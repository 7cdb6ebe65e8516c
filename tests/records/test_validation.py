import kafka.record.default_records as kafka_python_records
import pytest

from barnabas.common.errors import ErrorCode
from barnabas.records.batch import CRC_START, TimestampType, crc_is_right, read_header
from barnabas.records.builder import build_batch, encode_record
from barnabas.records.compression import Codec
from barnabas.records.record import InvalidRecords, Record, iterate_records, record_data
from barnabas.records.validation import TimestampBounds, repack, validate_records
from tests.support.builders.records import CODECS, EXAMPLES, NOW, batch_of, with_header

KEYED = [record for record in EXAMPLES if record.key is not None]
HOUR = 3_600_000


def refusal(batch: bytearray, **options: object) -> InvalidRecords:
    with pytest.raises(InvalidRecords) as caught:
        validate_records(batch, read_header(batch), **options)  # type: ignore[arg-type]  # options of the test table
    return caught.value


@pytest.mark.parametrize("codec", CODECS)
def test_good_records_pass_and_their_largest_timestamp_is_known(codec: int) -> None:
    batch = build_batch(KEYED, compression=codec)
    bounds = TimestampBounds(NOW, after_max_ms=HOUR)
    assert validate_records(batch, read_header(batch), require_keys=True, timestamps=bounds) == NOW + 90_000


def test_every_record_without_a_key_is_named_where_keys_are_required() -> None:
    error = refusal(build_batch(EXAMPLES), require_keys=True)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert "without key" in error.message


@pytest.mark.parametrize(
    ("offset_ms", "allowed"), [(HOUR, True), (HOUR + 1, False), (-HOUR, True), (-HOUR - 1, False)]
)
def test_timestamps_must_be_within_the_bounds(offset_ms: int, allowed: bool) -> None:
    batch = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW + offset_ms, b"k", b"v")])
    bounds = TimestampBounds(NOW, before_max_ms=HOUR, after_max_ms=HOUR)
    if allowed:
        validate_records(batch, read_header(batch), timestamps=bounds)
        return
    error = refusal(batch, timestamps=bounds)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_a_record_without_a_timestamp_is_within_any_bounds() -> None:
    batch = build_batch([Record(0, -1, b"k", b"v")])
    assert validate_records(batch, read_header(batch), timestamps=TimestampBounds(NOW, 0, 0)) == -1


def test_a_producer_may_not_choose_log_append_time() -> None:
    batch = build_batch(EXAMPLES, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refusal(batch).code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [-1, 0, 6, 8])
def test_wrong_record_count_is_rejected(codec: int, count: int) -> None:
    batch = build_batch(EXAMPLES, compression=codec)
    assert refusal(with_header(batch, record_count=count)).code is ErrorCode.INVALID_RECORD
    lying_twice = with_header(batch, record_count=count, last_offset_delta=count - 1)
    assert refusal(lying_twice).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("deltas", [(0, 2), (1, 0), (0, 0), (1, 2), (0, -1)])
def test_offsets_must_count_up_from_zero(deltas: tuple[int, int]) -> None:
    record = Record(0, NOW, b"k", b"v")
    data = b"".join(encode_record(delta, 0, record) for delta in deltas)
    error = refusal(batch_of(data, 2))
    assert error.code is ErrorCode.INVALID_RECORD
    assert error.record_errors


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_garbage_is_an_invalid_record(codec: int) -> None:
    error = refusal(batch_of(b"this is not compressed at all", 1, codec))
    assert error.code is ErrorCode.INVALID_RECORD


def test_only_so_many_record_errors_are_collected() -> None:
    batch = build_batch([Record(0, NOW, None, b"")] * 5000, compression=Codec.ZSTD)
    assert len(refusal(batch, require_keys=True).record_errors) == 1000


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_a_recompressed_batch_differs_in_nothing_but_its_codec(source: int, target: int) -> None:
    batch = build_batch(
        EXAMPLES,
        base_offset=9,
        compression=source,
        producer_id=5,
        producer_epoch=1,
        base_sequence=2,
        transactional=True,
    )
    before = read_header(batch)
    result = repack(record_data(batch, before), before, target)
    after = read_header(result)
    assert list(iterate_records(result, after)) == list(iterate_records(batch, before))
    assert after.compression == target
    assert after._replace(length=0, crc=0, attributes=0) == before._replace(length=0, crc=0, attributes=0)
    assert after.attributes & ~7 == before.attributes & ~7
    assert crc_is_right(memoryview(result), 0, len(result))
    assert len(list(kafka_python_records.DefaultRecordBatch(bytes(result)))) == len(EXAMPLES)
    assert len(result) > CRC_START


@pytest.mark.parametrize(
    ("codec", "fast", "small"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.ZSTD, -5, 19)]
)
def test_levels_trade_time_for_size(codec: int, fast: int, small: int) -> None:
    text = " ".join(str(number * number % 1009) for number in range(20_000)).encode()
    batch = build_batch([Record(0, NOW, None, text)])
    header = read_header(batch)
    data = record_data(batch, header)
    assert len(repack(data, header, codec, small)) < len(repack(data, header, codec, fast))


def test_recompressing_garbage_is_an_invalid_record() -> None:
    garbage = batch_of(b"garbage", 1, Codec.LZ4)
    with pytest.raises(InvalidRecords):
        record_data(garbage, read_header(garbage))
