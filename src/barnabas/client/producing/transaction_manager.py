"""Transactions of one producer: their state, the partitions and groups in them, and how they end.

States: *ready* -> `begin` -> *open* -> `end` -> *ready*. A failed delivery makes an open transaction *failed*: it can
only be aborted. A fenced producer is *fenced* for good, because another process uses its transactional id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError
from barnabas.client.groups import CommittedOffset, find_coordinator
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdentity
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

LAST_V1_COMMIT = 4  # of TxnOffsetCommit: a newer version adds the group to the transaction

_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


class TransactionError(ClientError):
    """The transaction cannot continue. Unless the producer is fenced, abort it and begin another one."""


class ProducerFencedError(TransactionError):
    """Another producer uses the transactional id. Close this one."""


class GroupMetadata(NamedTuple):
    """Member of a consumer group whose offsets a transaction commits; the broker rejects a former member."""

    group_id: str
    member_id: str = ""
    epoch: int = -1


class _State(Enum):
    NEW = auto()
    READY = auto()
    OPEN = auto()
    FAILED = auto()
    FENCED = auto()


class TransactionManager:
    def __init__(self, client: Client, transactional_id: str, timeout_ms: int) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.identity: ProducerIdentity = NO_PRODUCER_ID
        self.is_v2 = False
        self._timeout_ms = timeout_ms
        self._requests = TransactionRequests(client)
        self._state = _State.NEW
        self._joined: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._failure: Exception | None = None
        self._turn = asyncio.Lock()

    async def initialize(self) -> None:
        """Take the transactional id: abort its open transaction and fence its previous producer."""
        if self._state is _State.NEW:
            take = self._requests.initialize_own
            self.identity, self.is_v2 = await take(self.transactional_id, self._timeout_ms)
            self._state = _State.READY

    def begin(self) -> None:
        if self._state is _State.FENCED:
            raise self._fenced()
        if self._state is not _State.READY:
            raise TransactionError("a transaction is open already: commit or abort it first")
        self._state = _State.OPEN

    @property
    def is_open(self) -> bool:
        return self._state in (_State.OPEN, _State.FAILED)

    def check_open(self) -> None:
        """Raise unless records may be sent now."""
        if self._state is _State.OPEN:
            return
        if self._state is _State.FENCED:
            raise self._fenced()
        if self._state is _State.FAILED:
            raise TransactionError(f"the transaction has failed and must be aborted: {self._failure}")
        raise TransactionError(
            "a transactional producer sends in a transaction: use `with producer.transaction():`"
        )

    def failed(self, error: Exception) -> Exception:
        """Note a failed delivery; returns the error for the caller."""
        if isinstance(error, KafkaError) and error.code in _FENCED:
            self._state, self._failure = _State.FENCED, error
            return self._fenced()
        if self._state is _State.OPEN:
            self._state, self._failure = _State.FAILED, error
        return error

    async def join(self, tp: TopicPartition) -> None:
        """Add a partition before its first batch. With V2 the batch itself does that."""
        async with self._turn:
            if tp not in self._joined:
                if not self.is_v2:
                    await self._requests.add_partitions(self.transactional_id, self.identity, [tp])
                self._joined.add(tp)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], member: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        self.check_open()
        if not offsets:
            return
        try:
            if not self.is_v2 and member.group_id not in self._groups:
                await self._requests.add_offsets(self.transactional_id, self.identity, member.group_id)
            self._groups.add(member.group_id)
            await self._commit_offsets(offsets, member)
        except (ClientError, KafkaError) as error:
            raise self.failed(error) from error

    async def end(self, *, committed: bool) -> None:
        """Commit or abort. After an error, `end(committed=False)` may follow."""
        if committed:
            self.check_open()
        elif self._state is _State.FENCED:
            raise self._fenced()
        try:
            if self._joined or self._groups:
                self.identity = await self._requests.end(
                    self.transactional_id, self.identity, committed=committed, is_v2=self.is_v2
                )
            if not self.is_v2 and (self._failure or self._requests.is_unaccounted(self.transactional_id)):
                # Sequence numbers are unknown after a failure, and a request without an answer may still arrive.
                raise_epoch = self._requests.raise_epoch
                self.identity = await raise_epoch(self.transactional_id, self._timeout_ms, self.identity)
        except (ClientError, KafkaError) as error:
            raise self.failed(error) from error
        self._joined.clear()
        self._groups.clear()
        self._failure = None
        self._state = _State.READY

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], member: GroupMetadata
    ) -> None:
        known = await self.client.topics({tp.topic for tp in offsets})
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, index), wanted in offsets.items():
            commit = wanted if isinstance(wanted, CommittedOffset) else CommittedOffset(wanted)
            topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name, topic_id=known[name].id))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(index, commit.offset, commit.leader_epoch, commit.metadata)
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id_or_member_epoch=member.epoch,
            member_id=member.member_id,
            topics=list(topics.values()),
        )

        async def attempt() -> None:
            connection = await self.client.connection_to(await find_coordinator(self.client, member.group_id))
            version = connection.version_for(TxnOffsetCommitRequest)
            version = version if self.is_v2 else min(version, LAST_V1_COMMIT)
            response: TxnOffsetCommitResponse = await connection.send(request, version)
            for topic in response.topics:
                for partition in topic.partitions:
                    raise_for(partition.error_code, f"offsets of group {member.group_id} were rejected")

        await self.client.retry(attempt)

    def _fenced(self) -> ProducerFencedError:
        return ProducerFencedError(
            f"another producer has taken the transactional id {self.transactional_id!r}: close this one"
        )
