"""ShareFetch, versions 1 and 2: acquire records, and acknowledge earlier ones on the way.

- The records of an answer are whole batches of the log, sent from its files; what of them the member holds is
  said beside them.
- Acknowledgements come first. The answer waits until they are stored, and until there is something to read, as
  in Fetch.
- Version 2 brought renewing (KIP-1222), which is never combined with a fetch, and a strict limit (KIP-1206).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.clock import Timer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.share import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.queues.acquisition import Wanted
from barnabas.queues.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, ShareSession
from barnabas.queues.states import AcquireMode
from barnabas.queues.stored_state import ShareKey
from barnabas.server.fetch_sessions import LONGEST_WAIT_MS
from barnabas.server.share_partition import LedSharePartition
from barnabas.server.share_reading import Batches
from barnabas.server.share_requests import Acknowledging, Leaders, check_member

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

# Batches of aborted transactions are passed over; so many rounds of them in one attempt, then the loop has a break.
MOST_ROUNDS = 8


def share_fetch(broker: Broker, request: Request, message: ShareFetchRequest) -> ShareFetchResponse | None:
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
    ShareFetching(broker, request, message, session).start()
    return None


def _check_renewal(message: ShareFetchRequest) -> None:
    values = (message.max_bytes, message.min_bytes, message.max_records, message.max_wait_ms)
    if any(values):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "maxBytes, minBytes, maxRecords and maxWaitMs must be set to 0, if isRenewAck is true.",
        )


def _session(broker: Broker, request: Request, message: ShareFetchRequest) -> ShareSession:
    key = check_member(message.group_id, message.member_id)
    sessions = broker.coordinators.share_partitions.sessions
    places = [
        Place(topic.topic_id, wanted.partition_index)
        for topic in message.topics
        for wanted in topic.partitions
    ]
    if message.share_session_epoch == FINAL_EPOCH:
        return sessions.find(key)
    if message.share_session_epoch == INITIAL_EPOCH:
        if any(each.acknowledgement_batches for topic in message.topics for each in topic.partitions):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a session cannot begin with acknowledgements: nothing is acquired"
            )
        session = broker.coordinators.share_partitions.begin_session(key, request.connection)
        sessions.update(session, places)
        return session
    session = sessions.find(key)
    session.pass_epoch(message.share_session_epoch)
    sessions.update(
        session,
        places,
        [
            Place(topic.topic_id, index)
            for topic in message.forgotten_topics_data
            for index in topic.partitions
        ],
    )
    return session


def _answer_later(
    broker: Broker, request: Request, message: ShareFetchRequest, response: ShareFetchResponse
) -> None:
    """A member that gets no session would ask again at once."""
    seconds = min(message.max_wait_ms, LONGEST_WAIT_MS) / 1000
    request.patience = seconds
    broker.timers.call_later(seconds, lambda: request.respond(response))


class ShareFetching:
    """One request until it is answered: attempt, wait for news, attempt again."""

    __slots__ = (
        "_acknowledging",
        "_broker",
        "_committed_only",
        "_found",
        "_is_final",
        "_is_over",
        "_max_bytes",
        "_message",
        "_request",
        "_scheduled",
        "_session",
        "_timer",
        "_warmed",
        "_watched",
    )

    def __init__(
        self, broker: Broker, request: Request, message: ShareFetchRequest, session: ShareSession
    ) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._session = session
        self._is_final = message.share_session_epoch == FINAL_EPOCH
        isolation = broker.coordinators.share_partitions.configs.value(
            session.key.group_id, "share.isolation.level"
        )
        self._committed_only = isolation == "read_committed"
        self._max_bytes = min(message.max_bytes, broker.fetch_max_bytes)
        self._acknowledging = Acknowledging(broker, session.key, renewing=message.is_renew_ack)
        self._found: dict[Place, ShareFetchPartitionData] | None = None
        self._watched: list[LedSharePartition] = []
        self._timer: Timer | None = None
        self._scheduled = self._is_over = self._warmed = False

    def start(self) -> None:
        topics = self._message.topics
        if any(wanted.acknowledgement_batches for topic in topics for wanted in topic.partitions):
            self._acknowledging.start(topics, self._finish)
        else:
            self._acknowledging.start((), self._finish)
        wants_records = self._message.max_records > 0 and self._max_bytes > 0
        if self._is_final or self._message.is_renew_ack or not wants_records or not self._session.places:
            self._complete({})
        elif not self._attempt(final=self._message.max_wait_ms <= 0):
            self._wait()

    # -- attempts -----------------------------------------------------------------------------------

    def _attempt(self, *, final: bool) -> bool:
        """Take what there is; False when that is too little to be worth an answer and time is left."""
        errors, led = self._open_all()
        if led and not self._warmed and self._warm(led):
            return True  # we come back when the pages are in memory
        found = self._look(led) if led else []
        size = sum(batches.data.length for _, _, batches in found)
        if led and not final and size < max(1, min(self._message.min_bytes, self._max_bytes)):
            self._watch(led)
            return False
        before = [each.share.end if each.share is not None else 0 for _, each, _ in found]
        data = self._take(found)
        if led and not final and not data:
            self._watch(led)
            if before != [each.share.end if each.share is not None else 0 for _, each, _ in found]:
                self._look_on()  # all that was found must wait for its time
            return False
        if self._message.share_session_epoch == INITIAL_EPOCH:
            for place, _ in led:  # a new session hears of all its partitions
                data.setdefault(place, ShareFetchPartitionData(place.partition, records=b""))
        self._complete({**errors, **data})
        return True

    def _open_all(self) -> tuple[dict[Place, ShareFetchPartitionData], list[tuple[Place, LedSharePartition]]]:
        """Partitions with an error, and those that can be read, beginning at another one with every request."""
        errors: dict[Place, ShareFetchPartitionData] = {}
        led: list[tuple[Place, LedSharePartition]] = []
        places = list(self._session.places)
        turn = self._message.share_session_epoch % len(places) if places else 0
        lost = {Place(*each.key[1:]): each.error for each in self._watched if each.error is not None}
        for place in places[turn:] + places[:turn]:
            try:
                if (error := lost.get(place)) is not None:
                    raise error  # what this request has waited for: the client shall hear of it
                opened = self._broker.coordinators.share_partitions.open(
                    ShareKey(self._session.key.group_id, *place)
                )
                led.append((place, opened))
            except KafkaError as error:
                errors[place] = _refused(place, error)
        return errors, led

    def _warm(self, led: list[tuple[Place, LedSharePartition]]) -> bool:
        page_cache = self._broker.page_cache
        cold = []
        for _, each in led:
            log = each.partition.log
            offset = each.share.next_offset() if each.share is not None else log.log_end_offset
            if log.log_start_offset <= offset < log.log_end_offset and page_cache.is_cold(log, offset):
                cold.append((log, offset, self._max_bytes))
        if cold:
            self._warmed = True
            page_cache.warm(cold, self._warm_now)
        return bool(cold)

    def _warm_now(self) -> None:
        if not self._attempt(final=self._message.max_wait_ms <= 0):
            self._wait()
        self._warmed = False

    def _look(
        self, led: list[tuple[Place, LedSharePartition]]
    ) -> list[tuple[Place, LedSharePartition, Batches]]:
        ready = [(place, each) for place, each in led if each.share is not None and each.share.can_acquire]
        room = max(1, self._max_bytes // max(1, len(ready)))
        found = []
        for place, each in ready:
            batches = each.find(room, self._message.max_records, committed_only=self._committed_only)
            if batches is not None:
                found.append((place, each, batches))
        return found

    def _take(
        self, found: list[tuple[Place, LedSharePartition, Batches]]
    ) -> dict[Place, ShareFetchPartitionData]:
        data: dict[Place, ShareFetchPartitionData] = {}
        left = self._message.max_records
        for place, led, batches in found:
            if left <= 0:
                break
            taken = self._take_from(place, led, batches, left)
            if taken is not None:
                data[place] = taken
                left -= sum(each.last_offset - each.first_offset + 1 for each in taken.acquired_records)
        return data

    def _take_from(
        self, place: Place, led: LedSharePartition, batches: Batches | None, most: int
    ) -> ShareFetchPartitionData | None:
        message = self._message
        strict = message.share_acquire_mode == AcquireMode.RECORD_LIMIT
        wanted = Wanted(self._session.key.member_id, most, message.batch_size, strict)
        for _ in range(MOST_ROUNDS):
            if batches is None:
                return None
            taken, records = led.take(wanted, batches, committed_only=self._committed_only)
            if records is not None:
                led.partition.counters.bytes_out.value += len(records)
                return ShareFetchPartitionData(
                    partition_index=place.partition,
                    records=records,
                    acquired_records=[AcquiredRecords(*each) for each in taken],
                )
            before, batches = batches, led.find(self._max_bytes, most, committed_only=self._committed_only)
            if batches is not None and batches.offset <= before.offset:
                return None
        return None

    # -- waiting ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        if self._timer is None and not self._is_over:
            seconds = min(self._message.max_wait_ms, LONGEST_WAIT_MS) / 1000
            self._request.patience = seconds
            self._timer = self._broker.timers.call_later(seconds, self._time_out)

    def _watch(self, led: list[tuple[Place, LedSharePartition]]) -> None:
        for _, each in led:
            each.watch(self)
        self._watched = [each for _, each in led]

    def _look_on(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._broker.call_soon(self._retry)

    def _retry(self) -> None:
        self._scheduled = False
        self.share_changed()

    def share_changed(self) -> None:
        if self._request.connection.closed:
            self._end()  # records must not be given to somebody who is gone
        elif not self._is_over:
            self._attempt(final=False)

    def _time_out(self) -> None:
        self._timer = None
        if self._request.connection.closed:
            self._end()
        elif not self._is_over:
            self._warmed = True  # no more waiting for the disk
            self._attempt(final=True)

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for led in self._watched:
            led.unwatch(self)
        self._watched = []

    # -- answering ----------------------------------------------------------------------------------

    def _complete(self, found: dict[Place, ShareFetchPartitionData]) -> None:
        self._end()
        self._found = found
        self._finish()

    def _finish(self) -> None:
        """Both halves must be there: what was acknowledged is stored, and what is to be read is found."""
        if self._found is None or not self._acknowledging.is_done:
            return
        found = self._found
        for place, error in self._acknowledging.outcomes.items():
            data = found.setdefault(place, ShareFetchPartitionData(place.partition, records=b""))
            if error is not None:
                data.acknowledge_error_code = error.code
                data.acknowledge_error_message = error.message
        if self._is_final:
            self._broker.coordinators.share_partitions.end_session(self._session)
        self._request.respond(self._response(found))

    def _response(self, found: dict[Place, ShareFetchPartitionData]) -> ShareFetchResponse:
        leaders = Leaders(self._broker, self._request, set())
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for place, data in found.items():
            leaders.point_to(place, ErrorCode(data.error_code), data)
            topic = topics.get(place.topic_id)
            if topic is None:
                topic = topics[place.topic_id] = ShareFetchableTopicResponse(place.topic_id, [])
            topic.partitions.append(data)
        lock_ms = self._broker.coordinators.share_partitions.configs.milliseconds(
            self._session.key.group_id, "share.record.lock.duration.ms"
        )
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=lock_ms,
            responses=list(topics.values()),
            node_endpoints=leaders.endpoints(),
        )


def _refused(place: Place, error: KafkaError) -> ShareFetchPartitionData:
    return ShareFetchPartitionData(
        partition_index=place.partition, error_code=error.code, error_message=error.message, records=b""
    )
