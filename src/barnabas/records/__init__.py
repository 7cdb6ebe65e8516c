"""Record batches (magic 2). `batch` reads and stamps headers, `builder` encodes batches (`build_batch`,
`build_batch_at`), `record` and `validation` decode and check records, `compression` holds the codecs. `columnar`
converts batches to Arrow and back with compiled loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.records.blocks import Block, block_of
    from barnabas.records.builder import (
        assemble_batch,
        build_batch,
        build_batch_at,
        encode_record,
        largest_encoded_size,
    )
    from barnabas.records.control import (
        AbortedTransactions,
        ControlType,
        EndTransactionMarker,
        control_type,
        end_transaction_marker,
        parse_end_transaction,
    )
    from barnabas.records.lines import LineEncoder
    from barnabas.records.record import (
        Buffer,
        Header,
        InvalidRecords,
        Record,
        iterate_records,
        iterate_times,
        record_data,
        unpacked_data,
    )
    from barnabas.records.validation import TimestampBounds, repack, validate_data
    from barnabas.records.varints import read_varint, varint
    from barnabas.records.walking import MIN_RECORD, want_compiled
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "blocks": "Block block_of",
            "builder": "assemble_batch build_batch build_batch_at encode_record largest_encoded_size",
            "control": (
                "AbortedTransactions ControlType EndTransactionMarker control_type end_transaction_marker "
                "parse_end_transaction"
            ),
            "lines": "LineEncoder",
            "record": "Buffer Header InvalidRecords Record iterate_records iterate_times record_data unpacked_data",
            "validation": "TimestampBounds repack validate_data",
            "varints": "read_varint varint",
            "walking": "MIN_RECORD want_compiled",
        },
    )

__all__ = [
    "MIN_RECORD",
    "AbortedTransactions",
    "Block",
    "Buffer",
    "ControlType",
    "EndTransactionMarker",
    "Header",
    "InvalidRecords",
    "LineEncoder",
    "Record",
    "TimestampBounds",
    "assemble_batch",
    "block_of",
    "build_batch",
    "build_batch_at",
    "control_type",
    "encode_record",
    "end_transaction_marker",
    "iterate_records",
    "iterate_times",
    "largest_encoded_size",
    "parse_end_transaction",
    "read_varint",
    "record_data",
    "repack",
    "unpacked_data",
    "validate_data",
    "varint",
    "want_compiled",
]
