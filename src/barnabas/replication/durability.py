"""Durability that a producer's acks require.

acks=all: when it is replicated to the ISR and, if one host holds the whole ISR, flushed to disk
(`barnabas.acks.all.fsync`). acks=1 and acks=0: when it is written, which takes time on a slow disk only.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ErrorCode
from barnabas.replication.flusher import Flusher
from barnabas.replication.partition import ALL_REPLICAS, Partition


class Durability:
    def __init__(self, flusher: Flusher, fsync: str) -> None:
        self._flusher = flusher
        self.fsync = fsync
        """The setting: auto, always or never."""

    def must_flush(self, partition: Partition) -> bool:
        """Return True if acks=all waits for the disk."""
        if self.fsync == "auto":
            return partition.is_single_host
        return self.fsync == "always"

    def is_durable(self, partition: Partition, offset: int, acks: int = ALL_REPLICAS) -> bool:
        """Return True if everything below `offset` is as durable as `acks` requires."""
        if acks != ALL_REPLICAS:
            return partition.log.offsets.written >= offset
        offsets = partition.log.offsets
        return offsets.high_watermark >= offset and (
            offsets.recovery_point >= offset or not self.must_flush(partition)
        )

    def when(
        self,
        partition: Partition,
        offset: int,
        callback: Callable[[ErrorCode], None],
        acks: int = ALL_REPLICAS,
    ) -> None:
        """Call back once `is_durable` holds, or with the error that prevents it."""
        if acks != ALL_REPLICAS:
            partition.when_written(offset, callback)
            return

        def committed(error: ErrorCode) -> None:
            if error or not self.must_flush(partition):
                callback(error)
            else:
                self._flusher.when_flushed(partition.log, offset, callback)

        partition.when_committed(offset, committed)
