"""Fetch sessions (KIP-227).

A session remembers its partitions between requests and keeps a *ready* set: the partitions that may have data or
news for the client. A partition without news is watched and leaves the set until it changes. The cost of a fetch is
therefore proportional to the changes, not to the subscription.

A fetch without a session uses a session of one request. So does a consumer whose partitions exceed the limit: a
client may name partitions that do not exist, and each remembered one takes memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.replication.partition import Partition

NO_SESSION: Final = 0
NO_REPLICA: Final = -1  # a consumer fetches, not a follower
FINAL_EPOCH: Final = -1  # no session, or the end of one
INITIAL_EPOCH: Final = 0  # a full fetch that asks for a session
TOPIC_IDS_SINCE: Final = 13
MAX_WAIT_MS: Final = 600_000  # a client may ask for weeks; its idle connection would be closed by then
# After becoming leader: how long followers may take to name the partition, and the maximum wait of their polls
# meanwhile.
EXPECTATION_S = 1.0
EXPECTANT_WAIT_MS = 25
EVICTION_AGE_S = 120.0  # a session used within this time is not evicted for another (Kafka's own constant)
UNBOUNDED = 2**31 - 1
_LAST_EPOCH = 2**31 - 1

EntryKey: TypeAlias = tuple[str | Uuid, int]


class FetchEntry:
    """One partition of a session: the consumer's fetch offset and the offsets last sent to it.

    The request fields have the names of `FetchPartition`: a fetch without a session reads them from there.
    """

    __slots__ = (
        "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "partition", "partition_max_bytes",
        "sent_high_watermark", "sent_log_start", "session", "topic", "topic_id", "topic_key", "watched",
    )  # fmt: skip

    def __init__(self, topic: FetchTopic, topic_key: str | Uuid, element_count: FetchPartition) -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.topic_key = topic_key  # name or id, depending on the session's version
        self.partition = element_count.partition
        self.watched: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start = -1
        self.fetch_offset = element_count.fetch_offset
        self.partition_max_bytes = element_count.partition_max_bytes
        self.current_leader_epoch = element_count.current_leader_epoch
        self.last_fetched_epoch = element_count.last_fetched_epoch

    def update(self, element_count: FetchPartition) -> None:
        self.fetch_offset = element_count.fetch_offset
        self.partition_max_bytes = element_count.partition_max_bytes
        self.current_leader_epoch = element_count.current_leader_epoch
        self.last_fetched_epoch = element_count.last_fetched_epoch

    def sent(self, data: PartitionData) -> None:
        self.sent_high_watermark = data.high_watermark
        self.sent_log_start = data.log_start_offset

    def watch(self, session: FetchSession, partition: Partition) -> None:
        self.session = session
        self.watched = partition
        if session.replica == NO_REPLICA:
            partition.watch(self)
        else:
            partition.watch_end(self)

    def unwatch(self) -> None:
        if self.watched is not None:
            self.watched.unwatch(self)
            self.watched = None

    def partition_changed(self, new_bytes: int) -> None:
        self.watched = None
        self.session.changed(self)

    def high_watermark_moved(self) -> None:
        self.session.include_in_response(self)


class FetchSession:
    """The partitions of one client. `ready` is changed by this class only."""

    __slots__ = (
        "counted", "ends_now", "entries", "epoch", "full", "id", "last_used", "on_ready", "ready", "replica",
        "uses_topic_ids",
    )  # fmt: skip

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        self.uses_topic_ids = uses_topic_ids
        self.replica = NO_REPLICA  # the follower that fetches
        self.last_used = now
        self.ends_now = False  # respond to a waiting fetch even without news
        self.full = True  # the next response includes every partition, not only changed ones
        self.entries: dict[EntryKey, FetchEntry] = {}
        self.counted = 0  # partitions counted in the sum of all sessions
        self.ready: dict[FetchEntry, None] = {}
        self.on_ready: Callable[[], None] | None = None

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget partitions as requested."""
        entries, ready = self.entries, self.ready
        for topic in request.topics:
            topic_key = topic.topic_id if self.uses_topic_ids else topic.topic
            for element_count in topic.partitions:
                index = element_count.partition
                entry = entries.get((topic_key, index))
                if entry is None:
                    entry = entries[topic_key, index] = FetchEntry(topic, topic_key, element_count)
                else:
                    entry.update(element_count)
                if self.replica != NO_REPLICA:
                    entry.sent_high_watermark = -1  # the follower may have lost our last response
                ready[entry] = None
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self._forget((forgotten.topic_id if self.uses_topic_ids else forgotten.topic, index))

    def _forget(self, key: EntryKey) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            entry.unwatch()
            self.ready.pop(entry, None)

    def set_idle(self, entry: FetchEntry, partition: Partition) -> None:
        """Mark a partition as having nothing to read, until it changes."""
        self.ready.pop(entry, None)
        entry.watch(self, partition)

    def keep_ready(self, entry: FetchEntry, partition: Partition) -> None:
        """Keep a partition ready: more data may follow."""
        self.ready[entry] = None
        entry.watch(self, partition)

    def changed(self, entry: FetchEntry) -> None:
        self.ready[entry] = None
        if self.on_ready is not None:
            self.on_ready()

    def include_in_response(self, entry: FetchEntry) -> None:
        """Include the partition in the next response, without completing a waiting fetch."""
        self.ready[entry] = None

    def end_poll(self) -> None:
        self.ends_now = True
        if self.on_ready is not None:
            self.on_ready()

    def rotate(self, entries: Iterable[FetchEntry]) -> None:
        """Move the partitions that just got data to the end, so that none starves the others."""
        for entry in entries:
            self.ready.pop(entry, None)
            self.ready[entry] = None

    def take_back(self, response: FetchResponse) -> None:
        """Undo the state of a response that is not sent: its news must be sent again."""
        for topic in response.responses:
            topic_key = topic.topic_id if self.uses_topic_ids else topic.topic
            for data in topic.partitions:
                entry = self.entries.get((topic_key, data.partition_index))
                if entry is not None:
                    entry.unwatch()
                    entry.sent_high_watermark = -1
                    self.ready[entry] = None

    def close(self) -> None:
        for entry in self.entries.values():
            entry.unwatch()
        self.entries.clear()
        self.ready.clear()
        self.on_ready = None


WITHOUT_SESSION: Final = {
    uses_topic_ids: FetchSession(NO_SESSION, uses_topic_ids, 0.0) for uses_topic_ids in (False, True)
}
"""Empty defaults for fetches that are read from their request; never modified."""


class FetchSessions:
    """All sessions of a broker, bounded: the least recently used consumer session is evicted for a new one."""

    def __init__(self, slots: int, clock: Clock, max_partitions: int = UNBOUNDED) -> None:
        self._slots = slots
        self.max_partitions = max_partitions
        self._clock = clock
        self._sessions: dict[int, FetchSession] = {}  # in order of last use
        self._followers: dict[int, FetchSession] = {}  # the latest of each replica
        self._expectant_until: dict[int, float] = {}  # by replica
        self.evicted = 0
        self.refused = 0  # sessions refused or closed because of the partition limit
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def open(self, request: FetchRequest, version: int) -> FetchSession:
        """The session for this request; KafkaError if session id or epoch do not match."""
        uses_topic_ids, epoch = version >= TOPIC_IDS_SINCE, request.session_epoch
        if epoch == FINAL_EPOCH:
            if request.session_id != NO_SESSION:
                self.close(request.session_id)
            session = FetchSession(NO_SESSION, uses_topic_ids, 0.0)
        elif epoch == INITIAL_EPOCH:
            self.close(request.session_id)
            session = self._create(request, uses_topic_ids, request.replica_state.replica_id)
        else:
            session = self._continue(request, uses_topic_ids)
        session.update(request)
        if session.id != NO_SESSION:
            self.count(session, request.replica_state.replica_id)
        return session

    def count(self, session: FetchSession, replica: int) -> None:
        """Count a session's partitions. A session beyond the limit is closed; its client then fetches without one,
        as with Kafka when no slots are free."""
        added = len(session.entries) - session.counted
        if not added or session.id not in self._sessions:
            return
        session.counted += added
        self.partition_count += added
        if self.partition_count > self.max_partitions and replica == NO_REPLICA and added > 0:
            self.refused += 1
            self.close(session.id)
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                "the fetch sessions of this broker have reached barnabas.fetch.session.max.partitions",
            )

    def take_back(self, response: FetchResponse) -> None:
        """Undo the state of a session's response that is not sent."""
        session = self._sessions.get(response.session_id)
        if session is not None:
            session.take_back(response)

    # -- followers ----------------------------------------------------------------------------------

    def follower_fetches(self, session: FetchSession, replica: int) -> int:
        """Register the follower's session; returns its maximum wait in milliseconds."""
        session.replica = replica
        session.ends_now = False
        self._followers[replica] = session
        is_expectant = self._clock.monotonic() < self._expectant_until.get(replica, 0.0)
        return EXPECTANT_WAIT_MS if is_expectant else MAX_WAIT_MS

    def expect(self, replicas: Iterable[int]) -> None:
        """Shorten the polls of these followers: this broker became leader of a partition that they follow, and they
        can name it only after their current poll."""
        until = self._clock.monotonic() + EXPECTATION_S
        for replica in replicas:
            self._expectant_until[replica] = until
            if (session := self._followers.get(replica)) is not None:
                session.end_poll()

    def _single_use(self, uses_topic_ids: bool) -> FetchSession:
        return FetchSession(NO_SESSION, uses_topic_ids, 0.0)

    def _create(self, request: FetchRequest, uses_topic_ids: bool, replica: int) -> FetchSession:
        """Create a session. A follower always gets exactly one: without it, it would name a thousand partitions per
        fetch."""
        now, follows = self._clock.monotonic(), replica != NO_REPLICA
        if (former := self._followers.pop(replica, None)) is not None:
            self.close(former.id)
        if len(self._sessions) >= self._slots and not self._evict(now, even_if_used=follows) and not follows:
            return self._single_use(uses_topic_ids)
        if not follows and not self._has_room(request):
            self.refused += 1
            return self._single_use(uses_topic_ids)
        session = FetchSession(self._new_id(), uses_topic_ids, now)
        self._sessions[session.id] = session
        return session

    def _has_room(self, request: FetchRequest) -> bool:
        element_count = sum(len(topic.partitions) for topic in request.topics)
        return self.partition_count + element_count <= self.max_partitions

    def _continue(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        expected = session.epoch + 1 if session.epoch < _LAST_EPOCH else 1
        if request.session_epoch != expected:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = expected
        session.full = False
        session.last_used = self._clock.monotonic()
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _evict(self, now: float, *, even_if_used: bool) -> bool:
        """Evict a consumer's session."""
        oldest = next((each for each in self._sessions.values() if each.replica == NO_REPLICA), None)
        if oldest is None or (now - oldest.last_used < EVICTION_AGE_S and not even_if_used):
            return False
        self.close(oldest.id)
        self.evicted += 1
        return True

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= session.counted
            session.close()

    def _new_id(self) -> int:
        while (candidate := random.randint(1, 2**31 - 1)) in self._sessions:
            pass
        return candidate
