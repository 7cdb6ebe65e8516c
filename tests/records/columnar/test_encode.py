"""Record batches encoded from columns are read by all other readers."""

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.client.producing.record_accumulator import partition_for_key
from barnabas.common.types import TopicPartition
from barnabas.records.batch import crc_is_right, iterate_headers, read_header, stamp
from barnabas.records.blocks import Block, block_of
from barnabas.records.columnar.encode import STICKY_BYTES, BadRowError, BlockEncoder, EncodeTarget
from barnabas.records.compression import Codec
from barnabas.records.record import Record, iterate_records
from tests.support.kafka.tools import run_tool

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW = 1_700_000_000_000


def rows(**columns: Any) -> pa.RecordBatch:
    types = {"headers": HEADERS, "key": pa.binary(), "value": pa.binary(), "partition": pa.int32()}
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, types.get(name))
        for name, column in columns.items()
    ]
    return pa.record_batch(arrays, names=list(columns))


def encode(batch: pa.RecordBatch, partitions: int = 1, limit: int = 1_000_000, **made: Any) -> list[Block]:
    return list(BlockEncoder(**made).encode(batch, EncodeTarget("orders", partitions, limit), NOW))


def read(blocks: list[Block]) -> dict[int, list[Record]]:
    """Records by partition, read by the record reader."""
    found: dict[int, list[Record]] = defaultdict(list)
    for block in blocks:
        data = memoryview(block.seal())
        header = read_header(data)
        assert header.size == len(data)
        assert crc_is_right(data, 0, header.size)
        records = list(iterate_records(data, header))
        assert header.last_offset_delta == len(records) - 1 == block.count - 1
        assert header.max_timestamp == max(record.timestamp for record in records)
        found[block.partition] += records
    return found


texts = st.binary(max_size=40)
record_rows = st.lists(
    st.tuples(
        st.none() | texts,
        st.none() | texts,
        st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | texts), max_size=3),
        st.integers(0, 1 << 41),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(record_rows, st.sampled_from(Codec), st.integers(0, 5))
def test_record_reader_returns_the_encoded_columns(given_rows: list[Any], codec: Codec, skipped: int) -> None:
    keys, values, headers, times = (list(column) for column in zip(*given_rows, strict=True))
    structs = [
        None if one is None else [{"key": name, "value": value} for name, value in one] for one in headers
    ]
    table = rows(key=keys, value=values, headers=structs, timestamp=pa.array(times))
    blocks = encode(table.slice(skipped), limit=400, codec=codec)  # a slice: its arrays do not begin at zero
    expected = [
        (time, key, value, tuple(header or ()))
        for key, value, header, time in zip(keys, values, headers, times, strict=True)
    ][skipped:]
    assert [tuple(record[1:]) for record in read(blocks)[0]] == expected


def test_keys_go_where_kafkas_partitioner_puts_them() -> None:
    keys = [b"k" * (index % 11) + b"%d" % index for index in range(500)]
    found = read(encode(rows(key=keys, value=keys), partitions=7))
    for partition, records in found.items():
        assert {partition_for_key(record.key or b"", 7) for record in records} == {partition}
        assert [record.value for record in records] == [
            key for key in keys if partition_for_key(key, 7) == partition
        ]


def test_text_columns_are_written_as_utf_8() -> None:
    table = rows(key=pa.array(["ключ"]), value=pa.array(["större"], pa.large_string()))
    record = read(encode(table))[0][0]
    assert (record.key, record.value) == ("ключ".encode(), "större".encode())


def test_an_explicit_partition_comes_before_the_key() -> None:
    found = read(encode(rows(key=[b"a", b"a"], value=[b"1", b"2"], partition=[2, None]), partitions=3))
    assert [record.value for record in found[2]][:1] == [b"1"]
    assert b"2" in [record.value for record in found[partition_for_key(b"a", 3)]]


def test_rows_without_a_key_fill_one_partition_after_the_other() -> None:
    values = [b"v" * 1000] * 640
    found = read(encode(rows(value=values), partitions=4))
    sizes = [sum(len(record.value or b"") for record in records) for records in found.values()]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 2 * STICKY_BYTES
    assert len(read(encode(rows(value=values[:5]), partitions=4))) == 1


def test_batches_stay_within_the_limit() -> None:
    blocks = encode(rows(value=[b"v" * 100] * 100), limit=1000)
    assert len(blocks) > 10
    assert all(len(block.data) <= 1000 for block in blocks)


def test_one_row_that_is_too_large_is_named_with_the_setting_to_change() -> None:
    with pytest.raises(BadRowError, match=r"larger than the 1000 bytes.*max\.message\.bytes"):
        encode(rows(value=[b"small", b"v" * 2000]), limit=1000)


@pytest.mark.parametrize("partition", [3, -1])
def test_a_partition_that_does_not_exist_is_refused(partition: int) -> None:
    with pytest.raises(BadRowError, match="has partitions 0 to 2"):
        encode(rows(value=[b"v"], partition=[partition]), partitions=3)


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(BadRowError, match="a header has no key"):
        encode(rows(value=[b"v"], headers=[[{"key": None, "value": b"x"}]]))


def test_sparks_timestamps_become_milliseconds() -> None:
    timestamp = datetime(2026, 11, 16, 1, 2, 3, 456_789, tzinfo=UTC)
    table = rows(value=[b"v"], timestamp=pa.array([timestamp], pa.timestamp("us", tz="UTC")))
    assert read(encode(table))[0][0].timestamp == int(timestamp.timestamp() * 1000)


def test_a_sealed_batch_names_its_producer() -> None:
    (block,) = encode(rows(value=[b"a", b"b"]))
    header = read_header(block.seal(7, 3, 40, transactional=True))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 40)
    assert header.is_transactional
    assert not read_header(block.seal()).is_transactional  # sealed again by another producer


def test_one_record_makes_a_block_of_its_own() -> None:
    record = Record(0, NOW, b"k", b"v", (("h", b"1"),))
    assert read([block_of(TopicPartition("orders", 3), record)]) == {3: [record]}


def test_confluent_kafka_chooses_the_same_partitions() -> None:
    """librdkafka's partitioner that is compatible with Java's, asked through its mock cluster."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    keys = [b"key-%d" % index for index in range(100)]
    chosen: dict[bytes, int] = {}
    producer = confluent_kafka.Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "partitioner": "murmur2_random"}
    )
    for key in keys:
        producer.produce(
            "orders", b"v", key, on_delivery=lambda error, m: chosen.update({m.key(): m.partition()})
        )
    producer.flush(60)
    count = len(producer.list_topics("orders").topics["orders"].partitions)
    blocks = encode(rows(key=keys, value=keys), partitions=count)
    ours = {record.key: partition for partition, records in read(blocks).items() for record in records}
    assert chosen == ours


@pytest.mark.java
def test_kafka_dump_log_reads_the_batches(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    log = folder / "00000000000000000000.log"
    headers = [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None]
    table = rows(key=[b"k", None], value=[b"first", None], headers=headers)
    data, offset = bytearray(), 0
    for codec in Codec:
        for block in encode(table, codec=codec):
            batch = block.seal(5, 0, offset, transactional=True)
            stamp(batch, 0, offset, len(batch) - 12, 0)
            data += batch
            offset += block.count
    log.write_bytes(data)
    assert len(list(iterate_headers(data))) == len(Codec)
    tool = "org.apache.kafka.tools.DumpLogSegments"
    shown = run_tool(tool, "--files", str(log), "--print-data-log", "--deep-iteration").check().stdout
    assert shown.count("isvalid: true") == len(Codec)
    assert shown.count("headerKeys: [h,n]") == len(Codec)
    assert shown.count("payload: first") == len(Codec)
