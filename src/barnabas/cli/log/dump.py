"""A segment's file as a document: its batches, optionally with their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.common.files import LocalFileSystem
from barnabas.log.segments import BadBatch, walk_batches
from barnabas.records import InvalidRecords, Record, control_type, iterate_records
from barnabas.records.batch import BatchHeader
from barnabas.records.compression import Codec


def describe_segment(path: Path, *, records: bool) -> dict[str, Any]:
    """Describe all batches up to the first damaged one; `problem` describes the damage."""
    file = LocalFileSystem().open(str(path))
    batches: list[dict[str, Any]] = []
    document: dict[str, Any] = {"file": str(path), "bytes": file.size, "batches": batches}
    try:
        for position, header, batch in walk_batches(file, 0, file.size):
            batches.append(_batch(position, header))
            if records:
                batches[-1]["contents"] = [
                    _record(record, header) for record in iterate_records(batch, header)
                ]
    except (BadBatch, InvalidRecords) as error:
        document["problem"] = str(error)
    finally:
        file.close()
    return document


def _batch(position: int, header: BatchHeader) -> dict[str, Any]:
    return {
        "position": position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "compression": Codec(header.compression).name.lower(),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _record(record: Record, header: BatchHeader) -> dict[str, Any]:
    document: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        kind = control_type(record)
        return {**document, "control": "unknown" if kind is None else kind.name.lower()}
    return {
        **document,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": {name: _text(value) for name, value in record.headers},
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
