"""Reads of a partition, and the wait for those whose data is not in memory.

    data, aborted = partition.read(offset, ...)
    if type(data) is ColdRead:                       # on disk, or in a remote segment
        cold_reads.load([data, ...], done)           # the cold reads of a request, all at once
        data, aborted = partition.read(offset, ..., loaded={data.key: data})

Reads at the log end are of recently written pages. Any other read needs the index, the header of its first batch and
the data: `is_cold` asks the kernel whether these are in memory, a thread reads them. Remote segments are downloaded
(`tiered_reads`): their batch is kept in the ColdRead, so that it is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import EMPTY, Slice
from barnabas.log import FoundRecord, Log
from barnabas.network import is_cached
from barnabas.replication.flusher import BackgroundThread
from barnabas.replication.in_sync_replicas import InSyncReplicas

if TYPE_CHECKING:
    from barnabas.replication.progress import ClusterView
    from barnabas.tiering.reading import RemoteBatch, RemoteLog

# The first batch header is within one index interval; the data after it are probed again when sent.
HEADER_WALK_BYTES = 8192
WARMED_AT_MOST = 4 << 20

Aborted = list[tuple[int, int]]
"""(producer id, first offset) of aborted transactions, by first offset."""
NONE_ABORTED: Final[Aborted] = []
"""Of a local read that does not ask for them."""

ReadKey = tuple[Log, int]


class ColdRead:
    """A read that has to wait for the disk, or for the object store."""

    __slots__ = ("batch", "error", "log", "max_bytes", "offset", "remote")

    def __init__(self, log: Log, offset: int, max_bytes: int, remote: RemoteLog | None = None) -> None:
        self.log = log
        self.offset = offset
        self.max_bytes = max_bytes
        self.remote = remote
        """The remote log that holds the offset; None for a local read."""
        self.batch: RemoteBatch | None = None
        self.error: KafkaError | None = None

    @property
    def key(self) -> ReadKey:
        return self.log, self.offset


Loaded = Mapping[ReadKey, ColdRead]
PartitionRead = tuple[Slice | ColdRead, Aborted]


class ReadablePartition(InSyncReplicas):
    """A partition that reads local and remote segments."""

    __slots__ = ("remote",)

    def __init__(self, log: Log, broker_id: int, cluster: ClusterView) -> None:
        super().__init__(log, broker_id, cluster)
        self.remote: RemoteLog | None = None
        """Reads remote segments; None without access to them."""

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper: int,
        at_least_one: bool = True,
        committed: bool = False,
        loaded: Loaded | None = None,
    ) -> PartitionRead:
        """Return batches below `upper` and, if `committed`, the aborted transactions in them; or a ColdRead.

        With `loaded`, which holds the cold reads that were waited for, nothing is cold: a local read may wait for the
        disk, a remote one that is not in memory is empty. Raise KafkaError as `Log.read` does.
        """
        log = self.log
        if offset < log.segments.tail.start:
            if log.offsets.start <= offset < log.offsets.local_start:
                return self._read_remote(offset, max_bytes, at_least_one, committed, loaded)
            if loaded is None and is_cold(log, offset):
                return ColdRead(log, offset, max_bytes), NONE_ABORTED
        if committed:
            return log.read_committed(offset, max_bytes, at_least_one=at_least_one)
        return log.read(offset, max_bytes, upper, at_least_one), NONE_ABORTED

    def read_for_follower(
        self,
        offset: int,
        max_bytes: int,
        upper: int,
        at_least_one: bool = True,
        committed: bool = False,
        loaded: Loaded | None = None,
    ) -> PartitionRead:
        """The same up to the log end, committed or not, with an error for what is in remote segments (KIP-405)."""
        log = self.log
        offsets = log.offsets
        if (
            loaded is None
            and offsets.local_start <= offset < log.segments.tail.start
            and is_cold(log, offset)
        ):
            return ColdRead(log, offset, max_bytes), NONE_ABORTED
        return log.read(offset, max_bytes, offsets.end, at_least_one), NONE_ABORTED

    def _read_remote(
        self, offset: int, max_bytes: int, at_least_one: bool, committed: bool, loaded: Loaded | None
    ) -> PartitionRead:
        remote = self._remote_log()
        read = loaded.get((self.log, offset)) if loaded is not None else None
        if read is not None and read.error is not None:
            raise read.error
        batch = read.batch if read is not None else remote.find(offset)
        if batch is not None:
            return remote.slice(batch, max_bytes, committed=committed, at_least_one=at_least_one)
        return (ColdRead(self.log, offset, max_bytes, remote) if loaded is None else EMPTY), []

    async def read_any(self, offset: int, max_bytes: int) -> Slice:
        """Return batches below the high watermark, however long that takes."""
        log = self.log
        if log.offsets.start <= offset < log.offsets.local_start:
            return (await self._remote_log().read(offset, max_bytes)).data
        return log.read(offset, max_bytes, log.high_watermark)

    def _remote_log(self) -> RemoteLog:
        if self.remote is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.log.topic_partition} has records in remote segments, and this broker has no access to them: "
                "set remote.log.storage.system.enable and barnabas.remote.storage.url",
            )
        return self.remote


def is_cold(log: Log, offset: int) -> bool:
    """Return True if a local read would wait for the disk."""
    if offset >= log.segments.tail.start:
        return False
    if not log.index_is_loaded(offset):
        return True
    segment_position = log.disk_position(offset)
    if segment_position is None:
        return False
    file, position = segment_position
    count = min(HEADER_WALK_BYTES, file.size - position)
    return count > 0 and not is_cached(file.fileno(), position, count, file.size)


class ColdReads:
    """Loads cold reads, of local segments here, of remote ones in `TieredReads`."""

    has_remote = False
    """True if this broker can read remote segments."""

    def __init__(self, background: BackgroundThread) -> None:
        self.background = background

    def load(self, reads: Iterable[ColdRead], done: Callable[[], None]) -> None:
        """Call `done` once the data is in memory."""

        def work() -> None:
            for each in reads:
                if (segment_position := each.log.disk_position(each.offset)) is not None:
                    file, position = segment_position
                    file.read(min(each.max_bytes + HEADER_WALK_BYTES, WARMED_AT_MOST), position)
                    each.log.load_aborted(each.offset)

        self.background.run(work, lambda error: done())

    async def remote_offset_for_timestamp(
        self, partition: ReadablePartition, timestamp: int, timeout_ms: int = 0
    ) -> FoundRecord | None:
        """The first record in remote segments with at least this timestamp. REQUEST_TIMED_OUT after the client's
        timeout, or else the setting's."""
        return None
