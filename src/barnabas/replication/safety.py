"""When a record is as safe as acks=all promises: on every replica in sync and, where one machine holds all of those, on
its disk (`barnabas.acks.all.fsync`)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ErrorCode
from barnabas.replication.flusher import Flusher
from barnabas.replication.partition import Partition


class Durability:
    def __init__(self, flusher: Flusher, fsync: str) -> None:
        self._flusher = flusher
        self.fsync = fsync
        """The setting: auto, always or never."""

    def must_flush(self, partition: Partition) -> bool:
        """Does acks=all wait for the disk?"""
        if self.fsync == "auto":
            return partition.is_only_here
        return self.fsync == "always"

    def is_safe(self, partition: Partition, offset: int) -> bool:
        """Is everything below `offset` safe?"""
        offsets = partition.log.offsets
        return offsets.high_watermark >= offset and (
            offsets.recovery_point >= offset or not self.must_flush(partition)
        )

    def when_safe(self, partition: Partition, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when everything below `offset` is safe, or with the error that prevents it."""

        def committed(error: ErrorCode) -> None:
            if error or not self.must_flush(partition):
                callback(error)
            else:
                self._flusher.when_flushed(partition.log, offset, callback)

        partition.when_committed(offset, committed)
