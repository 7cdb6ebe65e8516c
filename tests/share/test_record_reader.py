"""Reading records for dead letters and delays: any content, bounded memory."""

import asyncio
from pathlib import Path

from barnabas.common.threads import ThreadBackground
from barnabas.log.log import Log
from barnabas.metrics.topics import TopicCounters
from barnabas.records.batch import write_crc
from barnabas.records.builder import encode_record
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Record
from barnabas.replication.partition import Partition
from barnabas.share import record_reader as share_records
from tests.support.builders.logs import NOW, TOPIC_ID, append, batch, new_log
from tests.support.builders.records import batch_of


def read(log: Log, first: int, last: int) -> tuple[list[Record], int]:
    partition = Partition("orders", 0, TOPIC_ID, log, 1, TopicCounters("orders"))

    async def run() -> tuple[list[Record], int]:
        threads = ThreadBackground(asyncio.get_running_loop(), 1, "reads")
        try:
            return await share_records.read_records(threads, partition, first, last)
        finally:
            threads.close()

    return asyncio.run(run())


def test_a_batch_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    append(log, batch(b"before"))
    garbage = batch(b"x" * 50)
    garbage[61:70] = b"\xff" * 9
    write_crc(garbage, 0, len(garbage))
    append(log, garbage)
    append(log, batch(b"after"))
    records, seen = read(log, 0, 2)
    assert ([record.value for record in records], seen) == ([b"before", b"after"], 2)


def test_a_record_that_is_repeated_without_end_is_read_once(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    number = 1_000_000
    data = encode_record(0, 0, Record(0, NOW, None, None)) * number
    append(log, batch_of(compress(Codec.ZSTD, data), number, Codec.ZSTD))
    records, seen = read(log, 0, number - 1)
    assert ([record.offset for record in records], seen) == ([0], number - 1)


def test_heavy_batches_are_read_in_parts(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    append(log, batch(*[bytes(1 << 20)] * 30, compression=Codec.ZSTD))
    append(log, batch(b"last"))
    found: list[int] = []
    rounds, seen = 0, -1
    while seen < 30:
        records, seen = read(log, seen + 1, 30)
        found += [record.offset for record in records]
        rounds += 1
    assert (found, rounds) == (list(range(31)), 2)
