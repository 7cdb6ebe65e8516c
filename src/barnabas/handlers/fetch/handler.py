"""Fetch requests of consumers and of followers.

Versions 4 to 18 are served; version 13 and later name topics by id, version 7 and later may use a session.
The first batch is returned whole even if it is larger than the limits (KIP-74), an offset inside a batch
returns that batch from its start, and nothing at or above the high watermark (with read_committed: the
last stable offset) is ever returned to a consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.controller import check_broker_epoch
from barnabas.handlers.fetch import attempt
from barnabas.handlers.fetch.delayed import SessionlessFetch, start
from barnabas.handlers.fetch.divergence import has_all_before
from barnabas.handlers.fetch.reader import (
    AuthorizedReader,
    PartitionReader,
    PassNotes,
    ReplicaReader,
)
from barnabas.handlers.needs import FetchNeeds
from barnabas.network.requests import RequestTurn, Result, access_of, log_refused
from barnabas.network.requests.request_parts import ArrayLevel, slices, with_value
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.replication import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_SINCE,
    WITHOUT_SESSION,
    FetchSession,
    ReplicaManager,
)
from barnabas.security.authz import FULL_ACCESS

if TYPE_CHECKING:
    from barnabas.network.requests import Request


# -- A fetch above its consumer's quota: nothing is sent, and the session is unchanged


def withheld(broker: FetchNeeds, message: FetchRequest, response: FetchResponse) -> FetchResponse:
    """Return the response without records. One with a top-level error is unchanged."""
    if response.error_code:
        return response
    _count_as_unsent(broker.replicas, response)
    if message.session_epoch == INITIAL_EPOCH:
        broker.fetch_sessions.close(response.session_id)
        return FetchResponse(session_id=NO_SESSION)
    broker.fetch_sessions.take_back(response)
    return FetchResponse(session_id=response.session_id)


def _count_as_unsent(replicas: ReplicaManager, response: FetchResponse) -> None:
    for topic in response.responses:
        by_id = topic.topic_id != ZERO_UUID
        partitions = replicas.by_id.get(topic.topic_id) if by_id else replicas.by_name.get(topic.topic)
        for data in topic.partitions:
            if data.records and partitions is not None and data.partition_index in partitions:
                partitions[data.partition_index].counters.bytes_out.value -= len(data.records)


_PARTITIONS = (ArrayLevel("partitions", ""),)


Reader = Callable[[FetchNeeds, int, FetchRequest, FetchSession], PartitionReader]


def fetch(broker: FetchNeeds, request: Request, message: FetchRequest) -> Result[FetchResponse]:
    if message.replica_state.replica_id >= 0 or message.replica_id >= 0:
        return _fetch_as_replica(broker, request, message)
    version = request.version
    topics = message.topics
    if message.session_epoch != FINAL_EPOCH or message.session_id != NO_SESSION or len(topics) != 1:
        return _fetch_with_session(broker, request, message)
    if request.after is not None and (kind := _reader_of(request)) is not PartitionReader:
        return _fetch_with_session(broker, request, message, kind)
    direct = PartitionReader(broker, version, message, WITHOUT_SESSION[version >= TOPIC_IDS_SINCE])
    made = attempt.attempt_without_session(direct, topics[0])
    if isinstance(made, list):
        SessionlessFetch(broker, request, direct, topics[0], made).start()
        return None
    if made is not None:
        return made
    return _fetch_with_session(broker, request, message, PartitionReader, direct.notes)


def _fetch_with_session(
    broker: FetchNeeds,
    request: Request,
    message: FetchRequest,
    kind: Reader | None = None,
    notes: PassNotes | None = None,
) -> Result[FetchResponse]:
    """Serve a fetch of a session, or of one that lasts for this request, whose first pass has found cold reads."""
    try:
        session = broker.fetch_sessions.open(message, request.version)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if kind is None:
        kind = PartitionReader if request.after is None else _reader_of(request)
    reading = kind(broker, request.version, message, session)
    reading.notes = notes
    return start(broker, request, reading)


def _reader_of(request: Request) -> Reader:
    """A session names topics once: Read is checked on every read."""
    access = access_of(request)
    return PartitionReader if access is FULL_ACCESS else partial(AuthorizedReader, access)


def _fetch_as_replica(broker: FetchNeeds, request: Request, message: FetchRequest) -> Result[FetchResponse]:
    """Serve a broker: data that a follower has fetched counts as replicated, and becomes visible to
    consumers.
    """
    refused = _refusal_of_replica(request, message)
    if refused is not None:
        return _refuse_all(message, refused)
    try:
        session = _open_for_replica(broker, request, message)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    _note_progress(broker, session, message)
    return start(broker, request, ReplicaReader(broker, request.version, message, session))


async def fetch_in_turns(broker: FetchNeeds, request: Request, message: FetchRequest) -> FetchResponse | None:
    """The same for a request of many partitions."""
    turn, is_replica = RequestTurn(), message.replica_state.replica_id >= 0
    if is_replica or message.replica_id >= 0:
        refused = _refusal_of_replica(request, message)
        if refused is not None:
            topics = await turn.collect(_parts_of(message), lambda part: _refuse_all(part, refused))
            return FetchResponse(responses=[topic for part in topics for topic in part.responses])
    try:
        first = with_value(message, "topics", [])
        if is_replica:
            session = _open_for_replica(broker, request, first)
            message.max_wait_ms = first.max_wait_ms
        else:
            session = broker.fetch_sessions.open(first, request.version)
        for part in _parts_of(message):
            session.update(part)
            broker.fetch_sessions.count(session, session.replica)
            if is_replica:
                _note_progress(broker, session, part)
            if turn.is_over():
                await turn.rest()
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    kind = ReplicaReader if is_replica else _reader_of(request)
    answer = start(broker, request, kind(broker, request.version, message, session))
    return await answer if isinstance(answer, Coroutine) else answer


def _parts_of(message: FetchRequest) -> Iterator[FetchRequest]:
    """Split a request into several with some of the partitions each, and without forgotten topics."""
    rest = with_value(message, "forgotten_topics_data", [])
    topics: list[FetchTopic]
    for topics in slices(message.topics, _PARTITIONS, attempt.READ_AT_ONCE):
        yield with_value(rest, "topics", topics)


# -- followers ------------------------------------------------------------------------------------------


def _refusal_of_replica(request: Request, message: FetchRequest) -> ErrorCode | None:
    if not request.context.is_privileged:
        log_refused(request)
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # Kafka's error code for it
    # Before version 15 a follower could not send its broker epoch (KIP-903).
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if message.replica_id >= 0 else None


def _open_for_replica(broker: FetchNeeds, request: Request, message: FetchRequest) -> FetchSession:
    replica = message.replica_state.replica_id
    check_broker_epoch(broker.image, replica, message.replica_state.replica_epoch)
    session = broker.fetch_sessions.open(message, request.version)
    wait_ms = broker.fetch_sessions.follower_fetches(session, replica)
    message.max_wait_ms = min(message.max_wait_ms, wait_ms)
    return session


def _note_progress(broker: FetchNeeds, session: FetchSession, message: FetchRequest) -> None:
    """Update a follower's progress: its fetch offset acknowledges everything before it, unless its log
    diverges.
    """
    epoch = message.replica_state.replica_epoch
    for topic in message.topics:
        partitions = broker.replicas.by_id.get(topic.topic_id, {})
        for wanted in topic.partitions:
            partition = partitions.get(wanted.partition)
            if partition is not None and has_all_before(partition, session.replica, wanted):
                partition.follower_reached(session.replica, wanted.fetch_offset, epoch)


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
