"""Delayed delivery: which records of a share partition must wait for their time.

That stands in the headers of records, so somebody has to look inside: a thread, batch by batch, ahead of the share
group, in topics with `barnabas.delay.enable` only. Nothing beyond what was looked at is given out. It all comes out of
the log, so a restart forgets nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.errors import KafkaError
from barnabas.log_lines import limited_logger
from barnabas.records.delays import due_ms
from barnabas.records.record import Record
from barnabas.server.share_records import read_records

if TYPE_CHECKING:
    from barnabas.queues.partition import SharePartition
    from barnabas.server.share_partition import LedSharePartition

logger = limited_logger(__name__)

MOST_WAITING = 1_000_000
"""Records known to wait, beyond which nothing more is looked at: memory has an end."""


class Delays:
    def __init__(self, led: LedSharePartition, share: SharePartition) -> None:
        self._led = led
        self._share = share
        self.scanned_to = share.start_offset
        self.waiting: dict[int, int] = {}
        """Due times (epoch milliseconds) of records above the window, by offset."""
        self._task: asyncio.Task[None] | None = None

    def scan(self) -> None:
        """Look at what has come since, unless that is being done."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._scan())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _scan(self) -> None:
        led, log = self._led, self._led.partition.log
        try:
            while led.is_current and self.scanned_to < log.high_watermark and self._has_room:
                end = log.high_watermark - 1
                records, seen = await read_records(led.broker, log, self.scanned_to, end)
                self._note(records)
                self.scanned_to = seen + 1
                led.arm()
                led.wake()
        except KafkaError as error:
            logger.warning("%s cannot be searched for delayed records: %s", log.topic_partition, error)
        finally:
            self._task = None

    @property
    def _has_room(self) -> bool:
        return len(self.waiting) < MOST_WAITING

    def _note(self, records: list[Record]) -> None:
        now_ms = self._led.broker.clock.now_ms()
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
