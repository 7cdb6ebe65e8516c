"""Record batches (magic 2). `batch` reads and stamps headers, `builder` encodes batches (`build_batch`,
`build_batch_at`), `record` and `validation` decode and check records, `compression` holds the codecs. `columnar`
converts batches to Arrow and back with compiled loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.records.blocks import Block as Block
    from barnabas.records.blocks import LineEncoder as LineEncoder
    from barnabas.records.blocks import block_of as block_of
    from barnabas.records.builder import MAX_RECORD_OVERHEAD as MAX_RECORD_OVERHEAD
    from barnabas.records.builder import TIMESTAMP as TIMESTAMP
    from barnabas.records.builder import assemble_batch as assemble_batch
    from barnabas.records.builder import build_batch as build_batch
    from barnabas.records.builder import build_batch_at as build_batch_at
    from barnabas.records.builder import encode_record as encode_record
    from barnabas.records.builder import largest_encoded_size as largest_encoded_size
    from barnabas.records.control import AbortedTransactions as AbortedTransactions
    from barnabas.records.control import ControlType as ControlType
    from barnabas.records.control import EndTransactionMarker as EndTransactionMarker
    from barnabas.records.control import control_type as control_type
    from barnabas.records.control import end_transaction_marker as end_transaction_marker
    from barnabas.records.control import parse_end_transaction as parse_end_transaction
    from barnabas.records.record import Buffer as Buffer
    from barnabas.records.record import Header as Header
    from barnabas.records.record import InvalidRecords as InvalidRecords
    from barnabas.records.record import Record as Record
    from barnabas.records.record import iterate_records as iterate_records
    from barnabas.records.record import iterate_times as iterate_times
    from barnabas.records.record import record_data as record_data
    from barnabas.records.record import unpacked_data as unpacked_data
    from barnabas.records.validation import TimestampBounds as TimestampBounds
    from barnabas.records.validation import repack as repack
    from barnabas.records.validation import validate_data as validate_data
    from barnabas.records.varints import read_varint as read_varint
    from barnabas.records.varints import varint as varint
    from barnabas.records.walking import MIN_RECORD as MIN_RECORD
    from barnabas.records.walking import enable_compiled as enable_compiled
else:
    __getattr__ = lazy_exports(__name__)
