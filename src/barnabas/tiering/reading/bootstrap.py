"""State for a log restored from tiered storage: leader epochs, producers, open transactions.

The footer of a segment holds the state at its end. A segment truncated by an unclean election ends earlier: then the
producers at its base are loaded, and its batches up to the new end are replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.files import ReadableFile
from barnabas.log import ProducerStates
from barnabas.log.recovery import (
    ProducerSnapshotError,
    decode_snapshot,
    encode_snapshot,
    replay_batch,
    transaction_marker,
)
from barnabas.log.segments import SCAN_CHUNK, BadBatch, walk_headers
from barnabas.log.tiering import OpenTransaction
from barnabas.tiering.objects.manifest import Epochs, Manifest
from barnabas.tiering.objects.segment_object import PRODUCERS, BadObjectError, check_section
from barnabas.tiering.reading.remote_index_cache import SegmentIndexes

if TYPE_CHECKING:
    from barnabas.tiering.reading.remote_log import ReadingParts, RemoteLog


class Bootstrap(NamedTuple):
    log_start: int
    tiered_end: int  # start of the local log: the end of a segment
    epochs: Epochs
    producers: bytes  # Kafka's .snapshot
    open_transactions: tuple[OpenTransaction, ...]


async def bootstrap(
    log: RemoteLog, parts: ReadingParts, manifest: Manifest, target_offset: int | None
) -> Bootstrap:
    """State after the segment that holds the record before `target_offset`; by default, after the last segment."""
    end = manifest.tiered_end if target_offset is None else min(target_offset, manifest.tiered_end)
    if not manifest.parts or end <= manifest.parts[0].base:
        return Bootstrap(manifest.log_start, manifest.tiered_end, (), encode_snapshot(()), ())
    segment = await log.segment_at(end - 1)
    entry, footer = segment.entry, segment.footer
    if footer.end == entry.end:
        producers = await _stored_producers(parts, segment)
        return Bootstrap(manifest.log_start, entry.end, footer.epochs, producers, footer.open_transactions)
    states = await _producers_behind(log, parts, manifest, segment)
    epochs = tuple(each for each in footer.epochs if each[1] < entry.end)
    return Bootstrap(
        manifest.log_start, entry.end, epochs, encode_snapshot(states), _open_in(segment, states)
    )


async def _producers_behind(
    log: RemoteLog, parts: ReadingParts, manifest: Manifest, segment: SegmentIndexes
) -> ProducerStates:
    entry, footer = segment.entry, segment.footer
    if footer.end == entry.end:
        return _states(segment, await _stored_producers(parts, segment), parts.clock.now_ms())
    if entry.base > manifest.parts[0].base:
        states = await _producers_behind(log, parts, manifest, await log.segment_at(entry.base - 1))
    else:
        states = ProducerStates()
    for number, chunk in enumerate(footer.chunks):
        if chunk.base_offset < entry.end:
            file = await parts.chunks.load(segment.chunk(number))
            await parts.threads.call(lambda: _replay(segment, number, file, states))  # noqa: B023
    return states


def _replay(segment: SegmentIndexes, number: int, file: ReadableFile, states: ProducerStates) -> None:
    start, end = segment.footer.chunk_range(number)
    written_ms = segment.footer.largest_timestamp
    try:
        for position, header in walk_headers(file, 0, end - start, SCAN_CHUNK):
            if header.base_offset >= segment.entry.end:
                return
            if header.producer_id >= 0:
                batch = file.read(header.size, position) if header.is_control else b""
                marker = transaction_marker(batch, header) if header.is_control else None
                replay_batch(states, None, header, header.base_offset, marker, written_ms)
    except BadBatch as error:
        raise BadObjectError(f"{segment.key}: chunk at {start}: {error}") from error


def _states(segment: SegmentIndexes, snapshot: bytes, now_ms: int) -> ProducerStates:
    states = ProducerStates()
    try:
        states.restore(decode_snapshot(snapshot, now_ms))
    except ProducerSnapshotError as error:
        raise BadObjectError(f"{segment.key}: the producer snapshot is damaged: {error}") from error
    return states


async def _stored_producers(parts: ReadingParts, segment: SegmentIndexes) -> bytes:
    key, footer = segment.key, segment.footer
    section = footer.sections[PRODUCERS]
    if not section.length:
        return encode_snapshot(())
    data = await parts.store.get_range(key, section.position, section.position + section.length)
    check_section(key, footer, PRODUCERS, data)
    return bytes(data)


def _open_in(segment: SegmentIndexes, states: ProducerStates) -> tuple[OpenTransaction, ...]:
    """Return transactions open at the cut, with their outcome: all ended before the copy; the index lists aborted
    ones."""
    aborted = {(each.producer_id, each.first_offset) for each in segment.aborted}
    return tuple(
        OpenTransaction(p.producer_id, p.epoch, first, (p.producer_id, first) not in aborted)
        for p in states
        if (first := p.transaction_start) is not None
    )
