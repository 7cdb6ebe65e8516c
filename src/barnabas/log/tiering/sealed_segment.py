"""What a log gives to be copied to an object store: a sealed segment, and all that a reader must know of it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from barnabas.common.files import FileSlice


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction with a part below the end of a segment, whose marker lies at or above it. In the footer of the
    segment's object, too."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    committed: bool | None  # None: not decided when the segment was copied


class SealedSegment(NamedTuple):
    """The batches of [base, end), and what is known of them."""

    base: int
    end: int
    data: FileSlice  # whole batches; the file stays open as long as the slice is there
    largest_timestamp: int
    offset_index: bytes  # Kafka's .index, relative to `base` and to the start of `data`
    time_index: bytes  # Kafka's .timeindex, relative to `base`
    aborted: bytes  # Kafka's .txnindex: all aborted transactions with a part in [base, end)
    producers: bytes  # Kafka's .snapshot at `end`
    epochs: tuple[tuple[int, int], ...]  # from the log start to `end`
    open_transactions: tuple[OpenTransaction, ...] = ()
