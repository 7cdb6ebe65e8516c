"""Reads one partition of a fetch, for consumers and followers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import NO_ERROR, ErrorCode, KafkaError
from barnabas.common.files import EMPTY, FileSlice, Slice
from barnabas.handlers.fetch.divergence import diverges
from barnabas.handlers.needs import FetchNeeds
from barnabas.metrics import TopicCounters
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.replication import (
    MAX_WAIT_MS,
    NO_EPOCH,
    NO_REPLICA,
    NONE_ABORTED,
    ColdRead,
    FetchEntry,
    FetchSession,
    Loaded,
    Partition,
    Partitions,
    is_throttled,
)
from barnabas.security.authz import Access, Action, Operation, ResourceType

READ_COMMITTED: Final = 1
CURRENT_LEADER_SINCE = 12  # KIP-595: the response names the new leader

FetchItem = FetchEntry | FetchPartition
_NONE: Final[Partitions] = {}


class PassNotes:
    """Unusual findings of one pass over the partitions of a fetch."""

    __slots__ = ("cold", "held_back", "must_answer", "remote", "throttled_bytes")

    def __init__(self) -> None:
        self.must_answer = (
            False  # an error, a redirection, no room for more: the response does not wait for data
        )
        self.cold: list[ColdRead] = []  # to wait for: then the pass is repeated
        self.held_back: set[FetchEntry] = set()
        """Partitions that stay ready although they are not in the response: throttled, cold, or without room."""
        self.remote: list[tuple[TopicCounters, int]] = []  # bytes read from remote segments
        self.throttled_bytes = 0  # that count against the replication quota


class PartitionReader:
    """Reads any partition for one consumer request."""

    __slots__ = (
        "_broker", "_committed_only", "_rack", "_version", "loaded", "max_bytes", "min_bytes", "notes", "session",
        "topics", "wait_ms",
    )  # fmt: skip

    def __init__(
        self, broker: FetchNeeds, version: int, message: FetchRequest, session: FetchSession
    ) -> None:
        self._broker = broker
        self._version = version
        self.topics: Mapping[Any, Partitions] = (  # by id or by name, as the session does
            broker.replicas.by_id if session.uses_topic_ids else broker.replicas.by_name
        )
        self._committed_only = message.isolation_level == READ_COMMITTED
        self._rack = message.rack_id if broker.reads_from_followers else ""
        self.session = session
        max_bytes = message.max_bytes
        min_bytes = message.min_bytes
        if max_bytes > broker.fetch_max_bytes:
            max_bytes = broker.fetch_max_bytes
        self.max_bytes = max_bytes
        if min_bytes > max_bytes:
            min_bytes = max_bytes
        self.min_bytes = min_bytes
        self.wait_ms = message.max_wait_ms
        if self.wait_ms > MAX_WAIT_MS:
            self.wait_ms = MAX_WAIT_MS
        self.notes: PassNotes | None = None
        """What is unusual about the current pass over the partitions."""
        self.loaded: Loaded | None = None
        """Cold reads that were waited for; None before the first wait."""

    def set_idle_if_caught_up(self) -> bool:
        """Mark the partitions of a session as idle that have nothing to read and nothing new; True if that is all of
        them. Nothing is built for a fetch that only waits.
        """
        session, topics = self.session, self.topics
        if session.full or self._rack:
            return False
        for entry in tuple(session.ready):
            partition = topics.get(entry.topic_key, _NONE).get(entry.partition)
            if partition is None or not self.is_caught_up(
                entry, partition, entry.sent_high_watermark, entry.sent_log_start
            ):
                return False
            session.set_idle(entry, partition)
        return True

    def is_caught_up(
        self, entry: FetchItem, partition: Partition, high_watermark: int, log_start: int
    ) -> bool:
        """Return whether reading a partition would yield no records, no error and these offsets."""
        log = partition.log
        offsets, producers, epoch = log.offsets, log.producers, entry.current_leader_epoch
        return (
            entry.fetch_offset == offsets.written
            and high_watermark == offsets.high_watermark
            and log_start == offsets.start
            and partition.is_leader
            and (epoch == NO_EPOCH or epoch == partition.leader_epoch)
            and entry.last_fetched_epoch == NO_EPOCH
            and not producers.undecided
            and not producers.decided
        )

    def lacks_room(self, entry: FetchItem, partition: Partition | None, data: PartitionData) -> bool:
        """Return whether data was left out for lack of room: the partition then comes first in the next
        fetch.
        """
        if partition is None or data.error_code:
            return False
        if self.session.replica != NO_REPLICA:
            return entry.fetch_offset < partition.log.offsets.written
        return entry.fetch_offset < (data.last_stable_offset if self._committed_only else data.high_watermark)

    def missing(self, entry: FetchItem) -> PartitionData:
        """Return the error of a partition that is not on this broker."""
        if not isinstance(entry, FetchEntry):  # without a session: it is read again with one
            return _error(entry, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _error(entry, self._broker.replicas.why_missing(entry.topic, entry.topic_id, entry.partition))

    def read(self, entry: FetchItem, partition: Partition, left: int, at_least_one: bool) -> PartitionData:
        epoch = entry.current_leader_epoch
        if (not partition.is_leader or (epoch != NO_EPOCH and epoch != partition.leader_epoch)) and (
            problem := self._problem(entry, partition)
        ) is not NO_ERROR:
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
        if entry.last_fetched_epoch != NO_EPOCH and diverges(entry, log, data):
            return data
        if self._rack and self._sends_elsewhere(entry, partition, data):
            return data
        if entry.fetch_offset == offsets.written:
            return data  # usually the client is caught up
        if left > entry.partition_max_bytes:
            left = entry.partition_max_bytes
        try:
            records, aborted = self._read_records(
                partition, entry.fetch_offset, left, high_watermark, at_least_one, self._committed_only, self.loaded
            )  # fmt: skip
        except KafkaError as error:
            return self._fail(entry, partition, error)
        if type(records) is FileSlice and aborted is NONE_ABORTED:
            data.records = records
            return data
        return self._with_notes(entry, partition, data, records, aborted)

    _read_records = staticmethod(Partition.read)

    def _problem(self, entry: FetchItem, partition: Partition) -> ErrorCode:
        problem = partition.leadership_error(entry.current_leader_epoch)
        is_follower = problem is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.follows_a_leader
        return NO_ERROR if is_follower and self._broker.reads_from_followers else problem

    def _sends_elsewhere(self, entry: FetchItem, partition: Partition, data: PartitionData) -> bool:
        if partition.is_leader:
            data.preferred_read_replica = nearest_replica(
                self._broker.image, partition, self._rack, entry.fetch_offset
            )
        return data.preferred_read_replica != NO_REPLICA

    def _with_notes(
        self,
        entry: FetchItem,
        partition: Partition,
        data: PartitionData,
        records: Slice | ColdRead,
        aborted: list[tuple[int, int]],
    ) -> PartitionData:
        """Note aborted transactions, data to wait for, and remote data. If a remote chunk has not arrived in time, the
        response is empty, and the next fetch retries.
        """
        if aborted:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted
            ]
        is_remote = _is_remote(entry, partition)
        if is_remote:
            self.min_bytes = 0  # it has waited long enough
        if type(records) is ColdRead:
            self.noted.cold.append(records)
            self.hold_back(entry)
        elif type(records) is FileSlice:
            data.records = records
            if is_remote:
                self.noted.remote.append((partition.counters, records.length))
        elif is_remote:
            self.hold_back(entry)
        return data

    def _fail(self, entry: FetchItem, partition: Partition, error: KafkaError) -> PartitionData:
        if _is_remote(entry, partition):
            self.min_bytes = 0
            partition.counters.failed_remote_fetches.value += 1
        refused = _error(entry, error.code)
        refused.aborted_transactions = None
        return refused

    @property
    def noted(self) -> PassNotes:
        if self.notes is None:
            self.notes = PassNotes()
        return self.notes

    def hold_back(self, entry: FetchItem) -> None:
        if isinstance(entry, FetchEntry):
            self.noted.held_back.add(entry)

    def is_held_back(self, entry: FetchEntry) -> bool:
        return self.notes is not None and entry in self.notes.held_back

    @property
    def cold(self) -> list[ColdRead]:
        return self.notes.cold if self.notes is not None else []

    def may_answer(self, total: int, must_answer: bool = False) -> bool:
        """True unless some data is not in memory, or there is too little of it and time is left."""
        notes = self.notes
        if notes is not None:
            if notes.cold:
                return False
            must_answer = must_answer or notes.must_answer
        return must_answer or total >= self.min_bytes

    def count(self) -> None:
        """Count what is unusual about the data that the response holds."""
        for counters, size in self.notes.remote if self.notes is not None else ():
            counters.remote_fetches.value += 1
            counters.remote_bytes_out.value += size


class AuthorizedReader(PartitionReader):
    """Reads for a consumer that may be denied some topics."""

    __slots__ = ("_access",)

    def set_idle_if_caught_up(self) -> bool:
        return False  # its rights may have changed

    def __init__(
        self, access: Access, broker: FetchNeeds, version: int, message: FetchRequest, session: FetchSession
    ) -> None:
        super().__init__(broker, version, message, session)
        self._access = access

    def missing(self, entry: FetchItem) -> PartitionData:
        topic = entry.topic if isinstance(entry, FetchEntry) else ""
        return super().missing(entry) if not topic or self._may_read(topic) else _denied(entry)

    def read(self, entry: FetchItem, partition: Partition, left: int, at_least_one: bool) -> PartitionData:
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

    def set_idle_if_caught_up(self) -> bool:
        return False  # it sends epochs to compare

    def read(self, entry: FetchItem, partition: Partition, left: int, at_least_one: bool) -> PartitionData:
        if problem := self._problem(entry, partition):
            return _not_here(entry, partition, problem, self._version)
        if not _is_held_back(partition, self.session.replica):
            return super().read(entry, partition, left, at_least_one)
        if self._broker.leader_throttle.is_exceeded_by(self.noted.throttled_bytes):
            left, at_least_one = 0, False
        data = super().read(entry, partition, left, at_least_one)
        if type(data.records) is FileSlice:
            self.noted.throttled_bytes += data.records.length
        elif not left and self.lacks_room(entry, partition, data):
            self.hold_back(entry)  # it is checked again with the next fetch
        return data

    _read_records = staticmethod(Partition.read_for_follower)

    def _fail(self, entry: FetchItem, partition: Partition, error: KafkaError) -> PartitionData:
        refused = _error(entry, error.code)
        refused.log_start_offset = partition.log.log_start_offset  # a follower continues from there
        return refused

    def count(self) -> None:
        if self.notes is not None and self.notes.throttled_bytes:
            self._broker.leader_throttle.take(self.notes.throttled_bytes)

    def _problem(self, entry: FetchItem, partition: Partition) -> ErrorCode:
        problem = partition.leadership_error(entry.current_leader_epoch)
        if not problem and not partition.is_assigned(self.session.replica):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return problem


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


def _is_remote(entry: FetchItem, partition: Partition) -> bool:
    offsets = partition.log.offsets
    return offsets.start <= entry.fetch_offset < offsets.local_start


def _denied(entry: FetchItem) -> PartitionData:
    return _error(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _error(entry: FetchItem, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=entry.partition, error_code=code, high_watermark=-1, records=b"")


def _not_here(entry: FetchItem, partition: Partition, code: ErrorCode, version: int) -> PartitionData:
    data = _error(entry, code)
    data.aborted_transactions = None
    moved = code is not ErrorCode.UNKNOWN_LEADER_EPOCH  # otherwise the client's metadata is newer
    if moved and version >= CURRENT_LEADER_SINCE and partition.state is not None:
        data.current_leader = LeaderIdAndEpoch(
            leader_id=partition.state.leader, leader_epoch=partition.leader_epoch
        )
    return data
