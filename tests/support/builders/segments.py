"""Segments and manifests for the tests of tiering."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, TypeVar, cast

from barnabas.common.files import File, FileSlice
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.tiering.copying import SealedSegment
from barnabas.records.batch import iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.tiering.objects.layout import PartitionFolder, SegmentName
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter, SegmentEntry
from barnabas.tiering.objects.manifest_changes import add, new_manifest
from barnabas.tiering.objects.segment_build import SegmentBuild, at_once

T = TypeVar("T")

NOW = 1_700_000_000_000
FOLDER = PartitionFolder("cluster", "orders", bytes(range(16)), 0)
WRITER = ManifestWriter(0, 5, "broker 1, first start")


class MemoryFile:
    """A file that is only read."""

    def __init__(self, data: bytes, path: str = "00000000000000000000.log") -> None:
        self.data = data
        self.path = path
        self.size = len(data)

    def read(self, count: int, position: int) -> bytes:
        return self.data[position : position + count]


def batches(base: int, end: int, records: int = 1, epoch: int = 0, value: bytes = b"value") -> bytes:
    data = bytearray()
    for offset in range(base, end, records):
        count = min(records, end - offset)
        each = [Record(0, NOW + offset + n, b"k", b"%d %s" % (offset + n, value)) for n in range(count)]
        data += build_batch(each, base_offset=offset, leader_epoch=epoch)
    return bytes(data)


def sealed(
    base: int,
    end: int,
    data: bytes | None = None,
    epochs: Iterable[tuple[int, int]] = ((0, 0),),
    **fields: Any,
) -> SealedSegment:
    data = batches(base, end) if data is None else data
    offsets, times = OffsetIndex(), TimeIndex()
    last, largest = 0, -1
    for position, header in iterate_headers(data):
        largest = max(largest, header.max_timestamp)
        if position - last > 4096:
            offsets.append(header.last_offset - base, position)
            times.append(largest, header.last_offset - base)
            last = position
    return SealedSegment(
        base=base,
        end=end,
        data=FileSlice(cast(File, MemoryFile(data)), 0, len(data)),
        largest_timestamp=largest,
        offset_index=offsets.to_bytes(),
        time_index=times.to_bytes(),
        aborted=fields.pop("aborted", b""),
        producers=encode_snapshot([]),
        epochs=tuple(epochs),
        **fields,
    )


async def build(segment: SealedSegment, name: str = "") -> tuple[bytes, SegmentEntry]:
    name = name or str(SegmentName(segment.base, WRITER.leader_epoch, "00000000"))
    making = SegmentBuild(FOLDER, segment, WRITER.leader_epoch, name)
    data = b"".join([piece async for piece in making.pieces(at_once)])
    assert making.entry is not None
    return data, making.entry


def entry(base: int, end: int, epoch: int = 0, size: int = 100) -> SegmentEntry:
    name = str(SegmentName(base, epoch, "00000000"))
    return SegmentEntry(base, end, name, size, size, size + 50, NOW + end, 7, ((epoch, base),))


def manifest_of(*bounds: int, log_start: int | None = None) -> Manifest:
    """Segments between these offsets."""
    manifest = new_manifest(FOLDER, WRITER, bounds[0] if log_start is None else log_start)
    for base, end in pairwise(bounds):
        manifest = add(manifest, entry(base, end))
    return manifest


async def in_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)
