"""The bytes of the small files, as Kafka's own code writes them."""

import pytest

from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition, uuid_from_text
from barnabas.log import checkpoints, names
from barnabas.log.checkpoints import CheckpointError
from barnabas.log.dirs import properties
from barnabas.log.dirs.properties import MetaProperties, MetaPropertiesError
from barnabas.log.producer import ProducerState, RememberedBatch
from barnabas.log.recovery.snapshots import ProducerSnapshotError, decode_snapshot, encode_snapshot
from barnabas.log.segments.indexes import IndexFileError, OffsetIndex, TimeIndex
from barnabas.testing.files import FaultyFileSystem

TOPIC_ID = uuid_from_text("AAECAwQFBgcICQoLDA0ODw")


def test_an_offset_index_holds_relative_offset_and_position() -> None:
    index = OffsetIndex()
    index.append(5, 1000)
    index.append(9, 70000)
    data = index.to_bytes()
    assert data == bytes.fromhex("00000005 000003e8 00000009 00011170")
    again = OffsetIndex.from_bytes(data, segment_size=80000)
    assert [again.lookup(offset) for offset in (0, 4, 5, 8, 9, 100)] == [0, 0, 1000, 1000, 70000, 70000]


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("00000005 000003"),
        bytes.fromhex("00000005 000003e8 00000005 000003e9"),
        bytes.fromhex("00000005 000003e8 00000006 000003e8"),
        bytes.fromhex("00000005 000003e8 00000000 00000000"),
        bytes.fromhex("00000005 00ffffff"),
    ],
    ids=["half an entry", "equal offsets", "equal positions", "zeros", "behind the end"],
)
def test_an_offset_index_that_cannot_be_right_is_refused(data: bytes) -> None:
    with pytest.raises(IndexFileError):
        OffsetIndex.from_bytes(data, segment_size=80000)


def test_a_time_index_holds_timestamp_and_relative_offset() -> None:
    index = TimeIndex()
    index.append(1000, 3)
    index.append(1000, 9)  # unchanged content
    index.append(2000, 12)
    data = index.to_bytes()
    assert data == bytes.fromhex("00000000000003e8 00000003 00000000000007d0 0000000c")
    again = TimeIndex.from_bytes(data)
    assert [again.lookup(timestamp) for timestamp in (0, 1000, 1001, 2000, 2001)] == [0, 0, 3, 3, 12]
    with pytest.raises(IndexFileError):
        TimeIndex.from_bytes(data[12:] + data[:12])


def test_a_producer_snapshot_has_version_1_and_a_checksum() -> None:
    producer = ProducerState(7, 2)
    producer.remember(
        2, RememberedBatch(last_sequence=41, last_offset=99, offset_delta=9, timestamp=1234), 1250
    )
    producer.coordinator_epoch = 3
    producer.transaction_start = 90
    data = encode_snapshot([producer])
    assert data[:2] == b"\x00\x01"
    assert data[6:] == (
        (1).to_bytes(4, "big")
        + (7).to_bytes(8, "big")
        + (2).to_bytes(2, "big")
        + (41).to_bytes(4, "big")
        + (99).to_bytes(8, "big")
        + (9).to_bytes(4, "big")
        + (1250).to_bytes(8, "big")
        + (3).to_bytes(4, "big")
        + (90).to_bytes(8, "big")
    )
    (again,) = decode_snapshot(data, written_ms=1300)
    assert (again.last_sequence, again.next_sequence, again.transaction_start) == (41, 42, 90)


@pytest.mark.parametrize("position", range(56))
def test_a_producer_snapshot_with_a_wrong_byte_is_refused(position: int) -> None:
    data = bytearray(encode_snapshot([ProducerState(7, 2)]))
    data[position] ^= 1
    with pytest.raises(ProducerSnapshotError):
        decode_snapshot(bytes(data), 0)


def test_a_producer_snapshot_of_any_shorter_length_is_refused() -> None:
    data = encode_snapshot([ProducerState(7, 2)])
    for length in range(len(data)):
        with pytest.raises(ProducerSnapshotError):
            decode_snapshot(data[:length], 0)


def test_offset_checkpoints_have_version_count_and_a_line_each() -> None:
    offsets = {TopicPartition("orders", 0): 5, TopicPartition("a.b-c", 12): 7}
    data = checkpoints.encode_offsets(offsets)
    assert data == b"0\n2\norders 0 5\na.b-c 12 7\n"
    assert checkpoints.decode_offsets(data) == offsets
    assert checkpoints.decode_epochs(b"0\n1\n3 40\n") == [(3, 40)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\norders 0 5\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 x\n",
        b"\xff\xfe\n",
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        checkpoints.decode_offsets(data)


def test_partition_metadata_names_the_topic_id() -> None:
    data = checkpoints.encode_partition_metadata(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.decode_partition_metadata(data) == TOPIC_ID
    with pytest.raises(CheckpointError):
        checkpoints.decode_partition_metadata(b"version: 0\n")


def test_meta_properties_have_version_1() -> None:
    meta = MetaProperties("cluster-0123456789abcd", 4, TOPIC_ID)
    lines = meta.encode().decode().splitlines()
    assert lines[1:] == [
        "cluster.id=cluster-0123456789abcd",
        "directory.id=AAECAwQFBgcICQoLDA0ODw",
        "node.id=4",
        "version=1",
    ]
    assert MetaProperties.decode(meta.encode()) == meta


@pytest.mark.parametrize(
    ("text", "problem"),
    [("version=0\nbroker.id=1\n", "version 0"), ("version=1\nnode.id=1\n", "missing"), ("", "version None")],
)
def test_invalid_meta_properties_have_a_reason(text: str, problem: str) -> None:
    with pytest.raises(MetaPropertiesError, match=problem):
        MetaProperties.decode(text.encode())


def test_a_clean_stop_is_marked_with_the_broker_epoch() -> None:
    fs = FaultyFileSystem()
    fs.make_folders("/data")
    assert properties.read_clean_shutdown(fs, "/data") is None
    properties.write_clean_shutdown(fs, "/data", 27)
    assert fs.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":27}'
    assert properties.read_clean_shutdown(fs, "/data") == 27
    fs.overwrite("/data/.kafka_cleanshutdown", b"")
    assert properties.read_clean_shutdown(fs, "/data") == -1
    properties.remove_clean_shutdown(fs, "/data")
    assert properties.read_clean_shutdown(fs, "/data") is None


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("orders", None),
        ("orders-", None),
        ("-0", None),
        ("orders-0.0123abc-delete", None),
        ("orders-0.0123abc-stray", None),
        ("orders-x", None),
    ],
)
def test_folders_are_named_by_topic_and_partition(name: str, partition: TopicPartition | None) -> None:
    assert names.partition_of_folder(name) == partition


def test_a_retired_folder_has_a_name_that_fits_into_a_file_system() -> None:
    name = names.retired_folder_name(TopicPartition("t" * 249, 1234), names.DELETE_FOLDER)
    assert len(name) <= 255
    assert name.endswith("-delete")
    assert names.partition_of_folder(name) is None


def test_the_boot_id_of_this_machine_does_not_change_while_it_runs() -> None:
    assert properties.kernel_boot_id() == properties.kernel_boot_id()
    assert LocalFileSystem().exists("/")
