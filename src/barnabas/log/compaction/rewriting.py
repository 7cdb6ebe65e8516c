"""A batch after some of its records were taken out."""

from __future__ import annotations

from barnabas.log.compaction.choosing import Kept
from barnabas.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from barnabas.records.builder import assemble_batch
from barnabas.records.varints import read_varint, varint

_SMALLEST_TIMESTAMP, _LARGEST_TIMESTAMP = -(1 << 63), (1 << 63) - 1
_KINDS = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def delete_horizon(header: BatchHeader) -> int | None:
    """When the tombstones or the marker in the batch may go (KIP-534); None as long as nobody has decided."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def empty_batch(header: BatchHeader) -> bytearray:
    """The header alone, in the form that Kafka's cleaner gives it."""
    bare = header._replace(attributes=header.attributes & _KINDS, base_timestamp=NO_TIMESTAMP, record_count=0)
    return assemble_batch(bare, b"")


def rebuilt_batch(header: BatchHeader, kept: Kept, horizon: int | None = None) -> bytearray:
    """A batch of the kept records with their offsets; a `horizon` becomes its delete horizon."""
    runs = kept.runs
    if not header.is_log_append_time:
        header = header._replace(max_timestamp=_fitting(header.base_timestamp + kept.largest_timestamp))
    if horizon is not None:
        # The horizon takes the place of the base timestamp, which all others are relative to.
        shift = header.base_timestamp - horizon
        runs = [_with_other_base(run, shift) for run in runs]
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon)
    return assemble_batch(header._replace(record_count=kept.record_count), b"".join(runs))


def _fitting(timestamp: int) -> int:
    """Timestamps are the clients', and one that is nearly as large as can be gets no larger."""
    return min(max(timestamp, _SMALLEST_TIMESTAMP), _LARGEST_TIMESTAMP)


def _with_other_base(run: bytes, shift: int) -> bytes:
    """The same records with `shift` added to their timestamps."""
    records = bytearray()
    position = 0
    while position < len(run):
        length, start = read_varint(run, position)
        timestamp, rest = read_varint(run, start + 1)
        position = start + length
        body = run[start : start + 1] + varint(_fitting(timestamp + shift)) + run[rest:position]
        records += varint(len(body)) + body
    return bytes(records)
