"""Apache Kafka's kafka-dump-log accepts our segments."""

from pathlib import Path

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.records.compression import Codec
from tests.support.builders.logs import NOW, append, batch, end_transaction, marker, new_log, produced
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool

COMPLAINTS = ("Mismatches in", "timestamp mismatch", "corrupt", "out of order", "isvalid: false")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with several segments, all codecs, idempotent and transactional batches, aborts included."""
    folder = tmp_path_factory.mktemp("log") / "orders-0"
    log = new_log(folder, LogConfig(segment_bytes=6000, index_interval_bytes=200))
    _fill(log)
    log.close()
    return folder


def _fill(log: Log) -> None:
    for number in range(100):
        timestamp = NOW + number + number % 7
        data = batch(b"x" * 20, str(number).encode(), timestamp=timestamp, compression=Codec(number % 5))
        append(log, data, epoch=number // 40)
    for sequence in range(10):
        append(log, produced(7, 0, sequence, b"idempotent"), epoch=3)
    for producer_id, committed in ((20, True), (21, False)):
        append(log, produced(producer_id, 3, 0, b"transactional", transactional=True), epoch=3)
        append(log, produced(producer_id, 3, 1, b"transactional", transactional=True), epoch=3)
        end_transaction(log, marker(producer_id, 3, committed=committed))
    append(log, produced(22, 0, 0, b"open", transactional=True), epoch=3)


def dump(folder: Path, suffix: str, *options: str) -> str:
    files = ",".join(str(path) for path in sorted(folder.glob(f"*{suffix}")))
    assert files
    result = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", files, *options).check()
    output = result.stdout + result.stderr
    # The tool starts to count at -1, and so complains about the first record of each later segment.
    gaps = [line for line in output.splitlines() if " is followed by " in line]
    assert all(line.strip().startswith("-1 is") for line in gaps), gaps
    for problem in COMPLAINTS:
        assert problem not in output, output
    return output


@requires_java
def test_segments_are_read_record_by_record(folder: Path) -> None:
    output = dump(folder, ".log", "--deep-iteration", "--print-data-log")
    assert output.count("isvalid: true") == 100 + 10 + 2 * 3 + 1
    assert output.count("payload: idempotent") == 10
    assert "endTxnMarker: ABORT" in output
    assert "endTxnMarker: COMMIT" in output


@requires_java
def test_offset_indexes_agree_with_the_segments(folder: Path) -> None:
    assert dump(folder, ".index").count("offset: ") > 10
    dump(folder, ".index", "--verify-index-only")
    assert "passed sanity check" in dump(folder, ".index", "--index-sanity-check")


@requires_java
def test_time_indexes_agree_with_the_segments(folder: Path) -> None:
    assert dump(folder, ".timeindex").count("timestamp: ") > 3
    dump(folder, ".timeindex", "--verify-index-only")
    assert "passed sanity check" in dump(folder, ".timeindex", "--index-sanity-check")


@requires_java
def test_transaction_indexes_are_read(folder: Path) -> None:
    assert "producerId: 21" in dump(folder, ".txnindex")


@requires_java
def test_producer_snapshots_are_read(folder: Path) -> None:
    output = dump(folder, ".snapshot")
    assert "producerId: 7 producerEpoch: 0" in output
    assert "producerId: 22" in output
