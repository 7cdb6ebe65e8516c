"""Fetches from one leader: one request at a time, all partitions in one session, batches appended unchanged.

A partition is requested by its log end offset and last epoch. A session (KIP-227) names only changed partitions; it
is recreated if the leader does not know it or a response was lost.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.cluster import Peers
from barnabas.common.clock import Clock, Turn, TurnLimit
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import delay_after
from barnabas.common.safe_logging import safe_logger
from barnabas.log import LogUnsettled
from barnabas.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.replication import follower
from barnabas.replication.followed import Followed, Key, by_topic, key_of, name_all
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import FollowerThrottles

logger = safe_logger(__name__)

DEFAULT_TURN = TurnLimit()
_LAST_SESSION_EPOCH = 2**31 - 1
# After a leader change one broker learns of it first, the other some milliseconds later, or a second on a busy
# machine. So the first retries follow quickly, with a delay that grows up to replica.fetch.backoff.ms.
FIRST_PAUSE = 0.02
GROWTH = 1.3
WRITE_PAUSE = 0.02  # between two checks of a slow disk that has not written the last fetch yet
_SESSION_IS_GONE = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class ReplicaFetchSettings(NamedTuple):
    """Kafka's `replica.fetch.*` settings."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    backoff: float


class BrokerIdentity(NamedTuple):
    """Id and epoch with which a follower fetches; a leader rejects every epoch but the current one."""

    broker_id: int
    broker_epoch: int


class LeaderFetcher:
    """Follows the partitions of one leader. `_to_name` are the partitions to include in the next request,
    `_put_off` those to leave out for now."""

    def __init__(
        self,
        leader: int,
        peers: Peers,
        identity: Callable[[], BrokerIdentity],
        settings: Callable[[], ReplicaFetchSettings],
        clock: Clock,
        throttles: FollowerThrottles,
        turn_limit: TurnLimit = DEFAULT_TURN,
        moved_to_tiers: Callable[[Partition], None] = lambda partition: None,
        waits_for_tiers: Callable[[Partition], bool] = lambda partition: False,
    ) -> None:
        self.leader = leader
        self._moved_to_tiers = moved_to_tiers
        self._waits_for_tiers = waits_for_tiers
        self._turn_limit = turn_limit
        self._peers = peers
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._throttles = throttles
        self._followed: dict[Key, Followed] = {}
        self._to_name: dict[Key, Followed] = {}
        self._put_off: dict[Key, Followed] = {}
        self._forgotten: dict[Key, None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._failures = 0  # one after the other
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def add(self, partition: Partition) -> None:
        key = key_of(partition)
        self._followed[key] = self._to_name[key] = Followed(partition)
        self._put_off.pop(key, None)
        self._forgotten.pop(key, None)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def follows(self, partition: Partition) -> bool:
        """Return True if the partition is followed in its current epoch. A new epoch does not wait for a backoff to
        end."""
        one = self._followed.get(key_of(partition))
        state = partition.state
        return (
            one is not None
            and state is not None
            and state.leader == self.leader
            and one.leader_epoch == state.leader_epoch
        )

    def remove(self, partition: Partition) -> None:
        key = key_of(partition)
        if self._followed.pop(key, None) is not None:
            self._to_name.pop(key, None)
            self._put_off.pop(key, None)
            self._forgotten[key] = None

    def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    # -- the loop -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._followed:
            self._wake.clear()
            try:
                await self._fetch_once()
            except KafkaError as error:
                level = logging.DEBUG if self._failures else logging.INFO
                logger.log(level, "fetching from broker %d failed: %s", self.leader, error)
                await self._pause_after_failure()
            except Exception:
                logger.exception("fetching from broker %d failed", self.leader)
                await self._pause_after_failure()
        self._reset_session()
        self._task = None

    async def _pause_after_failure(self) -> None:
        self._reset_session()
        await self._pause(self._backoff_after(self._failures))
        self._failures += 1

    async def _pause(self, seconds: float) -> None:
        """Wait, unless a partition is added: its leader may be back."""
        alarm = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    def _backoff_after(self, failures: int) -> float:
        return delay_after(failures, FIRST_PAUSE, self._settings().backoff, GROWTH)

    async def _fetch_once(self) -> None:
        self._resume()
        self._put_off_unwritten()
        if len(self._put_off) == len(self._followed):
            await self._pause(self._next_resumption() or self._settings().backoff)
            return
        response: FetchResponse = await self._peers.send(self.leader, self._request())
        if response.error_code:
            self._reset_session()
            if response.error_code not in _SESSION_IS_GONE:
                raise KafkaError(ErrorCode(response.error_code))
            return
        self._failures = 0
        await self._take(response)
        self._continue_session(response.session_id)

    def _resume(self) -> None:
        """Resume partitions whose backoff has ended."""
        if not self._put_off:
            return
        now = self._clock.monotonic()
        for key, one in list(self._put_off.items()):
            if one.resume_at <= now and not one.is_written:
                one.resume_at = now + WRITE_PAUSE
            elif one.resume_at <= now and not self._throttles.are_exceeded_for(one.partition):
                del self._put_off[key]
                self._forgotten.pop(key, None)  # a request must not name and forget the same partition
                self._to_name[key] = one

    def _put_off_unwritten(self) -> None:
        """A log that began behind remote segments was not fetched by us, and its files may not be replaced yet."""
        for key, one in [item for item in self._to_name.items() if not item[1].is_written]:
            self._put_off_for(WRITE_PAUSE, key, one)

    def _next_resumption(self) -> float:
        """Seconds until the next backoff ends; 0 if none is pending."""
        now = self._clock.monotonic()
        return min(
            (one.resume_at - now for one in self._put_off.values() if one.resume_at > now), default=0.0
        )

    def _wait_ms(self, longest: int) -> int:
        """Milliseconds that the leader may wait for new records."""
        soon = self._next_resumption() if self._put_off else 0.0
        return min(longest, math.ceil(soon * 1000)) if soon else longest

    # -- asking -------------------------------------------------------------------------------------

    def _request(self) -> FetchRequest:
        settings, identity = self._settings(), self._identity()
        forgotten, self._forgotten = self._forgotten, {}
        named, self._to_name = self._to_name, {}
        return FetchRequest(
            replica_state=ReplicaState(identity.broker_id, identity.broker_epoch),
            max_wait_ms=self._wait_ms(settings.max_wait_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=name_all(named, settings.partition_max_bytes),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(forgotten if self._session_id else ()).items()
            ],
        )

    def _continue_session(self, session_id: int) -> None:
        if session_id == 0:
            self._reset_session()
            return
        self._session_id = session_id
        self._session_epoch = self._session_epoch + 1 if self._session_epoch < _LAST_SESSION_EPOCH else 1

    def _reset_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        self._to_name = {key: one for key, one in self._followed.items() if key not in self._put_off}

    # -- taking over --------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse) -> None:
        """Apply a response in slices: it may hold ten megabytes of small batches, or a thousand partitions."""
        answers = list(self._answers(response))
        for _, one, data in answers:
            follower.lower_recovery_point(one.partition, data)
        turn = Turn(self._turn_limit, self._clock.monotonic)
        for key, one, data in answers:
            if self._is_as_sent(key, one):
                for _ in self._take_one(key, one, data):
                    if turn.is_over():
                        await asyncio.sleep(0)
                        turn.begin()

    def _answers(self, response: FetchResponse) -> Iterator[tuple[Key, Followed, PartitionData]]:
        """Responses for partitions that are unchanged since the request."""
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                one = self._followed.get(key)
                if one is not None and key not in self._put_off:
                    self._to_name[key] = one
                    if self._is_as_sent(key, one):
                        yield key, one, data

    def _is_as_sent(self, key: Key, one: Followed) -> bool:
        """Return False if the leader or the log changed since the request was sent."""
        return self._followed.get(key) is one and one.sent == one.position() and not one.partition.is_leader

    def _take_one(self, key: Key, one: Followed, data: PartitionData) -> Iterator[None]:
        try:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset >= 0:
                self._start_again(key, one, data.log_start_offset)
            elif one.has_own_start and not data.error_code:
                self._start_again(key, one, 0)
            elif data.error_code:
                if data.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                    self._moved_to_tiers(one.partition)
                self._put_off_for(self._backoff_after(one.refusals), key, one)
                one.refusals += 1
            elif data.records and one.partition.log.is_empty and self._waits_for_tiers(one.partition):
                self._put_off_for(self._backoff_after(one.refusals), key, one)
                one.refusals += 1
            else:
                one.refusals = 0
                yield from self._take_records(key, one, data)
            yield
        except LogUnsettled:
            if self._followed.get(key) is one:
                self._put_off_for(WRITE_PAUSE, key, one)
        except Exception as error:
            # Any error concerns this partition only: continue with the others.
            unforeseen = not isinstance(error, KafkaError)
            logger.error(
                "%s cannot follow its leader: %s", one.partition.topic_partition, error, exc_info=unforeseen
            )
            if self._followed.get(key) is one:
                self._put_off_for(self._settings().backoff, key, one)

    def _start_again(self, key: Key, one: Followed, log_start: int) -> None:
        is_confirmed = one.has_own_start and one.partition.log.log_start_offset == log_start
        one.has_own_start = False
        if not is_confirmed:
            follower.start_again_at(one.partition, log_start)
        if not one.is_written:
            self._put_off_for(WRITE_PAUSE, key, one)

    def _take_records(self, key: Key, one: Followed, data: PartitionData) -> Iterator[None]:
        size = 0
        for appended in follower.take(
            one.partition, data, self._clock.now_ms(), self._turn_limit.piece_bytes
        ):
            size += appended
            yield
        if not one.is_written and self._followed.get(key) is one:
            self._put_off_for(WRITE_PAUSE, key, one)  # the leader must not count unwritten records
        throttle = self._throttles.of(one.partition) if size else None
        if throttle is not None:
            throttle.take(size)
            if throttle.is_exceeded and self._followed.get(key) is one:
                self._put_off_for(self._settings().backoff, key, one)

    def _put_off_for(self, seconds: float, key: Key, one: Followed) -> None:
        """Back off from a partition that its leader does not lead yet, or no longer. It is named again later, so
        that the leader then counts our log end."""
        one.resume_at = self._clock.monotonic() + seconds
        self._put_off[key] = one
        self._to_name.pop(key, None)
        self._forgotten[key] = None
