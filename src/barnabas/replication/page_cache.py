"""Reads that would wait for the disk are done by a thread first; the loop then finds the pages in memory.

A fetch at the tail of a log reads what was just written. Any other fetch needs the index, the header of
its first batch and the data: `is_cold` asks the kernel whether those are in memory, `warm` reads them elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.log.reading import FoundRecord
from barnabas.network.page_residency import is_cached
from barnabas.replication.flusher import Background
from barnabas.tiering.reading.remote_log import RemoteRead

# The first batch's header lies within one index interval; the data behind it is probed again when it is sent.
HEADER_WALK_BYTES = 8192
WARMED_AT_MOST = 4 << 20


class ColdReads:
    def __init__(self, background: Background) -> None:
        self.background = background

    def is_cold(self, log: Log, offset: int) -> bool:
        if not log.index_is_loaded(offset):
            return True
        place = log.place_on_disk(offset)
        if place is None:
            return False
        file, position = place
        count = min(HEADER_WALK_BYTES, file.size - position)
        return count > 0 and not is_cached(file.fileno(), position, count, file.size)

    def warm(self, reads: list[tuple[Log, int, int]], done: Callable[[], None]) -> None:
        def read() -> None:
            for log, offset, count in reads:
                if (place := log.place_on_disk(offset)) is not None:
                    file, position = place
                    file.read(min(count + HEADER_WALK_BYTES, WARMED_AT_MOST), position)
                    log.load_aborted(offset)

        self.background.run(read, lambda error: done())

    # -- remote segments: see `remote_reads` ----------------------------------------------------------

    has_remote = False
    """May this broker read remote segments?"""

    def read_remote(
        self, log: Log, offset: int, max_bytes: int, *, committed: bool = False, at_least_one: bool = True
    ) -> RemoteRead | None:
        """What `Log.read` has called a RemoteOffset, after `warm`; None if it has not come yet."""
        raise _no_tiers(log)

    async def load_remote(self, log: Log, offset: int) -> object:
        """Wait until `read_remote` has something to give. What this returns keeps it here while it is referred to."""
        raise _no_tiers(log)

    async def remote_offset_for_timestamp(
        self, log: Log, timestamp: int, timeout_ms: int = 0
    ) -> FoundRecord | None:
        """The first record as late as that, of those that are not on this disk. REQUEST_TIMED_OUT if it takes longer
        than the client says, or else the setting."""
        raise _no_tiers(log)


def _no_tiers(log: Log) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{log.topic_partition} has records in remote segments, and this broker has no access to them: set "
        "remote.log.storage.system.enable and barnabas.remote.storage.url",
    )
