"""Apache Kafka's kafka-dump-log accepts compacted segments."""

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.log.log import Log
from barnabas.records.compression import Codec
from tests.log.test_kafka_reads_our_files import COMPLAINTS
from tests.support.builders.compacted_logs import COMPACTED, Pair, clean, keyed, put
from tests.support.builders.logs import NOW, append, end_transaction, marker, new_log
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool

CONFIG = replace(COMPACTED, segment_bytes=20_000, index_interval_bytes=500)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition after several compactions: all codecs, tombstones, idempotence, transactions, empty batches."""
    folder = tmp_path_factory.mktemp("log") / "orders-0"
    log = new_log(folder, CONFIG)
    upto, now = 0, NOW
    for number in range(3):
        _fill(log, number, now)
        log.roll()
        result = clean(log, upto, now)
        assert result is not None
        upto = result.cleaned_upto
        now += 400
    log.close()
    return folder


def _fill(log: Log, round_number: int, now: int) -> None:
    for number in range(100):
        keys = [b"key-%d" % (number * place % 61) for place in range(1, 5)]
        pairs: list[Pair] = [(key, None if number % 17 == 16 else b"value-%d" % number) for key in keys]
        pairs.append((b"only-%d-%d" % (round_number, number), b"x"))
        put(log, *pairs, timestamp=now + number, compression=Codec(number % 5))
    for producer_id, committed in ((20, True), (21, False)):
        data = keyed(
            (b"key-%d" % producer_id, b"in a transaction"),
            (b"only-%d" % round_number, b"x"),
            timestamp=now,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=2 * round_number,
            transactional=True,
        )
        append(log, data, now_ms=now)
        end_transaction(log, marker(producer_id, 0, committed=committed, timestamp=now), now)


def dump(folder: Path, suffix: str, *options: str) -> str:
    files = ",".join(str(path) for path in sorted(folder.glob(f"*{suffix}")))
    assert files
    result = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", files, *options).check()
    output = result.stdout + result.stderr
    for problem in COMPLAINTS:
        assert problem not in output, output
    return output


@requires_java
def test_segments_are_read_record_by_record(folder: Path) -> None:
    output = dump(folder, ".log", "--deep-iteration", "--print-data-log")
    assert "deleteHorizonMs: OptionalLong[" in output
    assert "count: 0" in output  # a batch without records
    assert "endTxnMarker: ABORT" in output
    assert "isvalid: true" in output


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
