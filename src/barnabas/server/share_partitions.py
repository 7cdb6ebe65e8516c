"""All share partitions of this broker, and the sessions of those who read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.queues.sessions import LEASE_PREFIX, SessionKey, ShareSession, ShareSessions
from barnabas.queues.stored_state import ShareKey
from barnabas.server.connection import Connection
from barnabas.server.dead_letters import DeadLetters
from barnabas.server.share_partition import LedSharePartition
from barnabas.server.share_persister import SharePersister

if TYPE_CHECKING:
    from barnabas.groups.configs import GroupConfigs
    from barnabas.server.broker import Broker


class SharePartitions:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.persister = SharePersister(broker)
        self.dead_letters = DeadLetters(broker)
        self.sessions = ShareSessions(
            broker.config["group.share.max.share.sessions"],
            broker.config["barnabas.fetch.session.max.partitions"],
        )
        self._led: dict[ShareKey, LedSharePartition] = {}
        self._by_connection: dict[Connection, set[ShareSession]] = {}

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._led.values())

    def __len__(self) -> int:
        return len(self._led)

    @property
    def configs(self) -> GroupConfigs:
        return self.broker.coordinators.groups.configs

    def stop(self) -> None:
        for led in list(self._led.values()):
            self.forget(led)
            led.close()
        self.dead_letters.stop()
        self.persister.stop()

    # -- finding ------------------------------------------------------------------------------------

    def find(self, key: ShareKey) -> LedSharePartition | None:
        """The share partition if it is in memory, current or not."""
        return self._led.get(key)

    def open(self, key: ShareKey) -> LedSharePartition:
        """The share partition, which begins to load if it is not in memory; KafkaError if it is not ours."""
        led = self._led.get(key)
        if led is not None and led.is_current:
            return led
        partition = self.broker.replicas.by_id.get(key.topic_id, {}).get(key.partition)
        if partition is None:
            raise KafkaError(self.broker.replicas.why_missing("", key.topic_id, key.partition))
        if not partition.is_leader or self.broker.is_fenced:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if led is not None:
            self.forget(led)
            led.close()
        led = LedSharePartition(self, key, partition)
        if led.error is not None:  # known at once
            raise led.error
        self._led[key] = led
        return led

    def forget(self, led: LedSharePartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]

    # -- sessions -----------------------------------------------------------------------------------

    def begin_session(self, key: SessionKey, connection: Connection) -> ShareSession:
        """A session lives no longer than its connection, unless it is a lease."""
        former = self.sessions.peek(key)
        session = self.sessions.open(key, connection)
        if former is not None and isinstance(former.connection, Connection):
            self._by_connection.get(former.connection, set()).discard(former)
        if connection not in self._by_connection:
            self._by_connection[connection] = set()
            connection.when_closed(lambda: self._connection_closed(connection))
        self._by_connection[connection].add(session)
        return session

    def _connection_closed(self, connection: Connection) -> None:
        for session in self._by_connection.pop(connection):
            if session.key.member_id.startswith(LEASE_PREFIX):
                self._end_when_locks_have_run_out(session)
            else:
                self.end_session(session)

    def _end_when_locks_have_run_out(self, session: ShareSession) -> None:
        """Somebody with a receipt may answer for it on another connection until then."""
        lock_ms: int = self.configs.value(session.key.group_id, "share.record.lock.duration.ms")
        self.broker.timers.call_later(lock_ms / 1000, lambda: self.end_session(session))

    def end_session(self, session: ShareSession) -> None:
        """A member has gone: what it held is free, and a group without members here needs no memory."""
        if isinstance(session.connection, Connection):
            self._by_connection.get(session.connection, set()).discard(session)
        if not self.sessions.close(session):
            return
        group_id, member_id = session.key
        for place in session.places:
            led = self._led.get(ShareKey(group_id, *place))
            if led is not None:
                led.release(member_id)
        for led in [led for led in self._led.values() if led.key.group_id == group_id]:
            self.forget_if_unused(led)

    def forget_if_unused(self, led: LedSharePartition) -> None:
        """The next member finds what is stored; until all is, the one in memory is kept."""
        if self.sessions.has_members(led.key.group_id):
            return
        if led.share is None or (led.share.is_stored and not led.share.has_dying):
            self.forget(led)
            led.close()
