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
    records = kept.records
    if not header.is_log_append_time:
        header = header._replace(max_timestamp=header.base_timestamp + kept.largest_timestamp)
    if horizon is not None:
        # The horizon takes the place of the base timestamp, which all others are relative to.
        shift = header.base_timestamp - horizon
        records = [_with_later_base(record, shift) for record in records]
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon)
    return assemble_batch(header._replace(record_count=len(records)), b"".join(records))


def _with_later_base(record: bytes, shift: int) -> bytes:
    _, start = read_varint(record, 0)
    timestamp, rest = read_varint(record, start + 1)
    body = record[start : start + 1] + varint(timestamp + shift) + record[rest:]
    return varint(len(body)) + body
