"""Batches exchanged with Kafka's Java code: kafka-dump-log and Kafka's record classes (java/RecordFile.java)."""

import re
import shutil
from pathlib import Path

import pytest

from barnabas.records.batch import iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec
from barnabas.records.control import EndTransactionMarker, end_transaction_marker, parse_end_transaction
from barnabas.records.record import Record, iterate_records, record_data
from barnabas.records.validation import repack
from tests.support.builders.records import CODECS, EXAMPLES, NOW
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.programs import in_ci

pytestmark = requires_java

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
RECORD_FILE = Path(__file__).parent / "java" / "RecordFile.java"
MARKER = EndTransactionMarker(committed=True, coordinator_epoch=9)
LEVELS = [
    (Codec.GZIP, 1),
    (Codec.GZIP, 9),
    (Codec.LZ4, 1),
    (Codec.LZ4, 17),
    (Codec.ZSTD, -5),
    (Codec.ZSTD, 19),
]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """The examples in every codec, as one transaction, and its commit marker."""
    offset, log = 0, bytearray()
    for codec in CODECS:
        log += build_batch(
            EXAMPLES,
            base_offset=offset,
            compression=codec,
            producer_id=5,
            producer_epoch=1,
            base_sequence=offset,
            transactional=True,
            leader_epoch=2,
        )
        offset += len(EXAMPLES)
    log += end_transaction_marker(5, 1, MARKER, timestamp=NOW, base_offset=offset, leader_epoch=2)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    return path


@pytest.fixture
def java_compiler() -> None:
    if shutil.which("javac") is not None:
        return
    if in_ci():
        pytest.fail("CI must not skip this: no `javac` on PATH", pytrace=False)
    pytest.skip("no `javac` on PATH: this test compiles a small program against Kafka's classes")


def read_log(path: Path) -> list[Record]:
    log = path.read_bytes()
    return [
        record
        for position, header in iterate_headers(log)
        for record in iterate_records(log[position : position + header.size], header)
    ]


def as_printed(codec: Codec, control: bool, record: Record) -> str:
    """The line that RecordFile.java prints for a record."""
    headers = ";".join(f"{name}={_hex(value)}" for name, value in record.headers)
    name = codec.name.lower()
    control_text = str(control).lower()
    fields = (
        name,
        control_text,
        record.offset,
        record.timestamp,
        _hex(record.key),
        _hex(record.value),
        headers,
    )
    return ",".join(map(str, fields))


def _hex(data: bytes | None) -> str:
    return "null" if data is None else data.hex()


def test_kafka_dump_log_reads_every_codec_and_complains_of_nothing(segment: Path) -> None:
    done = run_tool(DUMP_LOG, "--files", str(segment), "--deep-iteration", "--print-data-log").check()
    batches = re.findall(
        r"^baseOffset.* compresscodec: (\w+) crc: \d+ isvalid: (\w+)$", done.stdout, re.MULTILINE
    )
    assert batches == [*((codec.name.lower(), "true") for codec in CODECS), ("none", "true")]
    for offset in range(0, 35, 7):
        assert (
            f"| offset: {offset} CreateTime: {NOW} keySize: 3 valueSize: 5 sequence: {offset} " in done.stdout
        )
        assert f"| offset: {offset + 2} CreateTime: {NOW + 90_000} keySize: 9 valueSize: -1 " in done.stdout
        assert f"| offset: {offset + 3} CreateTime: {NOW} keySize: -1 valueSize: -1 " in done.stdout
        assert f"| offset: {offset + 6} CreateTime: {NOW + 3} keySize: 5 valueSize: 153600 " in done.stdout
    assert done.stdout.count("headerKeys: [trace,empty,null,trace]") == 5
    assert "endTxnMarker: COMMIT coordinatorEpoch: 9" in done.stdout
    assert not re.search(
        "corrupt|mismatch|invalid|non-consecutive|exception", done.stdout + done.stderr, re.IGNORECASE
    )


@pytest.mark.usefixtures("java_compiler")
def test_kafkas_classes_find_every_byte_of_our_records(segment: Path) -> None:
    log = segment.read_bytes()
    expected = []
    for position, header in iterate_headers(log):
        records = iterate_records(log[position : position + header.size], header)
        expected += [as_printed(Codec(header.compression), header.is_control, record) for record in records]
    done = run_tool(str(RECORD_FILE), "read", str(segment)).check()
    assert done.stdout.splitlines() == expected
    assert len(expected) == len(CODECS) * len(EXAMPLES) + 1


@pytest.mark.usefixtures("java_compiler")
def test_kafkas_classes_read_every_level_of_recompression(tmp_path: Path) -> None:
    batch = build_batch(EXAMPLES)
    header = next(iterate_headers(batch))[1]
    data = record_data(batch, header)
    path = tmp_path / "recompressed.log"
    path.write_bytes(b"".join(repack(data, header, codec, level) for codec, level in LEVELS))
    done = run_tool(str(RECORD_FILE), "read", str(path)).check()
    assert done.stdout.splitlines() == [
        as_printed(codec, False, record) for codec, _ in LEVELS for record in EXAMPLES
    ]


@pytest.mark.usefixtures("java_compiler")
def test_batches_of_kafkas_classes_are_read_in_every_codec(segment: Path, tmp_path: Path) -> None:
    by_java = tmp_path / "java.log"
    run_tool(str(RECORD_FILE), "rewrite", str(segment), str(by_java)).check()
    *records, marker = read_log(by_java)
    assert records == [record._replace(offset=offset) for offset, record in enumerate(EXAMPLES * len(CODECS))]
    assert parse_end_transaction(marker) == MARKER
    log = by_java.read_bytes()
    assert [header.compression for _, header in iterate_headers(log)] == [*CODECS, Codec.NONE]


@pytest.mark.usefixtures("java_compiler")
def test_our_uncompressed_batches_and_markers_are_byte_for_byte_those_of_java(
    segment: Path, tmp_path: Path
) -> None:
    by_java = tmp_path / "java.log"
    run_tool(str(RECORD_FILE), "rewrite", str(segment), str(by_java)).check()
    ours, expected = (split(path.read_bytes()) for path in (segment, by_java))
    assert ours[0] == expected[0]
    assert ours[-1] == expected[-1]


def split(log: bytes) -> list[bytes]:
    return [log[position : position + header.size] for position, header in iterate_headers(log)]
