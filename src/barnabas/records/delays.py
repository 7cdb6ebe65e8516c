"""When a record wants to be delivered to share groups, in topics with `barnabas.delay.enable`.

Two headers, both with a decimal number: `barnabas-deliver-at` is a moment in epoch milliseconds, `barnabas-delay-ms`
is counted from the record's timestamp. The last one in a record counts.
"""

from __future__ import annotations

from barnabas.files import Bytes
from barnabas.records.batch import BatchHeader
from barnabas.records.record import InvalidRecords, Record, iterate_records

DELIVER_AT_HEADER = "barnabas-deliver-at"
DELAY_HEADER = "barnabas-delay-ms"

NOT_DELAYED = 0
MOST_DIGITS = 18  # below 2^63


def due_ms(record: Record) -> int:
    """When the record may be delivered; 0 for at once. ValueError when a header holds no number."""
    due = NOT_DELAYED
    for name, value in record.headers:
        if name == DELIVER_AT_HEADER:
            due = _number(value)
        elif name == DELAY_HEADER:
            due = record.timestamp + _number(value)
    return due


def _number(value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > MOST_DIGITS:
        raise ValueError(value)
    return int(value)


def check_delays(batch: Bytes, header: BatchHeader, now_ms: int, retention_ms: int | None) -> None:
    """InvalidRecords when a record could not be delivered in time: it would be deleted before (None: never)."""
    if header.is_control:
        return
    for index, record in enumerate(iterate_records(batch, header)):
        try:
            due = due_ms(record)
        except ValueError:
            raise _refused(
                index, f"{DELIVER_AT_HEADER} and {DELAY_HEADER} need a number of milliseconds"
            ) from None
        if retention_ms is not None and due - now_ms > retention_ms:
            raise _refused(
                index,
                f"the record is to be delivered in {due - now_ms} ms, but is kept for {retention_ms} ms "
                "only: raise the topic's retention.ms, or deliver it earlier",
            )


def _refused(index: int, problem: str) -> InvalidRecords:
    return InvalidRecords(problem, [(index, problem)])
