"""ShareFetch, versions 1 and 2: acquire records, and acknowledge earlier ones on the way.

- The records of a response are whole batches of the log, sent from its files; a separate field has the ranges that
  the member has acquired.
- Acknowledgements come first. The response waits until they are stored, and until there is data, as in Fetch.
- Version 2 brought renewing (KIP-1222), which is never combined with a fetch, and a strict limit (KIP-1206).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.share.requests import Acknowledging, Leaders, ShareNeeds, check_member
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.protocol.messages.share import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.replication import MAX_WAIT_MS, ColdRead, ColdReads, DelayedOperation, Loaded, TimerLoop
from barnabas.share import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    AcquireMode,
    AcquireRequest,
    Batches,
    LedSharePartition,
    ShareSession,
    TopicIdPartition,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

# Batches of aborted transactions are skipped; after this many rounds in one attempt, yield to the loop.
MAX_ROUNDS = 8

Data = dict[TopicIdPartition, ShareFetchPartitionData]
Opened = list[tuple[TopicIdPartition, LedSharePartition]]
Found = list[tuple[TopicIdPartition, LedSharePartition, Batches]]


class ShareFetchNeeds(TimerLoop, ShareNeeds, Protocol):
    """Broker attributes used by ShareFetch."""

    @property
    def fetch_max_bytes(self) -> int: ...

    @property
    def page_cache(self) -> ColdReads: ...


def share_fetch(
    broker: ShareFetchNeeds, request: Request, message: ShareFetchRequest
) -> ShareFetchResponse | None:
    try:
        check_member(message.group_id, message.member_id)
        if message.is_renew_ack:
            _check_renewal(message)
        session = _session(broker, request, message)
    except KafkaError as error:
        response = ShareFetchResponse(error_code=error.code, error_message=error.message)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            _answer_later(broker, request, message, response)
            return None
        return response
    DelayedShareFetch(broker, request, message, session).start()
    return None


def _check_renewal(message: ShareFetchRequest) -> None:
    values = (message.max_bytes, message.min_bytes, message.max_records, message.max_wait_ms)
    if any(values):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "maxBytes, minBytes, maxRecords and maxWaitMs must be set to 0, if isRenewAck is true.",
        )


def _session(broker: ShareFetchNeeds, request: Request, message: ShareFetchRequest) -> ShareSession:
    key = check_member(message.group_id, message.member_id)
    sessions = broker.coordinators.share_partitions.sessions
    partitions = [
        TopicIdPartition(topic.topic_id, wanted.partition_index)
        for topic in message.topics
        for wanted in topic.partitions
    ]
    if message.share_session_epoch == FINAL_EPOCH:
        return sessions.find(key)
    if message.share_session_epoch == INITIAL_EPOCH:
        if any(each.acknowledgement_batches for topic in message.topics for each in topic.partitions):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "a new session cannot have acknowledgements: nothing is acquired yet",
            )
        session = broker.coordinators.share_partitions.begin_session(key, request.connection)
        sessions.update(session, partitions)
        return session
    session = sessions.find(key)
    session.pass_epoch(message.share_session_epoch)
    sessions.update(
        session,
        partitions,
        [
            TopicIdPartition(topic.topic_id, index)
            for topic in message.forgotten_topics_data
            for index in topic.partitions
        ],
    )
    return session


def _answer_later(
    broker: ShareFetchNeeds, request: Request, message: ShareFetchRequest, response: ShareFetchResponse
) -> None:
    """Delay the response: a member that gets no session would retry at once."""
    seconds = min(message.max_wait_ms, MAX_WAIT_MS) / 1000
    request.client_wait = seconds
    broker.timers.call_later(seconds, lambda: request.respond(response))


class DelayedShareFetch(DelayedOperation):
    """One request until its response: attempt, wait for a change, attempt again."""

    __slots__ = (
        "_acknowledging",
        "_broker",
        "_committed_only",
        "_found",
        "_is_final",
        "_loaded",
        "_max_bytes",
        "_message",
        "_partitions",
        "_request",
        "_session",
        "_watched",
    )

    def __init__(
        self, broker: ShareFetchNeeds, request: Request, message: ShareFetchRequest, session: ShareSession
    ) -> None:
        super().__init__(broker)
        self._broker = broker
        self._request = request
        self._message = message
        self._session = session
        self._is_final = message.share_session_epoch == FINAL_EPOCH
        self._partitions = broker.coordinators.share_partitions
        isolation = self._partitions.configs.value(session.key.group_id, "share.isolation.level")
        self._committed_only = isolation == "read_committed"
        self._max_bytes = min(message.max_bytes, broker.fetch_max_bytes)
        self._acknowledging = Acknowledging(broker, session.key, renewing=message.is_renew_ack)
        self._found: Data | None = None
        self._watched: list[LedSharePartition] = []
        self._loaded: Loaded | None = None

    def start(self) -> None:
        topics = self._message.topics
        if any(wanted.acknowledgement_batches for topic in topics for wanted in topic.partitions):
            self._acknowledging.start(topics, self._finish)
        else:
            self._acknowledging.start((), self._finish)
        wants_records = self._message.max_records > 0 and self._max_bytes > 0
        if self._is_final or self._message.is_renew_ack or not wants_records or not self._session.partitions:
            self._found = {}
            self._end()
        else:
            self._attempt_first()

    # -- attempts -----------------------------------------------------------------------------------

    def _attempt(self, *, final: bool) -> bool:
        """Acquire available records; return False when there is too little data and time is left."""
        errors, opened = self._open_all()
        cold: list[ColdRead] = []
        found = self._find_batches(opened, errors, cold) if opened else []
        if cold:
            reads = {each.key: each for each in cold}
            self._broker.page_cache.load(cold, lambda: self._attempt_loaded(reads))
            return True  # retried when the data is in memory
        size = sum(batches.data.length for _, _, batches in found)
        if opened and not final and size < max(1, min(self._message.min_bytes, self._max_bytes)):
            self._watch(opened)
            return False
        before = [each.share.end if each.share is not None else 0 for _, each, _ in found]
        data = self._acquire(found)
        if opened and not final and not data:
            self._watch(opened)
            if before != [each.share.end if each.share is not None else 0 for _, each, _ in found]:
                self.changed()  # everything found must wait for its delay
            return False
        if self._message.share_session_epoch == INITIAL_EPOCH:
            for tp, _ in opened:  # the first response of a session names all its partitions
                if tp not in errors:
                    data.setdefault(tp, ShareFetchPartitionData(tp.partition, records=b""))
        self._found = {**errors, **data}
        return self._end()

    def _open_all(
        self,
    ) -> tuple[Data, Opened]:
        """Return partitions with an error, and readable ones, starting at another partition with every
        request.
        """
        errors: Data = {}
        opened: Opened = []
        partitions = list(self._session.partitions)
        turn = self._message.share_session_epoch % len(partitions) if partitions else 0
        lost = {
            TopicIdPartition(*each.key[1:]): each.error for each in self._watched if each.error is not None
        }
        for tp in partitions[turn:] + partitions[:turn]:
            try:
                if (error := lost.get(tp)) is not None:
                    raise error  # the client gets the error of a partition that it waited for
                key = SharePartitionKey(self._session.key.group_id, *tp)
                opened.append((tp, self._partitions.open(key)))
            except KafkaError as error:
                errors[tp] = _refused(tp, error)
        return errors, opened

    def _attempt_loaded(self, loaded: Loaded) -> None:
        if not self.is_completed:
            self._loaded = loaded
            self._attempt_first()
            self._loaded = None

    def _find_batches(self, opened: Opened, errors: Data, cold: list[ColdRead]) -> Found:
        ready = [(tp, each) for tp, each in opened if each.share is not None and each.share.can_acquire]
        room = max(1, self._max_bytes // max(1, len(ready)))
        limit, committed_only = self._message.max_records, self._committed_only
        found = []
        for tp, each in ready:
            try:
                batches = each.find(room, limit, committed_only=committed_only, loaded=self._loaded)
            except KafkaError as error:  # of the object store, or of the disk
                errors[tp] = _refused(tp, error)
                continue
            if isinstance(batches, ColdRead):
                cold.append(batches)
            elif batches is not None:
                found.append((tp, each, batches))
        return found

    def _acquire(self, found: Found) -> Data:
        data: Data = {}
        left = self._message.max_records
        for tp, opened, batches in found:
            if left <= 0:
                break
            acquired = self._acquire_from(tp, opened, batches, left)
            if acquired is not None:
                data[tp] = acquired
                left -= sum(each.last_offset - each.first_offset + 1 for each in acquired.acquired_records)
        return data

    def _acquire_from(
        self, tp: TopicIdPartition, opened: LedSharePartition, batches: Batches | None, limit: int
    ) -> ShareFetchPartitionData | None:
        message = self._message
        strict = message.share_acquire_mode == AcquireMode.RECORD_LIMIT
        wanted = AcquireRequest(self._session.key.member_id, limit, message.batch_size, strict)
        for _ in range(MAX_ROUNDS):
            if batches is None:
                return None
            acquired, records = opened.acquire(wanted, batches, committed_only=self._committed_only)
            if records is not None:
                opened.partition.counters.bytes_out.value += len(records)
                return ShareFetchPartitionData(
                    partition_index=tp.partition,
                    records=records,
                    acquired_records=[AcquiredRecords(*each) for each in acquired],
                )
            before = batches
            try:
                more = opened.find(self._max_bytes, limit, committed_only=self._committed_only, loaded={})
            except KafkaError:  # an error of the object store: the next fetch reports it
                return None
            if not isinstance(more, Batches) or more.offset <= before.offset:
                return None
            batches = more
        return None

    # -- waiting ------------------------------------------------------------------------------------

    def _attempt_first(self) -> None:
        if not self._attempt(final=self._message.max_wait_ms <= 0):
            seconds = min(self._message.max_wait_ms, MAX_WAIT_MS) / 1000
            self._request.client_wait = seconds
            self.wait(seconds)

    def _watch(self, opened: Opened) -> None:
        for _, each in opened:
            each.watch(self)
        self._watched = [each for _, each in opened]

    def try_complete(self) -> bool:
        return self._try(final=False)

    def share_changed(self) -> None:
        if not self.is_completed:
            self.try_complete()

    def on_expiration(self) -> None:
        self._loaded = {}  # do not wait for the disk any longer
        self._try(final=True)

    def _try(self, *, final: bool) -> bool:
        if self._request.connection.closed:
            return self._end()  # records must not be acquired for a disconnected client
        return self._attempt(final=final)

    def _end(self) -> bool:
        """Stop watching and respond; True once."""
        if not self.complete():
            return False
        for opened in self._watched:
            opened.unwatch(self)
        self._watched = []
        self._finish()
        return True

    # -- responding -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Respond when the acknowledgements are stored and the attempt is complete."""
        if self._found is None or not self._acknowledging.is_done:
            return
        found = self._found
        for tp, error in self._acknowledging.outcomes.items():
            data = found.setdefault(tp, ShareFetchPartitionData(tp.partition, records=b""))
            if error is not None:
                data.acknowledge_error_code = error.code
                data.acknowledge_error_message = error.message
        if self._is_final:
            self._partitions.end_session(self._session)
        self._request.respond(self._response(found))

    def _response(self, found: Data) -> ShareFetchResponse:
        leaders = Leaders(self._broker, self._request, set())
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for tp, data in found.items():
            leaders.point_to(tp, ErrorCode(data.error_code), data)
            topic = topics.get(tp.topic_id)
            if topic is None:
                topic = topics[tp.topic_id] = ShareFetchableTopicResponse(tp.topic_id, [])
            topic.partitions.append(data)
        lock_ms = self._partitions.configs.milliseconds(
            self._session.key.group_id, "share.record.lock.duration.ms"
        )
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=lock_ms,
            responses=list(topics.values()),
            node_endpoints=leaders.endpoints(),
        )


def _refused(tp: TopicIdPartition, error: KafkaError) -> ShareFetchPartitionData:
    return ShareFetchPartitionData(
        partition_index=tp.partition, error_code=error.code, error_message=error.message, records=b""
    )
