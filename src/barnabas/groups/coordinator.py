"""The group coordinator: finds the shard of a group, runs a step on it, and responds once the records are durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from barnabas.common.clock import Timer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import (
    ActiveShard,
    CoordinatorRecord,
    CoordinatorRuntime,
    Deadlines,
    ProducerIdAndEpoch,
    RuntimeEnvironment,
)
from barnabas.groups.classic.membership import JoinRequest
from barnabas.groups.group import ClientInfo, Group, GroupDeadline
from barnabas.groups.manager import ShardContext
from barnabas.groups.memory_budget import MemoryBudget
from barnabas.groups.settings import GroupConfigs, GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.step import CoordinatorResult, Respond, commit_error, group_error
from barnabas.groups.streams.configured import InternalTopic
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
)
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from barnabas.records import EndTransactionMarker

T = TypeVar("T")
Act = Callable[[GroupShard, CoordinatorResult], None]


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
            self._perform_own(index, lambda shard, step: shard.deadline_reached(deadline, step))

        def soon(act: Callable[[CoordinatorResult], None]) -> None:
            self._machine.call_soon(lambda: self._perform_own(index, lambda shard, step: act(step)))

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

    # -- requests of members: answered when the records that they cause are safe ----------------------

    def join(self, joining: JoinRequest) -> None:
        self.perform(joining.request.group_id, lambda shard, step: shard.join(joining, step))

    def sync(self, request: SyncGroupRequest, respond: Respond) -> None:
        self.perform(request.group_id, lambda shard, step: shard.sync(request, respond, step))

    def heartbeat(self, request: HeartbeatRequest, done: Callable[[ErrorCode | KafkaError], None]) -> None:
        self.read(request.group_id, lambda shard: shard.heartbeat(request), done)

    def leave(self, group_id: str, leavers: list[MemberIdentity], respond: Respond) -> None:
        self.perform(
            group_id,
            lambda shard, step: step.answer(
                respond, LeaveGroupResponse(members=shard.leave(group_id, leavers, step))
            ),
        )

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, respond: Respond
    ) -> None:
        self.perform(
            request.group_id,
            lambda shard, step: shard.consumer.heartbeats.handle(request, client, respond, step),
        )

    def streams_heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client: ClientInfo,
        respond: Callable[[tuple[InternalTopic, ...], StreamsGroupHeartbeatResponse], None],
        version: int = 0,
    ) -> None:
        """`respond` also receives the missing internal topics."""

        def beat(shard: GroupShard, step: CoordinatorResult) -> None:
            outcome = shard.streams.heartbeat(request, client, step, version)
            step.answer(partial(respond, outcome.missing), outcome.response)

        self.perform(request.group_id, beat)

    # -- steps --------------------------------------------------------------------------------------

    def perform(self, group_id: str, act: Act) -> None:
        """Run a step that sends its own responses; raises KafkaError if it is refused and nothing has changed."""
        active, step = self.runtime.active(self.shard_index(group_id)), CoordinatorResult()
        act(active.shard, step)
        if step.records:
            self.ledger.changed(active.shard.groups, group_id)
        self._finish(active, step)

    def _perform_own(self, index: int, act: Act) -> None:
        """Run a step without a request. If it cannot run now, the next coordinator runs it."""
        try:
            active, step = self.runtime.active(index), CoordinatorResult()
            act(active.shard, step)
        except KafkaError:
            return
        self._finish(active, step)

    def _finish(self, active: ActiveShard[GroupShard], step: CoordinatorResult) -> None:
        """Append the records, and respond once they are durable."""
        try:
            self.runtime.append(active, step.records)
        except KafkaError as error:
            if step.undo is not None:
                step.undo()
            step.end(error.code)
        else:
            self.runtime.when_durable(active, step.end)

    def perform_simple(
        self,
        group_id: str,
        act: Act,
        done: Callable[[ErrorCode], None],
        *,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Run a step that only writes; `done` gets the outcome once it is durable."""
        translate = group_error if producer is None else commit_error

        def finished(outcome: KafkaError | None) -> None:
            done(ErrorCode.NONE if outcome is None else translate(outcome.code))

        self.perform_told(group_id, act, finished, producer=producer)

    def perform_told(
        self,
        group_id: str,
        act: Act,
        done: Callable[[KafkaError | None], None],
        *,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Like `perform_simple`, with the error message."""
        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error)
            return

        def handle(shard: GroupShard) -> tuple[list[CoordinatorRecord], None]:
            step = CoordinatorResult()
            act(shard, step)
            self.ledger.changed(shard.groups, group_id)
            return step.records, None

        self.runtime.write(index, handle, done, producer=producer)

    def commit(
        self,
        group_id: str,
        act: Callable[[GroupShard], list[CoordinatorRecord]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Commit offsets, batched with other commits of this turn of the loop."""

        def finished(outcome: KafkaError | None) -> None:
            done(ErrorCode.NONE if outcome is None else commit_error(outcome.code))

        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error.code)
            return
        self.runtime.write_batched(index, act, finished)

    def read(
        self, group_id: str, look: Callable[[GroupShard], T], done: Callable[[T | KafkaError], None]
    ) -> None:
        """Read a group; `done` is called once the state that was read is durable."""
        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.read(index, look, done)

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
        gone = set(deleted)
        self.topics.changed(gone)
        for _, shard in self.runtime.shards():
            shard.topics_changed(gone.union(changed), gone)
        if gone:
            self._for_each_group(lambda group_id, shard, step: shard.forget_topics(group_id, gone, step))

    def _clean_up(self) -> None:
        self.start()
        self._for_each_group(lambda group_id, shard, step: shard.expire_offsets(group_id, step))

    def _for_each_group(self, act: Callable[[str, GroupShard, CoordinatorResult], None]) -> None:
        """One batch per group, so that none exceeds the batch limit of the log."""
        for index, shard in self.runtime.shards():
            for group_id in list(shard.groups):
                self.ledger.changed(shard.groups, group_id)
                self._perform_own(index, partial(act, group_id))
