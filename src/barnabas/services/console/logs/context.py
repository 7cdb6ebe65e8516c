"""Context of a log line: the lines before and after it from the same file or program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from barnabas.common.types import TopicPartition
from barnabas.services.console.logs.chunks import LogChunk
from barnabas.services.console.logs.columns import LogLine, Longs, codes_of, line_at, milliseconds
from barnabas.services.console.logs.lines import LEVEL_TOPIC
from barnabas.services.console.logs.search import Mask


class Surroundings(msgspec.Struct):
    before: list[LogLine]
    line: LogLine
    after: list[LogLine]


class _Neighbour(NamedTuple):
    order: int
    row: int
    chunk: LogChunk
    at: int

    def line(self) -> LogLine:
        return line_at(self.chunk.rows, self.at, self.row)


def surroundings_of(
    chunks: Sequence[LogChunk], tp: TopicPartition, offset: int, around: int
) -> Surroundings | None:
    """Lines of the partition around an offset, in offset order. Entries of the template `logs`, which writes one topic
    per level, are merged by time."""
    anchor = _find(chunks, tp, offset)
    if anchor is None:
        return None
    line = anchor.line()
    before: list[_Neighbour] = []
    after: list[_Neighbour] = []
    for chunk in chunks:
        found = _neighbours(chunk, line)
        before += found.below(anchor, around)
        after += found.above(anchor, around)
    before = sorted(before, key=lambda each: each[:2])[-around:]
    after = sorted(after, key=lambda each: each[:2])[:around]
    return Surroundings([each.line() for each in before], line, [each.line() for each in after])


class _Neighbours(NamedTuple):
    chunk: LogChunk
    indexes: Longs
    orders: Longs

    def below(self, anchor: _Neighbour, most: int) -> list[_Neighbour]:
        return self._some(self._before(anchor), -most)

    def above(self, anchor: _Neighbour, most: int) -> list[_Neighbour]:
        rows = self.indexes + self.chunk.first_row
        return self._some(~self._before(anchor) & (rows != anchor.row), most)

    def _before(self, anchor: _Neighbour) -> Mask:
        rows = self.indexes + self.chunk.first_row
        return np.asarray(
            (self.orders < anchor.order) | ((self.orders == anchor.order) & (rows < anchor.row))
        )

    def _some(self, mask: Mask, most: int) -> list[_Neighbour]:
        chosen = np.flatnonzero(mask)
        nearest = chosen[np.lexsort((self.indexes[chosen], self.orders[chosen]))]
        taken: Iterable[int] = (nearest[most:] if most < 0 else nearest[:most]).tolist()
        return [self._at(each) for each in taken]

    def _at(self, number: int) -> _Neighbour:
        index = int(self.indexes[number])
        return _Neighbour(int(self.orders[number]), self.chunk.first_row + index, self.chunk, index)


def _find(chunks: Sequence[LogChunk], tp: TopicPartition, offset: int) -> _Neighbour | None:
    for chunk in reversed(chunks):
        mask = _is(chunk.rows, "topic", tp.topic) & _at_partition(chunk.rows, tp.partition)
        found = np.flatnonzero(mask & (_offsets(chunk.rows) == offset))
        if len(found):
            index = int(found[-1])
            order = int(_orders(chunk.rows, tp.topic)[index])
            return _Neighbour(order, chunk.first_row + index, chunk, index)
    return None


def _neighbours(chunk: LogChunk, line: LogLine) -> _Neighbours:
    rows = chunk.rows
    mask = _is(rows, "source", line.source)
    if mask.any():
        if LEVEL_TOPIC.fullmatch(line.topic):
            mask &= _is_level_topic(rows)
        else:
            mask &= _is(rows, "topic", line.topic) & _at_partition(rows, line.partition)
    indexes = np.flatnonzero(mask)
    return _Neighbours(chunk, indexes, _orders(rows, line.topic)[indexes])


def _orders(rows: pa.RecordBatch, topic: str) -> Longs:
    return milliseconds(rows.column("time")) if LEVEL_TOPIC.fullmatch(topic) else _offsets(rows)


def _offsets(rows: pa.RecordBatch) -> Longs:
    found: Longs = rows.column("offset").to_numpy(zero_copy_only=True)
    return found


def _at_partition(rows: pa.RecordBatch, partition: int) -> Mask:
    return np.asarray(rows.column("partition").to_numpy(zero_copy_only=True) == partition)


def _is(rows: pa.RecordBatch, column: str, value: str) -> Mask:
    found = rows.column(column)
    wanted = np.array([each == value for each in found.dictionary.to_pylist()], np.bool_)
    return np.asarray(wanted[codes_of(found)])


def _is_level_topic(rows: pa.RecordBatch) -> Mask:
    found = rows.column("topic")
    wanted = np.array([bool(LEVEL_TOPIC.fullmatch(each)) for each in found.dictionary.to_pylist()], np.bool_)
    return np.asarray(wanted[codes_of(found)])
