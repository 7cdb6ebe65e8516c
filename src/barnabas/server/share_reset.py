"""Where a share group begins to read a partition that it has never read: `share.auto.offset.reset`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.replication.partition import Partition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

_DURATION = re.compile(
    r"by_duration:P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0)


def first_offset(
    broker: Broker, partition: Partition, reset: str, done: Callable[[int | KafkaError], None]
) -> None:
    log = partition.log
    if reset == "earliest":
        done(log.log_start_offset)
        return
    match = _DURATION.fullmatch(reset)
    if match is None:
        done(log.high_watermark)
        return
    seconds = sum(float(amount or 0) * unit for amount, unit in zip(match.groups(), _SECONDS, strict=True))
    timestamp = broker.clock.now_ms() - int(seconds * 1000)
    found: list[int] = []

    def look() -> None:
        record = log.offset_for_timestamp(timestamp)
        found.append(record.offset if record is not None else log.high_watermark)

    def looked(error: OSError | None) -> None:
        done(found[0] if found else KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))

    broker.page_cache.background.run(look, looked)
