"""Reading one partition of a fetch, for consumers and followers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import NO_ERROR, ErrorCode, KafkaError
from barnabas.common.files import EMPTY, FileSlice
from barnabas.log import Log
from barnabas.log.reader import RemoteOffset, read_slice
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.replication import (
    MAX_WAIT_MS,
    NO_EPOCH,
    NO_REPLICA,
    ColdReads,
    FetchEntry,
    FetchSession,
    Partition,
    Partitions,
    ReplicaManager,
)
from barnabas.replication.throttle import ReplicationQuota, is_throttled
from barnabas.security.authz import Access, Action, Operation, ResourceType

READ_COMMITTED: Final = 1
UNKNOWN_OFFSET: Final = -1
CURRENT_LEADER_SINCE = 12  # KIP-595: the response names the new leader

Cold = tuple[Log, int, int]
"""A log, an offset, and the number of bytes to read."""
Wanted = FetchEntry | FetchPartition


class Reading(Protocol):
    """Broker attributes used for reading."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def leader_throttle(self) -> ReplicationQuota: ...

    @property
    def page_cache(self) -> ColdReads: ...

    @property
    def fetch_max_bytes(self) -> int: ...

    @property
    def reads_from_followers(self) -> bool: ...


class PartitionReader:
    """Reads any partition for one consumer request."""

    __slots__ = (
        "_broker",
        "_committed_only",
        "_rack",
        "_version",
        "held_back",
        "max_bytes",
        "min_bytes",
        "session",
        "topics",
        "wait_ms",
    )

    def __init__(self, broker: Reading, version: int, message: FetchRequest, session: FetchSession) -> None:
        self._broker = broker
        self._version = version
        self.topics: Mapping[Any, Partitions] = (  # by id or by name, as the session does
            broker.replicas.by_id if session.uses_topic_ids else broker.replicas.by_name
        )
        self._committed_only = message.isolation_level == READ_COMMITTED
        self._rack = message.rack_id if broker.reads_from_followers else ""
        self.session = session
        max_bytes, min_bytes = message.max_bytes, message.min_bytes
        if max_bytes > broker.fetch_max_bytes:
            max_bytes = broker.fetch_max_bytes
        self.max_bytes = max_bytes
        self.min_bytes = min(min_bytes, max_bytes)
        self.wait_ms = message.max_wait_ms
        if self.wait_ms > MAX_WAIT_MS:
            self.wait_ms = MAX_WAIT_MS
        self.held_back: set[FetchEntry] = set()
        """Throttled partitions, which stay ready although they are not in the response."""

    def to_warm(self, cold: list[Cold]) -> list[Cold]:
        """Return the reads to wait for."""
        return cold

    def lacks_room(self, entry: Wanted, partition: Partition | None, data: PartitionData) -> bool:
        """Return whether data was left out for lack of room: the partition then comes first in the next
        fetch.
        """
        if partition is None or data.error_code:
            return False
        if self.session.replica != NO_REPLICA:
            return entry.fetch_offset < partition.log.offsets.written
        return entry.fetch_offset < (data.last_stable_offset if self._committed_only else data.high_watermark)

    def missing(self, entry: FetchEntry) -> PartitionData:
        """Return the error of a partition that is not on this broker."""
        return _error(entry, self._broker.replicas.why_missing(entry.topic, entry.topic_id, entry.partition))

    def read(self, entry: Wanted, partition: Partition, left: int, at_least_one: bool) -> PartitionData:
        epoch = entry.current_leader_epoch
        if not partition.is_leader or (epoch != NO_EPOCH and epoch != partition.leader_epoch):
            problem = self._problem(entry, partition)
            if problem is not NO_ERROR:
                return _not_here(entry, partition, problem, self._version)
        log = partition.log
        offsets = log.offsets
        high_watermark = stable = offsets.high_watermark
        if log.producers.undecided or log.producers.decided:
            stable = log.last_stable_offset
        # Positional arguments where possible: half the cost.
        data = PartitionData(entry.partition, NO_ERROR, high_watermark, stable, offsets.start)
        if not self._committed_only:
            data.aborted_transactions = None
        data.records = EMPTY
        if entry.last_fetched_epoch != NO_EPOCH and _diverges(entry, log, data):
            return data
        if self._rack and self._sends_elsewhere(entry, partition, data):
            return data
        if entry.fetch_offset == offsets.written:
            return data  # usually the client is caught up
        if left > entry.partition_max_bytes:
            left = entry.partition_max_bytes
        return self._read_records(entry, partition, data, left, at_least_one)

    def _problem(self, entry: Wanted, partition: Partition) -> ErrorCode:
        problem = partition.leadership_error(entry.current_leader_epoch)
        is_follower = problem is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.follows_a_leader
        return NO_ERROR if is_follower and self._broker.reads_from_followers else problem

    def _sends_elsewhere(self, entry: Wanted, partition: Partition, data: PartitionData) -> bool:
        if partition.is_leader:
            data.preferred_read_replica = nearest_replica(
                self._broker.image, partition, self._rack, entry.fetch_offset
            )
        return data.preferred_read_replica != NO_REPLICA

    def _read_records(
        self, entry: Wanted, partition: Partition, data: PartitionData, room: int, at_least_one: bool
    ) -> PartitionData:
        log = partition.log
        aborted: list[tuple[int, int]] = []
        try:
            if self._committed_only:
                records, aborted = log.read_committed(entry.fetch_offset, room, at_least_one=at_least_one)
            else:
                records = read_slice(log, entry.fetch_offset, room, data.high_watermark, at_least_one)
        except RemoteOffset:
            return self._read_remote(entry, partition, data, room, at_least_one)
        except KafkaError as error:
            refused = _error(entry, error.code)
            refused.aborted_transactions = None
            return refused
        if type(records) is FileSlice:
            data.records = records
            if aborted:
                data.aborted_transactions = _listed(aborted)
        return data

    def _read_remote(
        self, entry: Wanted, partition: Partition, data: PartitionData, room: int, at_least_one: bool
    ) -> PartitionData:
        """Read from a downloaded chunk. If it has not arrived in time, the response is empty, and the next
        fetch retries.
        """
        self.min_bytes = 0  # it has waited long enough
        counters = partition.counters
        try:
            found = self._broker.page_cache.read_remote(
                partition.log,
                entry.fetch_offset,
                room,
                committed=self._committed_only,
                at_least_one=at_least_one,
            )
        except KafkaError as error:
            counters.failed_remote_fetches.value += 1
            refused = _error(entry, error.code)
            refused.aborted_transactions = None
            return refused
        if found is None or type(found.data) is not FileSlice:
            if isinstance(entry, FetchEntry):
                self.held_back.add(entry)
            return data
        data.records = found.data
        counters.remote_fetches.value += 1
        counters.remote_bytes_out.value += len(found.data)
        if found.aborted:
            data.aborted_transactions = _listed(found.aborted)
        return data


class AuthorizedReader(PartitionReader):
    """Reads for a consumer that may be denied some topics."""

    __slots__ = ("_access",)

    def __init__(
        self, access: Access, broker: Reading, version: int, message: FetchRequest, session: FetchSession
    ) -> None:
        super().__init__(broker, version, message, session)
        self._access = access

    def missing(self, entry: FetchEntry) -> PartitionData:
        return super().missing(entry) if not entry.topic or self._may_read(entry.topic) else _denied(entry)

    def read(self, entry: Wanted, partition: Partition, left: int, at_least_one: bool) -> PartitionData:
        may_read = self._may_read(partition.topic)
        return super().read(entry, partition, left, at_least_one) if may_read else _denied(entry)

    def _may_read(self, topic: str) -> bool:
        action = Action(Operation.READ, ResourceType.TOPIC, topic)
        is_allowed = self._access.allows(action)
        self._access.tell(action, is_allowed)
        return is_allowed


class ReplicaReader(PartitionReader):
    """Reads for a follower: up to the log end, committed or not."""

    __slots__ = ()

    def to_warm(self, cold: list[Cold]) -> list[Cold]:
        """A follower does not read remote segments: it restarts after them (KIP-405)."""
        return [read for read in cold if read[1] >= read[0].offsets.local_start]

    def read(self, entry: Wanted, partition: Partition, left: int, at_least_one: bool) -> PartitionData:
        if problem := self._problem(entry, partition):
            return _not_here(entry, partition, problem, self._version)
        return super().read(entry, partition, left, at_least_one)

    def _problem(self, entry: Wanted, partition: Partition) -> ErrorCode:
        problem = partition.leadership_error(entry.current_leader_epoch)
        if not problem and not partition.is_assigned(self.session.replica):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return problem

    def _read_records(
        self, entry: Wanted, partition: Partition, data: PartitionData, room: int, at_least_one: bool
    ) -> PartitionData:
        log, throttle = partition.log, self._broker.leader_throttle
        is_throttled = _is_held_back(partition, self.session.replica)
        if is_throttled and throttle.is_exceeded:
            assert isinstance(entry, FetchEntry)  # followers always have a session
            self.held_back.add(entry)  # it is checked again with the next fetch
            return data
        try:
            records = log.read(entry.fetch_offset, room, log.log_end_offset, at_least_one=at_least_one)
        except KafkaError as error:
            refused = _error(entry, error.code)
            refused.log_start_offset = log.log_start_offset  # a follower continues from there
            return refused
        if type(records) is FileSlice:
            data.records = records
            if is_throttled:
                throttle.take(records.length)
        return data


def _is_held_back(partition: Partition, replica: int) -> bool:
    """Return whether replication to this follower is throttled. In-sync replicas are not: they would leave
    the ISR.
    """
    listed = partition.log.config.leader_replication_throttled_replicas
    return (
        bool(listed)
        and not partition.is_in_sync(replica)
        and is_throttled(listed, partition.index, partition.broker_id)
    )


def nearest_replica(image: MetadataImage, partition: Partition, rack: str, offset: int) -> int:
    """Return the most advanced follower in the reader's rack that has the offset (KIP-392), else -1 for this
    broker.
    """
    leader = image.brokers.get(partition.broker_id)
    if leader is None or leader.rack == rack:
        return NO_REPLICA
    near = [
        (end, member)
        for member, end in partition.in_sync_followers()
        if end >= offset
        and (broker := image.brokers.get(member)) is not None
        and broker.rack == rack
        and broker.can_lead
    ]
    return max(near)[1] if near else NO_REPLICA


def _listed(aborted: list[tuple[int, int]]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]


def _denied(entry: Wanted) -> PartitionData:
    return _error(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _error(entry: Wanted, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=entry.partition, error_code=code, high_watermark=-1, records=b"")


def _not_here(entry: Wanted, partition: Partition, code: ErrorCode, version: int) -> PartitionData:
    data = _error(entry, code)
    data.aborted_transactions = None
    moved = code is not ErrorCode.UNKNOWN_LEADER_EPOCH  # otherwise the client's metadata is newer
    if moved and version >= CURRENT_LEADER_SINCE and partition.state is not None:
        data.current_leader = LeaderIdAndEpoch(
            leader_id=partition.state.leader, leader_epoch=partition.leader_epoch
        )
    return data


def _diverges(entry: Wanted, log: Log, data: PartitionData) -> bool:
    found = divergence(log, entry.last_fetched_epoch, entry.fetch_offset)
    if found is None:
        return False
    if found.epoch == NO_EPOCH:
        data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        data.high_watermark = data.last_stable_offset = data.log_start_offset = UNKNOWN_OFFSET
    else:
        data.diverging_epoch = found
    return True


def has_all_before(partition: Partition, replica: int, wanted: FetchPartition) -> bool:
    """Return whether this follower may fetch from there, and its log matches this one up to there."""
    log = partition.log
    return (
        not partition.leadership_error(wanted.current_leader_epoch)
        and partition.is_assigned(replica)
        and log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset
        and divergence(log, wanted.last_fetched_epoch, wanted.fetch_offset) is None
    )


def divergence(log: Log, last_epoch: int, offset: int) -> EpochEndOffset | None:
    """Return the end of the reader's last epoch here, if that is earlier: it has records that this leader
    never had (KIP-595). The epoch is -1 when this leader does not know it.
    """
    if last_epoch == NO_EPOCH or (last_epoch == log.epochs.latest and offset <= log.log_end_offset):
        return None
    epoch, end_offset = log.epoch_end_offset(last_epoch)
    if epoch == last_epoch and end_offset >= offset:
        return None
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)
