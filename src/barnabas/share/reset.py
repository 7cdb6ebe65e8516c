"""Where a share group begins to read a partition that it has never read: `share.auto.offset.reset`."""

from __future__ import annotations

import re
from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.replication.flusher import Background
from barnabas.replication.partition import Partition

_DURATION = re.compile(
    r"by_duration:P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0)


def first_offset(
    partition: Partition,
    reset: str,
    now_ms: int,
    threads: Background,
    done: Callable[[int | KafkaError], None],
) -> None:
    """`done` gets the offset; a time is looked up in a thread, as for ListOffsets."""
    log = partition.log
    if reset == "earliest":
        done(log.log_start_offset)
        return
    match = _DURATION.fullmatch(reset)
    if match is None:
        done(log.high_watermark)
        return
    seconds = sum(float(amount or 0) * unit for amount, unit in zip(match.groups(), _SECONDS, strict=True))
    timestamp = now_ms - int(seconds * 1000)
    found: list[int] = []

    def search() -> None:
        record = log.offset_for_timestamp(timestamp)
        if record is not None:
            found.append(record.offset)

    def searched(error: OSError | None) -> None:
        if error is not None:
            done(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        else:
            done(min([*found, log.high_watermark]))  # what is not committed may yet be truncated

    threads.run(search, searched)
