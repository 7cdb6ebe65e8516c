"""The group coordinator: finds the shard of a group and runs operations on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from barnabas.common.clock import Timer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import (
    CoordinatorResult,
    CoordinatorRuntime,
    Deadlines,
    Done,
    ProducerIdAndEpoch,
    RuntimeEnvironment,
    ignore,
    same_error,
)
from barnabas.groups.classic.member import JoinRequest
from barnabas.groups.group import ClientInfo, Group, GroupDeadline
from barnabas.groups.manager import ShardContext
from barnabas.groups.memory_budget import MemoryBudget
from barnabas.groups.results import Respond, group_error
from barnabas.groups.settings import GroupConfigs, GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.share.heartbeats import ShareHeartbeatResult
from barnabas.groups.streams.heartbeats import HeartbeatResult
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.share import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatRequest
from barnabas.records import EndTransactionMarker

R = TypeVar("R")


class GroupCoordinator:
    """Groups of this broker. `partitions` counts those of `__consumer_offsets`, 0 if it does not exist."""

    def __init__(
        self,
        settings: GroupSettings,
        machine: RuntimeEnvironment,
        partitions: Callable[[], int],
        topics: ImageTopics | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        self.settings = settings
        self.topics = topics or ImageTopics()
        self.configs = configs or GroupConfigs()
        self.ledger = MemoryBudget(settings.bounds)
        self._machine = machine
        self._partitions = partitions
        self.runtime = CoordinatorRuntime(
            CONSUMER_OFFSETS, self._make_shard, machine, settings.commit_timeout_ms
        )
        self._cleaner: Timer | None = None

    def start(self) -> None:
        self._cleaner = self._machine.timers.call_later(
            self.settings.offsets_retention_check_ms / 1000, self._clean_up
        )

    def stop(self) -> None:
        if self._cleaner is not None:
            self._cleaner.cancel()
        self.runtime.stop()

    def _make_shard(self, index: int) -> GroupShard:
        def reached(deadline: GroupDeadline) -> None:
            self._write(index, deadline.group_id, lambda shard: shard.deadline_reached(deadline))

        def soon(operation: Callable[[], CoordinatorResult[None]]) -> None:
            self._machine.call_soon(lambda: self.runtime.write(index, lambda shard: operation()))

        clock = self._machine.clock
        deadlines = Deadlines(clock, self._machine.timers, reached)
        return GroupShard(
            ShardContext(self.settings, clock, deadlines, self.topics, self.configs, soon, self.ledger)
        )

    def shard_index(self, group_id: str) -> int:
        partitions = self._partitions()
        if not partitions:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, "`__consumer_offsets` does not exist yet; send FindCoordinator"
            )
        return partition_for(group_id, partitions)

    # -- requests of members ------------------------------------------------------------------------

    def join(self, joining: JoinRequest) -> None:
        self.write(
            joining.request.group_id,
            lambda shard: shard.join(joining),
            joining.respond,
            lambda error: joining.error(error.code),
        )

    def sync(self, request: SyncGroupRequest, respond: Respond) -> None:
        self.write(
            request.group_id,
            lambda shard: shard.sync(request, respond),
            respond,
            lambda error: SyncGroupResponse(error_code=error.code),
        )

    def heartbeat(self, request: HeartbeatRequest, done: Done[ErrorCode]) -> None:
        self.read(request.group_id, lambda shard: shard.heartbeat(request), done)

    def leave(self, group_id: str, leavers: list[MemberIdentity], done: Done[LeaveGroupResponse]) -> None:
        self.write(group_id, lambda shard: shard.leave(group_id, leavers), done)

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: ClientInfo,
        respond: Respond,
        on_error: Callable[[KafkaError], ConsumerGroupHeartbeatResponse],
    ) -> None:
        self.write(
            request.group_id,
            lambda shard: shard.consumer.heartbeats.handle(request, client),
            respond,
            on_error,
        )

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: ClientInfo, done: Done[ShareHeartbeatResult]
    ) -> None:
        self.write(request.group_id, lambda shard: shard.share.heartbeats.handle(request, client), done)

    def streams_heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client: ClientInfo,
        done: Done[HeartbeatResult],
        version: int = 0,
    ) -> None:
        self.write(request.group_id, lambda shard: shard.streams.heartbeat(request, client, version), done)

    # -- operations ---------------------------------------------------------------------------------

    def write(
        self,
        group_id: str,
        operation: Callable[[GroupShard], CoordinatorResult[R]],
        respond: Callable[[Any], None] = ignore,
        on_error: Callable[[KafkaError], object] = same_error,
        *,
        errors: Callable[[ErrorCode], ErrorCode] = group_error,
        producer: ProducerIdAndEpoch | None = None,
        is_batched: bool = False,
    ) -> None:
        """Run an operation on a group. `respond` gets its response once the records are durable, or what `on_error`
        builds: without it a KafkaError.

        `is_batched`: for offset commits, which change no members (`CoordinatorRuntime.active_shard`).
        """

        def failed(error: KafkaError) -> object:
            return on_error(KafkaError(errors(error.code), error.message))

        try:
            active = self.runtime.active_shard(self.shard_index(group_id), is_batched=is_batched)
            result = operation(active.shard) if is_batched else active.shard.handle(group_id, operation)
        except KafkaError as error:
            respond(failed(error))
            return
        result.reply_to(respond, failed)
        self.runtime.commit(active, result, producer=producer, is_batched=is_batched)

    def read(self, group_id: str, handle: Callable[[GroupShard], R], done: Done[R]) -> None:
        """Read a group; `done` is called once the state that was read is durable."""
        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.read(index, handle, done)

    def all_groups(self) -> list[Group]:
        """Every group of this broker; raises KafkaError while some are being loaded."""
        if self.runtime.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [group for _, shard in self.runtime.shards() for group in shard.groups.values()]

    # -- transactions -------------------------------------------------------------------------------

    def complete_transaction(
        self,
        index: int,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        done: Callable[[KafkaError | None], None],
    ) -> None:
        """Write the marker of a finished transaction to partition `index`."""
        self.runtime.complete_transaction(index, producer, marker, done)

    # -- without a request ----------------------------------------------------------------------------

    def topics_changed(self, changed: Iterable[str], deleted: Iterable[str]) -> None:
        """Topics were created or deleted, or their partitions or racks changed. Nothing is hashed or written here: a
        group evaluates the change with its next heartbeat."""
        removed_topics = set(deleted)
        self.topics.changed(removed_topics)
        for _, shard in self.runtime.shards():
            shard.topics_changed(removed_topics.union(changed), removed_topics)
        if removed_topics:
            self._for_each_group(lambda group_id, shard: shard.forget_topics(group_id, removed_topics))

    def _clean_up(self) -> None:
        self.start()
        self._for_each_group(lambda group_id, shard: shard.expire_offsets(group_id))

    def _for_each_group(self, operation: Callable[[str, GroupShard], CoordinatorResult[None]]) -> None:
        """One batch per group, so that none exceeds the batch limit of the log."""
        for index, shard in self.runtime.shards():
            for group_id in list(shard.groups):
                self._write(index, group_id, partial(operation, group_id))

    def _write(
        self, index: int, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[None]]
    ) -> None:
        """Run an operation without a request. If it cannot run now, the next coordinator runs it."""
        with suppress(KafkaError):
            active = self.runtime.active_shard(index)
            self.runtime.commit(active, active.shard.handle(group_id, operation))
