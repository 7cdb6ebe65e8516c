"""All share partitions of this broker, and the share sessions of their readers (Kafka's
SharePartitionManager).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.replication import ReplicaManager
from barnabas.share.dead_letter_writer import DeadLetterWriter
from barnabas.share.led_partition import LedSharePartition, ShareEnvironment, ShareGroupConfigs
from barnabas.share.persister import SharePersister
from barnabas.share.sessions import LEASE_PREFIX, SessionKey, ShareSession, ShareSessions


class ShareConnection(Protocol):
    def when_closed(self, callback: Callable[[], None]) -> None: ...


class SharePartitionManager:
    def __init__(
        self,
        replicas: ReplicaManager,
        persister: SharePersister,
        dead_letters: DeadLetterWriter,
        sessions: ShareSessions,
        environment: ShareEnvironment,
        configs: ShareGroupConfigs,
    ) -> None:
        self._replicas = replicas
        self._environment = environment
        self.persister = persister
        self.configs = configs
        self._dead_letters = dead_letters
        self.sessions = sessions
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._by_connection: dict[object, set[ShareSession]] = {}

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._led.values())

    def __len__(self) -> int:
        return len(self._led)

    def stop(self) -> None:
        for led_partition in list(self._led.values()):
            self.forget(led_partition)
            led_partition.close()
        self._dead_letters.stop()

    # -- finding ------------------------------------------------------------------------------------

    def find(self, key: SharePartitionKey) -> LedSharePartition | None:
        """The share partition if it is in memory, current or not."""
        return self._led.get(key)

    def open(self, key: SharePartitionKey) -> LedSharePartition:
        """The share partition, loading it if necessary; KafkaError if this broker does not lead it."""
        led_partition = self._led.get(key)
        if led_partition is not None and led_partition.is_current:
            return led_partition
        partition = self._replicas.by_id.get(key.topic_id, {}).get(key.partition)
        if partition is None:
            raise KafkaError(self._replicas.why_missing("", key.topic_id, key.partition))
        if not partition.is_leader or self._environment.cluster.is_fenced:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if led_partition is not None:
            self.forget(led_partition)
            led_partition.close()
        led_partition = LedSharePartition(self._environment, self, key, partition)
        if led_partition.error is not None:  # known at once
            raise led_partition.error
        self._led[key] = led_partition
        return led_partition

    def forget(self, led_partition: LedSharePartition) -> None:
        if self._led.get(led_partition.key) is led_partition:
            del self._led[led_partition.key]

    def write_dead_letters(self, led_partition: LedSharePartition) -> None:
        self._dead_letters.start(led_partition, self.forget_if_unused)

    # -- sessions -----------------------------------------------------------------------------------

    def begin_session(self, key: SessionKey, connection: ShareConnection) -> ShareSession:
        """Open a session. It ends with its connection, unless it is a lease."""
        former = self.sessions.peek(key)
        session = self.sessions.open(key, connection)
        if former is not None:
            self._by_connection.get(former.connection, set()).discard(former)
        if connection not in self._by_connection:
            self._by_connection[connection] = set()
            connection.when_closed(lambda: self._connection_closed(connection))
        self._by_connection[connection].add(session)
        return session

    def _connection_closed(self, connection: ShareConnection) -> None:
        for session in self._by_connection.pop(connection):
            if session.key.member_id.startswith(LEASE_PREFIX):
                self._end_when_locks_have_run_out(session)
            else:
                self.end_session(session)

    def _end_when_locks_have_run_out(self, session: ShareSession) -> None:
        """Until then, the holder of a receipt may acknowledge on another connection."""
        lock_ms: int = self.configs.value(session.key.group_id, "share.record.lock.duration.ms")
        self._environment.timers.call_later(lock_ms / 1000, lambda: self.end_session(session))

    def end_session(self, session: ShareSession) -> None:
        """Release the records of a member, and unload share partitions of a group without members here."""
        self._by_connection.get(session.connection, set()).discard(session)
        if not self.sessions.close(session):
            return
        group_id, member_id = session.key
        for tp in session.partitions:
            led_partition = self._led.get(SharePartitionKey(group_id, *tp))
            if led_partition is not None:
                led_partition.release(member_id)
        for led_partition in [
            led_partition for led_partition in self._led.values() if led_partition.key.group_id == group_id
        ]:
            self.forget_if_unused(led_partition)

    def forget_if_unused(self, led_partition: LedSharePartition) -> None:
        """Unload the share partition if no member uses it and all of its state is stored."""
        if self.sessions.has_members(led_partition.key.group_id):
            return
        if led_partition.share is None or (
            led_partition.share.is_stored and not led_partition.share.has_archiving
        ):
            self.forget(led_partition)
            led_partition.close()
