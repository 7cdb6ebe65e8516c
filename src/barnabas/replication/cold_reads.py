"""Prefetches cold pages in a thread, so that the event loop finds them in memory.

A fetch at the log end reads recently written pages. Any other fetch needs the index, the header of its first batch
and the data: `is_cold` asks the kernel whether these are in memory, `warm` reads them in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log import Log
from barnabas.log.reader import FoundRecord
from barnabas.network import is_cached
from barnabas.replication.flusher import BackgroundThread

if TYPE_CHECKING:
    from barnabas.tiering.reading import RemoteRead

# The first batch header is within one index interval; the data after it are probed again when sent.
HEADER_WALK_BYTES = 8192
WARMED_AT_MOST = 4 << 20


class ColdReads:
    def __init__(self, background: BackgroundThread) -> None:
        self.background = background

    def is_cold(self, log: Log, offset: int) -> bool:
        if not log.index_is_loaded(offset):
            return True
        segment_position = log.disk_position(offset)
        if segment_position is None:
            return False
        file, position = segment_position
        count = min(HEADER_WALK_BYTES, file.size - position)
        return count > 0 and not is_cached(file.fileno(), position, count, file.size)

    def warm(self, reads: list[tuple[Log, int, int]], done: Callable[[], None]) -> None:
        def read() -> None:
            for log, offset, count in reads:
                if (segment_position := log.disk_position(offset)) is not None:
                    file, position = segment_position
                    file.read(min(count + HEADER_WALK_BYTES, WARMED_AT_MOST), position)
                    log.load_aborted(offset)

        self.background.run(read, lambda error: done())

    # -- remote segments: see `remote_reads` ----------------------------------------------------------

    has_remote = False
    """True if this broker can read remote segments."""

    def read_remote(
        self, log: Log, offset: int, max_bytes: int, *, committed: bool = False, at_least_one: bool = True
    ) -> RemoteRead | None:
        """Read the offset for which `Log.read` returned a RemoteOffset, after `warm`; None if it is not downloaded
        yet."""
        raise _no_tiers(log)

    async def load_remote(self, log: Log, offset: int) -> object:
        """Wait until `read_remote` can succeed. The result keeps the data in memory while it is referenced."""
        raise _no_tiers(log)

    async def remote_offset_for_timestamp(
        self, log: Log, timestamp: int, timeout_ms: int = 0
    ) -> FoundRecord | None:
        """The first record in remote segments with at least this timestamp. REQUEST_TIMED_OUT after the client's
        timeout, or else the setting's."""
        raise _no_tiers(log)


def _no_tiers(log: Log) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{log.topic_partition} has records in remote segments, and this broker has no access to them: set "
        "remote.log.storage.system.enable and barnabas.remote.storage.url",
    )
