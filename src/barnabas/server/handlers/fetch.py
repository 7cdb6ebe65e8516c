"""Fetch: hand out slices of segment files, or wait until there is something to hand out.

Versions 4 to 18 are served; version 13 and later name topics by id, version 7 and later may use a session.
The first batch is returned whole even if it is larger than the limits (KIP-74), an offset inside a batch
returns that batch from its start, and nothing at or above the high watermark (with read_committed: the
last stable offset) is ever returned.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.clock import Timer
from barnabas.cluster.image import MetadataImage
from barnabas.controller.isr import check_broker_epoch
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.replication.partition import NO_EPOCH, Partition
from barnabas.replication.throttle import is_throttled
from barnabas.server.brokers_only import tell_refused
from barnabas.server.fetch_sessions import (
    LONGEST_WAIT_MS,
    NO_REPLICA,
    NO_SESSION,
    FetchEntry,
    FetchSession,
    key_of,
)
from barnabas.server.handlers.large_fetch import READ_AT_ONCE, FetchInTurns, is_news, parts_of
from barnabas.server.slices import with_value
from barnabas.server.turns import RequestTurn
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

READ_COMMITTED = 1
UNKNOWN_OFFSET = -1
CURRENT_LEADER_SINCE = 12  # KIP-595: a client learns at once where to go


def fetch(
    broker: Broker, request: Request, message: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse | None] | None:
    if message.replica_state.replica_id >= 0 or message.replica_id >= 0:
        return _fetch_as_replica(broker, request, message)
    try:
        session = broker.fetch_sessions.open(message, request.version)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return Fetching(broker, request, message, session).start()


def _fetch_as_replica(
    broker: Broker, request: Request, message: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse | None] | None:
    """Only for brokers: what a follower has fetched counts as stored by it, and is shown to consumers."""
    refused = _refusal_of_replica(request, message)
    if refused is not None:
        return _refuse_all(message, refused)
    replica, epoch = message.replica_state.replica_id, message.replica_state.replica_epoch
    try:
        check_broker_epoch(broker.image, replica, epoch)
        session = broker.fetch_sessions.open(message, request.version)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    wait_ms = broker.fetch_sessions.follower_fetches(session, replica)
    message.max_wait_ms = min(message.max_wait_ms, wait_ms)
    _note_progress(broker, session, message, epoch)
    return ReplicaFetching(broker, request, message, session).start()


async def fetch_in_turns(broker: Broker, request: Request, message: FetchRequest) -> FetchResponse | None:
    """The same for a request that names many partitions."""
    replica, epoch = message.replica_state.replica_id, message.replica_state.replica_epoch
    turn = RequestTurn()
    if replica >= 0 or message.replica_id >= 0:
        refused = _refusal_of_replica(request, message)
        if refused is not None:
            topics = await turn.collect(parts_of(message), lambda part: _refuse_all(part, refused))
            return FetchResponse(responses=[topic for part in topics for topic in part.responses])
    try:
        if replica >= 0:
            check_broker_epoch(broker.image, replica, epoch)
        session = broker.fetch_sessions.open(with_value(message, "topics", []), request.version)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    kind = Fetching if replica < 0 else ReplicaFetching
    if replica >= 0:
        wait_ms = broker.fetch_sessions.follower_fetches(session, replica)
        message.max_wait_ms = min(message.max_wait_ms, wait_ms)
    for part in parts_of(message):
        session.update(part)
        try:
            broker.fetch_sessions.count(session, replica)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        if replica >= 0:
            _note_progress(broker, session, part, epoch)
        if turn.is_over():
            await turn.rest()
    return await kind(broker, request, message, session).start_in_turns()


def _refusal_of_replica(request: Request, message: FetchRequest) -> ErrorCode | None:
    if not request.is_from_broker:
        tell_refused(request)
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # as Kafka tells it
    # Before version 15 a follower could not say in which life it is (KIP-903).
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if message.replica_id >= 0 else None


def _note_progress(broker: Broker, session: FetchSession, message: FetchRequest, epoch: int) -> None:
    """A follower that asks for what comes next has all before it, unless its log is another than ours."""
    for topic in message.topics:
        partitions = broker.replicas.by_id.get(topic.topic_id, {})
        for wanted in topic.partitions:
            partition = partitions.get(wanted.partition)
            if partition is not None and _follows(partition, session.replica, wanted):
                partition.follower_reached(session.replica, wanted.fetch_offset, epoch)


def _follows(partition: Partition, replica: int, wanted: FetchPartition) -> bool:
    log = partition.log
    return (
        not partition.leadership_error(wanted.current_leader_epoch)
        and partition.is_assigned(replica)
        and log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset
        and divergence(log, wanted.last_fetched_epoch, wanted.fetch_offset) is None
    )


class Fetching(FetchInTurns):
    """One fetch request until it is answered: attempt, wait for news, attempt again."""

    __slots__ = (
        "_answered",
        "_broker",
        "_committed_only",
        "_has_news",
        "_held_back",
        "_is_late",
        "_max_bytes",
        "_min_bytes",
        "_rack",
        "_request",
        "_scheduled",
        "_session",
        "_timer",
        "_trying",
        "_wait_ms",
    )

    def __init__(
        self, broker: Broker, request: Request, message: FetchRequest, session: FetchSession
    ) -> None:
        self._broker = broker
        self._request = request
        self._session = session
        self._committed_only = message.isolation_level == READ_COMMITTED
        self._max_bytes = min(message.max_bytes, broker.fetch_max_bytes)
        self._min_bytes = min(message.min_bytes, self._max_bytes)
        self._wait_ms = min(message.max_wait_ms, LONGEST_WAIT_MS)
        self._rack = message.rack_id if broker.reads_from_followers else ""
        self._held_back: set[FetchEntry] = set()  # stay ready although nothing of them is in the answer
        self._timer: Timer | None = None
        self._scheduled = False
        self._answered = False
        self._trying = self._has_news = self._is_late = False  # of a task that tries in turns

    def start(self) -> FetchResponse | Coroutine[Any, Any, FetchResponse | None] | None:
        if len(self._session.ready) > READ_AT_ONCE:
            self._request.is_large = True
            return self.start_in_turns()
        cold = self._cold_logs()
        if cold:
            self._broker.page_cache.warm(cold, self._warmed)
            return None
        response = self._attempt(final=self._wait_ms <= 0)
        if response is None:
            self._wait()
        return response

    def _cold_logs(self) -> list[tuple[Log, int, int]]:
        is_cold = self._broker.page_cache.is_cold
        cold = []
        for entry in self._session.ready:
            partition = self._find(entry)
            if partition is None or entry.offset >= partition.log.tail.start:
                continue  # what was written a moment ago is in memory
            if is_cold(partition.log, entry.offset):
                cold.append((partition.log, entry.offset, min(entry.max_bytes, self._max_bytes)))
        return cold

    async def start_in_turns(self) -> FetchResponse | None:
        response = await self._attempt_in_turns(final=self._wait_ms <= 0)
        if response is None:
            self._wait()
            if self._session.ready:  # something came in the meantime
                self._news()
        return response

    def _warmed(self) -> None:
        self._try(final=self._wait_ms <= 0)
        if not self._answered:
            self._wait()

    def _attempt(self, final: bool) -> FetchResponse | None:
        """The response, or None when there is too little to be worth one and time is left."""
        session = self._session
        found: list[tuple[FetchEntry, Partition | None, PartitionData]] = []
        total, failed, crowded, left = 0, False, False, self._max_bytes
        for entry in session.entries.values() if session.full else session.ready:
            if left <= 0 and not session.full:
                break
            partition = self._find(entry)
            data = self._read(entry, partition, left, at_least_one=total == 0)
            size = len(data.records) if data.records is not None else 0
            if not size and total and self._lacks_room(entry, partition, data):
                self._held_back.add(entry)
                crowded = True
            total += size
            left -= size
            failed = failed or data.error_code != 0 or data.preferred_read_replica >= 0
            found.append((entry, partition, data))
        if total >= self._min_bytes or failed or crowded or final or not session.entries:
            return self._answer(found)
        for entry, partition, data in found:
            if partition is not None and entry not in self._held_back:
                if not is_news(entry, data):
                    session.ready.pop(entry, None)
                entry.watch(partition)
        return None

    def _lacks_room(self, entry: FetchEntry, partition: Partition | None, data: PartitionData) -> bool:
        """There was something to read, but others have taken the room: it is the first to get some next time."""
        if partition is None or data.error_code:
            return False
        if self._session.replica != NO_REPLICA:
            return entry.offset < partition.log.log_end_offset
        return entry.offset < (data.last_stable_offset if self._committed_only else data.high_watermark)

    def _find(self, entry: FetchEntry) -> Partition | None:
        replicas = self._broker.replicas
        if self._session.uses_topic_ids:
            partitions = replicas.by_id.get(entry.topic_id)
        else:
            partitions = replicas.by_name.get(entry.topic)
        return partitions.get(entry.index) if partitions is not None else None

    def _read(
        self, entry: FetchEntry, partition: Partition | None, left: int, at_least_one: bool
    ) -> PartitionData:
        if partition is None:
            return _error(entry, self._broker.replicas.why_missing(entry.topic, entry.topic_id, entry.index))
        problem = self._problem(entry, partition)
        if problem:
            return _not_here(entry, partition, problem, self._request.version)
        log = partition.log
        data = PartitionData(
            partition_index=entry.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._committed_only else None,
            records=b"",
        )
        if entry.last_fetched_epoch != NO_EPOCH and _diverges(entry, log, data):
            return data
        if self._rack and self._sends_elsewhere(entry, partition, data):
            return data
        if entry.offset == log.log_end_offset:
            return data  # as most often, whoever asks has everything
        return self._read_records(entry, partition, data, min(entry.max_bytes, left), at_least_one)

    def _problem(self, entry: FetchEntry, partition: Partition) -> ErrorCode:
        problem = partition.leadership_error(entry.leader_epoch)
        is_follower = problem is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.follows_a_leader
        return ErrorCode.NONE if is_follower and self._broker.reads_from_followers else problem

    def _sends_elsewhere(self, entry: FetchEntry, partition: Partition, data: PartitionData) -> bool:
        if partition.is_leader:
            data.preferred_read_replica = nearest_replica(
                self._broker.image, partition, self._rack, entry.offset
            )
        return data.preferred_read_replica != NO_REPLICA

    def _read_records(
        self, entry: FetchEntry, partition: Partition, data: PartitionData, room: int, at_least_one: bool
    ) -> PartitionData:
        log = partition.log
        aborted: list[tuple[int, int]] = []
        try:
            if self._committed_only:
                records, aborted = log.read_committed(entry.offset, room, at_least_one=at_least_one)
            else:
                records = log.read(entry.offset, room, log.high_watermark, at_least_one=at_least_one)
        except KafkaError as error:
            refused = _error(entry, error.code)
            refused.aborted_transactions = None
            return refused
        if records:
            data.records = records
            partition.counters.bytes_out.value += len(records)
            if aborted:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=producer, first_offset=first)
                    for producer, first in aborted
                ]
        return data

    def _answer(self, found: list[tuple[FetchEntry, Partition | None, PartitionData]]) -> FetchResponse:
        session = self._session
        topics: dict[str | Uuid, FetchableTopicResponse] = {}
        for entry, partition, data in found:
            if partition is not None:
                partition.counters.fetches.value += 1
                if data.error_code:
                    partition.counters.failed_fetches.value += 1
            news = is_news(entry, data)
            if news or session.full:
                key = key_of(entry)
                topic = topics.get(key)
                if topic is None:
                    topic = topics[key] = FetchableTopicResponse(
                        topic=entry.topic, topic_id=entry.topic_id, partitions=[]
                    )
                topic.partitions.append(data)
        self._end()
        if session.id != NO_SESSION:
            self._remember(found)
        return FetchResponse(session_id=session.id, responses=list(topics.values()))

    def _remember(self, found: list[tuple[FetchEntry, Partition | None, PartitionData]]) -> None:
        """What the client has been told, and what is still worth telling next time."""
        session = self._session
        with_data = []
        for entry, partition, data in found:
            entry.sent_high_watermark = data.high_watermark
            entry.sent_log_start = data.log_start_offset
            if data.records:
                with_data.append(entry)
            elif partition is not None and not data.error_code and entry not in self._held_back:
                session.ready.pop(entry, None)
                entry.watch(partition)
        session.rotate(with_data)

    # -- waiting ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._session.on_ready = self._news
        self._request.patience = self._wait_ms / 1000
        self._timer = self._broker.timers.call_later(self._wait_ms / 1000, self._time_out)

    def _news(self) -> None:
        # Several partitions of one produce request become news one after the other: answer them together.
        if not self._scheduled:
            self._scheduled = True
            self._broker.call_soon(self._retry)

    def _retry(self) -> None:
        self._scheduled = False
        self._try(final=self._session.ends_now)

    def _time_out(self) -> None:
        self._try(final=True)

    def _try(self, final: bool) -> None:
        if self._answered:
            return
        if len(self._session.ready) > READ_AT_ONCE:
            self._try_in_turns(final)
            return
        try:
            response = self._attempt(final)
        except Exception as error:  # called by the loop, to which nobody listens
            self._end()
            self._broker.dispatcher.fail(self._request, error)
        else:
            if response is not None:
                self._request.respond(response)

    def _try_in_turns(self, final: bool) -> None:
        """Try in a task of its own; what happens meanwhile is looked at afterwards."""
        self._has_news = self._has_news or self._trying
        self._is_late = self._is_late or final
        if self._trying:
            return

        async def attempt() -> FetchResponse | None:
            response = await self._attempt_in_turns(self._is_late)
            if response is None and self._is_late:
                response = await self._attempt_in_turns(final=True)
            self._trying = False
            if response is None and self._has_news:
                self._news()
            return response

        self._trying, self._has_news = True, False
        self._broker.dispatcher.finish_in_turns(self._request, attempt())

    def _end(self) -> None:
        self._answered = True
        if self._timer is not None:
            self._timer.cancel()
        session = self._session
        session.on_ready = None
        if session.id == NO_SESSION:
            session.close()


class ReplicaFetching(Fetching):
    """The same for a follower: it gets everything, committed or not, for that is how it gets committed."""

    __slots__ = ()

    def _problem(self, entry: FetchEntry, partition: Partition) -> ErrorCode:
        problem = partition.leadership_error(entry.leader_epoch)
        if not problem and not partition.is_assigned(self._session.replica):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return problem

    def _read_records(
        self, entry: FetchEntry, partition: Partition, data: PartitionData, room: int, at_least_one: bool
    ) -> PartitionData:
        log, throttle = partition.log, self._broker.leader_throttle
        is_throttled = _is_held_back(partition, self._session.replica)
        if is_throttled and throttle.is_exceeded:
            self._held_back.add(entry)  # it is looked at again with the next fetch
            return data
        try:
            records = log.read(entry.offset, room, log.log_end_offset, at_least_one=at_least_one)
        except KafkaError as error:
            refused = _error(entry, error.code)
            refused.log_start_offset = log.log_start_offset  # a follower goes on from there
            return refused
        if records:
            data.records = records
            if is_throttled:
                throttle.take(len(records))
        return data


def _is_held_back(partition: Partition, replica: int) -> bool:
    """Is this leader in the list? Replicas in sync are not held back: they would fall out of it."""
    listed = partition.log.config.leader_replication_throttled_replicas
    return (
        bool(listed)
        and not partition.is_in_sync(replica)
        and is_throttled(listed, partition.index, partition.broker_id)
    )


def nearest_replica(image: MetadataImage, partition: Partition, rack: str, offset: int) -> int:
    """The follower in the reader's rack that has the most, if it has what is asked for (KIP-392); else -1: us."""
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


def _error(entry: FetchEntry, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=entry.index, error_code=code, high_watermark=-1, records=b"")


def _not_here(entry: FetchEntry, partition: Partition, code: ErrorCode, version: int) -> PartitionData:
    data = _error(entry, code)
    data.aborted_transactions = None
    moved = code is not ErrorCode.UNKNOWN_LEADER_EPOCH  # then the client knows more than we do
    if moved and version >= CURRENT_LEADER_SINCE and partition.state is not None:
        data.current_leader = LeaderIdAndEpoch(
            leader_id=partition.state.leader, leader_epoch=partition.leader_epoch
        )
    return data


def _diverges(entry: FetchEntry, log: Log, data: PartitionData) -> bool:
    found = divergence(log, entry.last_fetched_epoch, entry.offset)
    if found is None:
        return False
    if found.epoch == NO_EPOCH:
        data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        data.high_watermark = data.last_stable_offset = data.log_start_offset = UNKNOWN_OFFSET
    else:
        data.diverging_epoch = found
    return True


def divergence(log: Log, last_epoch: int, offset: int) -> EpochEndOffset | None:
    """Where a reader's last epoch ended here, if that is earlier: it holds records that this leader never had
    (KIP-595). With epoch -1 when this leader knows nothing of it."""
    if last_epoch == NO_EPOCH or (last_epoch == log.epochs.latest and offset <= log.log_end_offset):
        return None
    epoch, end_offset = log.epoch_end_offset(last_epoch)
    if epoch == last_epoch and end_offset >= offset:
        return None
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)


def _refuse_all(message: FetchRequest, error: ErrorCode) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=wanted.partition, error_code=error, high_watermark=-1, records=b""
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
