"""Delayed delivery: records of a share partition that must not be delivered before their time.

The time is in a header of the record, so records must be decoded: in a thread, batch by batch, ahead of the share
group, and only in topics with `barnabas.delay.enable`. Records that were not scanned are not delivered. Nothing is
stored: after a restart the log is scanned again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.threads import ThreadBackground
from barnabas.coordination import Tasks
from barnabas.records import Record
from barnabas.records.delays import due_ms
from barnabas.replication import BackgroundThread, Partition
from barnabas.share.partition import SharePartition
from barnabas.share.record_reader import read_records

# -- the first offset of a share group in a partition: `share.auto.offset.reset` -------------------

_DURATION = re.compile(
    r"by_duration:P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0)


def first_offset(
    partition: Partition,
    reset: str,
    now_ms: int,
    threads: BackgroundThread,
    done: Callable[[int | KafkaError], None],
) -> None:
    """Determine the offset and pass it to `done`; a timestamp is looked up in a thread, as for ListOffsets."""
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
            done(min([*found, log.high_watermark]))  # uncommitted records may be truncated

    threads.run(search, searched)


logger = rate_limited_logger(__name__)

MAX_WAITING = 1_000_000
"""Limit of delayed records in memory; the scan stops there."""


class Delays:
    """`is_current`: the share partition is still led here. `scanned` is called after each part of a scan."""

    def __init__(
        self,
        threads: ThreadBackground,
        clock: Clock,
        partition: Partition,
        share: SharePartition,
        is_current: Callable[[], bool],
        scanned: Callable[[], None],
    ) -> None:
        self._threads = threads
        self._clock = clock
        self._partition = partition
        self._share = share
        self._is_current = is_current
        self._scanned = scanned
        self.scanned_to = share.start_offset
        self.waiting: dict[int, int] = {}
        """Due times (epoch milliseconds) of records above the window, by offset."""
        self._tasks = Tasks()
        self._is_scanning = False

    def scan(self) -> None:
        """Scan newly appended records, unless a scan is running."""
        if not self._is_scanning:
            self._is_scanning = True
            self._tasks.start(self._scan())

    def stop(self) -> None:
        self._tasks.stop()

    async def _scan(self) -> None:
        log = self._partition.log
        try:
            while self._is_current() and self.scanned_to < log.high_watermark and self._has_room:
                end = log.high_watermark - 1
                records, seen = await read_records(self._threads, self._partition, self.scanned_to, end)
                self._note(records)
                self.scanned_to = seen + 1
                self._scanned()
        except KafkaError as error:
            logger.warning("scanning %s for delayed records failed: %s", log.topic_partition, error)
        finally:
            self._is_scanning = False

    @property
    def _has_room(self) -> bool:
        return len(self.waiting) < MAX_WAITING

    def _note(self, records: list[Record]) -> None:
        now_ms = self._clock.now_ms()
        for record in records:
            try:
                due = due_ms(record)
            except ValueError:  # written before the topic had the setting
                continue
            if due <= now_ms:
                continue
            if record.offset <= self._share.end:
                self._share.wait(record.offset, record.offset, due)
            else:
                self.waiting[record.offset] = due
