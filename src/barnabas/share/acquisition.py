"""Acquisition of records for a member: first those that were released, then those that were never delivered.

A record that failed repeatedly is likely to fail again, together with its neighbours: from half of the
permitted
deliveries on, fewer records are delivered together, and the last delivery is of a single record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.share.partition import SharePartition
from barnabas.share.runs import NO_MEMBER, InFlightBatch, RecordState
from barnabas.share.window import is_free

SUSPECTED_AT_LEAST_AFTER = 2  # deliveries, however low the limit is


class Span(NamedTuple):
    """The offsets of a batch in the log."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Consecutive records that a member has acquired, and the delivery count of each, this one included."""

    first: int
    last: int
    deliveries: int


class AcquireRequest(NamedTuple):
    """The limits of a fetch."""

    member: str
    max_records: int
    batch_size: int
    strict: bool
    """Never more than `max_records`, even if that leaves a batch of the log in two parts (KIP-1206)."""


def acquire(
    share: SharePartition,
    acquire_request: AcquireRequest,
    fetched_at: int,
    spans: Sequence[Span],
    now: float,
    delays: dict[int, int] | None = None,
) -> list[Acquired]:
    """Acquire records from the batches `spans`, which the log has from `fetched_at` on.

    `delays` are due times of records above the window, by offset; those that enter it are removed.
    """
    if not spans:
        return []
    _pass_gap(share, fetched_at, spans[0].first)
    end_before = share.end
    acquired, left = _acquire_released(share, acquire_request, spans, now)
    if left > 0 and share.end < spans[-1].last and not _is_suspect(share, acquired):
        _acquire_new(share, acquire_request._replace(max_records=left), spans, now, acquired, delays or {})
    return _joined(acquired, end_before)


def withdraw(share: SharePartition, acquired: Sequence[Acquired], first: int, last: int) -> list[Acquired]:
    """Finish records of aborted transactions without delivering them; return the rest of `acquired`.

    That is not stored: the next leader finds the same in the log.
    """
    left: list[Acquired] = []
    for each in acquired:
        low, high = max(each.first, first), min(each.last, last)
        if low > high:
            left.append(each)
            continue
        for run in share.runs.isolate(low, high):
            run.member = NO_MEMBER
            share.skip(run)
        left += [
            part
            for part in (each._replace(last=low - 1), each._replace(first=high + 1))
            if part.first <= part.last
        ]
    return left


def _pass_gap(share: SharePartition, fetched_at: int, first: int) -> None:
    """Skip offsets that compaction has removed from the log before they were delivered again."""
    for run in share.runs.within(fetched_at, min(first - 1, share.end)):
        if is_free(run):
            for isolated in share.runs.isolate(max(run.first, fetched_at), min(run.last, first - 1)):
                share.skip(isolated)


def _acquire_released(
    share: SharePartition, acquire_request: AcquireRequest, spans: Sequence[Span], now: float
) -> tuple[list[Acquired], int]:
    acquired: list[Acquired] = []
    left = acquire_request.max_records
    start = max(spans[0].first, share.start_offset)
    for run in share.runs.within(start, min(spans[-1].last, share.end)):
        if left <= 0:
            break
        if not is_free(run):
            continue
        size = _together(share, run)
        if size is not None and acquired:
            break
        first, last = max(run.first, start), min(run.last, spans[-1].last)
        if size is not None:
            last = min(last, first + size - 1)
        if acquire_request.strict:
            last = min(last, first + left - 1)
        for part in share.runs.isolate(first, last):
            share.lock(part, acquire_request.member, now)
            acquired.append(Acquired(part.first, part.last, part.count))
            left -= len(part)
        if size is not None:
            break
    return acquired, left


def _together(share: SharePartition, run: InFlightBatch) -> int | None:
    """The number of records of a run that may be delivered together; None for any number."""
    limit = share.settings.delivery_limit
    suspected = max(SUSPECTED_AT_LEAST_AFTER, -(-limit // 2))
    if run.count < suspected:
        return None
    if run.count >= limit - 1 and limit > SUSPECTED_AT_LEAST_AFTER:
        return 1
    return max(1, run.whole >> (run.count - suspected + 1))


def _is_suspect(share: SharePartition, acquired: list[Acquired]) -> bool:
    suspected = max(SUSPECTED_AT_LEAST_AFTER, -(-share.settings.delivery_limit // 2))
    return bool(acquired) and acquired[-1].deliveries > suspected


def _acquire_new(
    share: SharePartition,
    acquire_request: AcquireRequest,
    spans: Sequence[Span],
    now: float,
    acquired: list[Acquired],
    delays: dict[int, int],
) -> None:
    limit = min(acquire_request.max_records, share.room)
    if limit <= 0:
        return
    first_new = share.end + 1
    new = [Span(max(span.first, first_new), span.last) for span in spans if span.last >= first_new]
    if new[0].first > first_new:
        share.add_skipped(first_new, new[0].first - 1)
    for first, last in _pieces(_up_to(new, limit, acquire_request.strict), acquire_request.batch_size):
        if first > share.end + 1:
            share.add_skipped(share.end + 1, first - 1)
        for part, due_ms in _by_due_time(Span(first, last), delays):
            run = InFlightBatch(*part, RecordState.AVAILABLE)
            if due_ms:
                share.add_waiting(run, due_ms)
            else:
                share.add_locked(run, acquire_request.member, now)
                acquired.append(Acquired(*part, run.count))


def _by_due_time(span: Span, delays: dict[int, int]) -> list[tuple[Span, int]]:
    """Parts of a span with their due time; 0 for none."""
    if not delays:
        return [(span, 0)]
    parts: list[tuple[Span, int]] = []
    for offset in range(span.first, span.last + 1):
        due_ms = delays.pop(offset, 0)
        if parts and parts[-1][1] == due_ms:
            parts[-1] = (Span(parts[-1][0].first, offset), due_ms)
        else:
            parts.append((Span(offset, offset), due_ms))
    return parts


def _up_to(spans: Sequence[Span], limit: int, strict: bool) -> list[Span]:
    """The spans with the first `limit` offsets; the last one is complete unless the limit is strict."""
    chosen: list[Span] = []
    last = spans[0].first + limit - 1
    for first, end in spans:
        if first > last:
            break
        chosen.append(Span(first, min(end, last) if strict else end))
    return chosen


def _pieces(spans: Sequence[Span], size: int) -> list[Span]:
    """Join neighbouring spans into pieces of about `size` offsets; a larger span stays whole."""
    pieces: list[Span] = []
    for span in spans:
        if pieces and span.last - pieces[-1].first < size:
            pieces[-1] = Span(pieces[-1].first, span.last)
        else:
            pieces.append(span)
    return pieces


def _joined(acquired: list[Acquired], end_before: int) -> list[Acquired]:
    """Redelivered neighbours with one delivery count are answered as one; new ones in the pieces asked for."""
    joined: list[Acquired] = []
    for each in acquired:
        before = joined[-1] if joined else None
        is_next = (
            before is not None and before.last + 1 == each.first and before.deliveries == each.deliveries
        )
        if before is not None and is_next and each.first <= end_before:
            joined[-1] = Acquired(before.first, each.last, each.deliveries)
        else:
            joined.append(each)
    return joined
