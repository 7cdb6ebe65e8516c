"""Logs with keys, and compactions that run in this process."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.compaction.candidates import (
    Candidate,
    CleanedGroup,
    CompactionLimits,
    CompactionPlan,
    CompactionResult,
    examine,
    make_plan,
)
from barnabas.log.compaction.cleaner import compact
from barnabas.log.compaction.swap import find_sources, swap_in
from barnabas.log.log import AppendResult, Log
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.control import ControlType, control_type
from barnabas.records.record import Record, iterate_records
from tests.support.builders.logs import NOW, append, content

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=2000,
    index_interval_bytes=200,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
)
PLENTY = CompactionLimits(1 << 20, float("inf"))

Pair = tuple[bytes | None, bytes | None]


def keyed(*pairs: Pair, timestamp: int = NOW, **options: Any) -> bytearray:
    records = [Record(0, timestamp + place, key, value) for place, (key, value) in enumerate(pairs)]
    return build_batch(records, **options)


def put(log: Log, *pairs: Pair, timestamp: int = NOW, **options: Any) -> AppendResult:
    return append(log, keyed(*pairs, timestamp=timestamp, **options), now_ms=timestamp)


def candidate(log: Log, cleaned_upto: int | None = None, now_ms: int = NOW) -> Candidate | None:
    log.flush()
    return examine(log, cleaned_upto, now_ms)


def plan_for(
    log: Log, cleaned_upto: int | None = None, now_ms: int = NOW, effort: CompactionLimits = PLENTY
) -> CompactionPlan | None:
    found = candidate(log, cleaned_upto, now_ms)
    return None if found is None else make_plan(found, effort, now_ms)


def run(log: Log, plan: CompactionPlan, now_ms: int = NOW) -> CompactionResult:
    """Compact, and swap each group in as soon as it is ready."""

    def swap(group: CleanedGroup) -> None:
        sources = find_sources(log, group.sources)
        assert sources is not None
        swap_in(log, sources, group.size, now_ms)

    return compact(plan, log.fs, lambda size: None, swap)


def clean(
    log: Log, cleaned_upto: int | None = None, now_ms: int = NOW, effort: CompactionLimits = PLENTY
) -> CompactionResult | None:
    plan = plan_for(log, cleaned_upto, now_ms, effort)
    return None if plan is None else run(log, plan, now_ms)


class Read(NamedTuple):
    header: BatchHeader
    records: list[Record]


def batches(log: Log, upper: int | None = None) -> Iterator[Read]:
    """Every batch with its records, as a reader from the start gets them."""
    offset = log.log_start_offset
    upper = log.log_end_offset if upper is None else upper
    while data := content(log.read(offset, 1 << 20, upper)):
        for position, header in iterate_headers(data):
            yield Read(header, list(iterate_records(data[position : position + header.size], header)))
            offset = header.next_offset


def records(log: Log) -> list[Record]:
    """All records of a read_uncommitted reader."""
    return [record for read in batches(log) if not read.header.is_control for record in read.records]


def committed(log: Log) -> list[Record]:
    """The records that a consumer with read_committed hands out, found as the Java client finds them."""
    stable = log.last_stable_offset
    coming = log.aborted_transactions(log.log_start_offset, stable)
    aborting: set[int] = set()
    found: list[Record] = []
    for header, contents in batches(log, stable):
        while coming and coming[0][1] <= header.last_offset:
            aborting.add(coming.pop(0)[0])
        if header.is_control:
            if contents and control_type(contents[0]) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found += [record for record in contents if record.offset < stable]
    return found


def final_values(found: list[Record]) -> dict[bytes | None, bytes]:
    """Final content of a table of these records."""
    table: dict[bytes | None, bytes] = {}
    for record in found:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
