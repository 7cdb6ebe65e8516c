"""Log of a source: its current contents, and its contents at the end of each epoch."""

from __future__ import annotations

import random
from typing import NamedTuple

from barnabas.records.batch import read_header, write_stamp
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record
from simulation.loop import START_MS

FETCHED = 4  # batches per fetch response
PRODUCERS = (1, 2)
LOG_OVERHEAD = 12
NO_EPOCH = -1


class SourceBatch(NamedTuple):
    base: int
    last: int
    epoch: int
    data: bytes

    @property
    def name(self) -> tuple[int, int, int]:
        return self.base, self.epoch, read_header(self.data).crc


class Fetched(NamedTuple):
    """Batches, or the end offset of the requested epoch at the source; with `is_gone`, neither is available."""

    batches: list[SourceBatch]
    diverging_epoch: int = NO_EPOCH
    diverging_end: int = -1
    is_gone: bool = False


class Source:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.epoch = rng.choice((0, 3))
        self.batches: list[SourceBatch] = []
        self.log_start = self._first = rng.choice((0, 0, 100))
        self._histories: dict[int, list[SourceBatch]] = {}
        self._open: dict[int, int] = {}  # producer id -> sequence
        self._value = 0
        self.cuts = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self._first

    # -- changes ------------------------------------------------------------------------------------

    def write(self) -> None:
        producer = self._rng.choice((0, 0, *PRODUCERS))
        if not producer:
            self._append(self._records())
        elif producer in self._open and self._rng.random() < 0.5:
            del self._open[producer]
            marker = EndTransactionMarker(self._rng.random() < 0.5, 0)
            self._append(end_transaction_marker(producer, 0, marker, timestamp=START_MS))
        else:
            sequence = self._open.setdefault(producer, 0)
            self._open[producer] += 1
            self._append(self._records(producer, sequence))

    def _records(self, producer: int = -1, sequence: int = -1) -> bytearray:
        self._value += 1
        count = 1 if producer >= 0 else self._rng.choice((1, 1, 3))
        records = [Record(0, START_MS, None, b"%d" % self._value) for _ in range(count)]
        if producer < 0:
            return build_batch(records)
        return build_batch(
            records, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    def _append(self, batch: bytearray) -> None:
        base = self.end
        write_stamp(batch, 0, base, len(batch) - LOG_OVERHEAD, self.epoch)
        last = base + read_header(batch).last_offset_delta
        self.batches.append(SourceBatch(base, last, self.epoch, bytes(batch)))

    def elect(self, *, unclean: bool) -> None:
        """Elect a leader; an unclean one may lack the last batches or whole epochs."""
        self._histories[self.epoch] = before = list(self.batches)
        if unclean:
            held = self._rng.choice(list(self._histories.values())[-3:])
            kept = max(len(held) - self._rng.randrange(6), 0)
            while kept < len(held) and held[kept].base < self.log_start:
                kept += 1
            self.batches = held[:kept]
            self.cuts += self.batches != before
            self.log_start = min(self.log_start, self.end)
        self._open.clear()  # sequences restart; open transactions stay open
        self.epoch += self._rng.choice((1, 1, 2))

    def delete(self) -> None:
        """Advance the log start offset, as retention does."""
        if self.batches:
            self.log_start = max(self.log_start, self._rng.choice(self.batches[-8:]).base)

    # -- responses ----------------------------------------------------------------------------------

    def fetch(self, offset: int, last_epoch: int) -> Fetched:
        if last_epoch != NO_EPOCH:
            epoch, end = self._end_of(last_epoch)
            if epoch != last_epoch or end < offset:
                return Fetched([], epoch, end)
        if not self.log_start <= offset <= self.end:
            return Fetched([], is_gone=True)
        return Fetched([each for each in self.batches if each.last >= offset][:FETCHED])

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """End offset of an epoch, as returned by OffsetForLeaderEpoch."""
        known = [each for each in self.batches if each.epoch <= epoch]
        if not known:
            return 0, self._first
        return known[-1].epoch, known[-1].last + 1

    def history(self, epoch: int) -> list[SourceBatch]:
        """Contents of the log at the end of an epoch."""
        return self.batches if epoch == self.epoch else self._histories.get(epoch, [])
