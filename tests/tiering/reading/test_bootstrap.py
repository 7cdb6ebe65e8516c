"""Bootstrap of a log after a remote segment, including one cut by an unclean election."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.log.producer import ProducerState
from barnabas.log.recovery.snapshots import decode_snapshot, encode_snapshot
from barnabas.log.segments.aborted_index import AbortedTransaction, encode_aborted
from barnabas.log.tiering.copying import OpenTransaction
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record
from barnabas.tiering.objects.manifest import encode
from barnabas.tiering.objects.manifest_changes import cut
from tests.support.builders.segments import FOLDER, NOW, sealed
from tests.tiering.reading.test_remote_log import Bench, running


def written(producer_id: int, base: int, sequence: int, epoch: int = 0, transactional: bool = True) -> bytes:
    return bytes(
        build_batch(
            [Record(0, NOW, b"k", b"v" * 300)],
            base_offset=base,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
            leader_epoch=epoch,
        )
    )


def marker(producer_id: int, base: int, committed: bool) -> bytes:
    ending = EndTransactionMarker(committed, 4)
    return bytes(end_transaction_marker(producer_id, 0, ending, timestamp=NOW, base_offset=base))


def snapshot(*producers: ProducerState) -> bytes:
    return encode_snapshot(producers)


async def copy(bench: Bench, base: int, data: bytes, end: int, producers: bytes, **fields: Any) -> None:
    """As `Bench.copy`, with separate producers."""
    segment = sealed(base, end, data, **fields)._replace(producers=producers)
    await bench.copy_sealed(segment)


def test_it_may_begin_behind_any_segment(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100, epochs=((1, 0),))
        await bench.copy(100, 150, epochs=((1, 0), (4, 120)))
        for wanted, offset, epochs in (
            (None, 150, 2),
            (150, 150, 2),
            (130, 150, 2),
            (100, 100, 1),
            (40, 100, 1),
        ):
            found = await bench.log.bootstrap(wanted)
            assert (found.tiered_end, len(found.epochs)) == (offset, epochs), wanted
        assert (await bench.log.bootstrap(1000)).tiered_end == 150

    running(tmp_path, test)


def test_behind_a_cut_segment_the_producers_are_those_at_the_cut(tmp_path: Path) -> None:
    """Producer 1 continues across the cut, 2 started a transaction below it that was aborted after it, 3 one that
    was committed, 4 started and ended one below."""
    before = ProducerState(1)
    before.bump_epoch(0)
    data = b"".join(
        [
            written(1, 10, 5, transactional=False),
            written(2, 11, 0),
            written(4, 12, 0),
            marker(4, 13, committed=True),
            written(3, 14, 0),
            written(1, 15, 6, epoch=2, transactional=False),  # the cut
            marker(2, 16, committed=False),
            marker(3, 17, committed=True),
        ]
    )
    aborted = encode_aborted([AbortedTransaction(2, 11, 16, 17)])

    async def test(bench: Bench) -> None:
        await copy(
            bench, 0, b"".join(written(1, n, n, transactional=False) for n in range(10)), 10, snapshot(before)
        )
        await copy(bench, 10, data, 18, snapshot(), aborted=aborted, epochs=((0, 0), (2, 15)))
        bench.store.set_contents(FOLDER.manifest, encode(cut(bench.manifest, 15, NOW)))
        found = await bench.log.bootstrap()
        assert (found.tiered_end, found.epochs) == (15, ((0, 0),))
        known = {each.producer_id: each for each in decode_snapshot(found.producers, NOW)}
        assert known.keys() == {1, 2, 3, 4}
        assert (known[1].last_sequence, known[1].last_offset) == (5, 10)
        assert [known[each].transaction_start for each in (1, 2, 3, 4)] == [None, 11, 14, None]
        assert set(found.open_transactions) == {
            OpenTransaction(2, 0, 11, False),
            OpenTransaction(3, 0, 14, True),
        }

    running(tmp_path, test)
