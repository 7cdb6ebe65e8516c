"""The group coordinator: finds the shard of a group, runs a step on it, and gives the answers when they are safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from barnabas.clock import Timer
from barnabas.cluster.names import CONSUMER_OFFSETS
from barnabas.coordination.deadlines import Deadlines
from barnabas.coordination.keys import partition_for
from barnabas.coordination.runtime import Coordinator, Machine
from barnabas.coordination.shard import CoordinatorRecord, Producer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.awaited import Deadline
from barnabas.groups.configs import GroupConfigs
from barnabas.groups.group import Group
from barnabas.groups.kind import ShardContext
from barnabas.groups.ledger import Ledger
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.step import Step, commit_error, coordinator_error
from barnabas.groups.topics import Topics
from barnabas.records.control import EndTransactionMarker

T = TypeVar("T")
Act = Callable[[GroupShard, Step], None]
Refuse = Callable[[ErrorCode], None]
Explain = Callable[[KafkaError], None]


class GroupCoordinator:
    """Groups of this broker. `partitions` tells how many partitions `__consumer_offsets` has, 0 if there is none."""

    def __init__(
        self,
        settings: GroupSettings,
        machine: Machine,
        partitions: Callable[[], int],
        topics: Topics | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        self.settings = settings
        self.topics = topics or Topics()
        self.configs = configs or GroupConfigs()
        self.ledger = Ledger(settings.bounds)
        self._machine = machine
        self._partitions = partitions
        self.runtime = Coordinator(CONSUMER_OFFSETS, self._make_shard, machine, settings.commit_timeout_ms)
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
        def reached(deadline: Deadline) -> None:
            self._perform(index, lambda shard, step: shard.deadline_reached(deadline, step), _nobody_asked)

        def soon(act: Callable[[Step], None]) -> None:
            self._machine.call_soon(
                lambda: self._perform(index, lambda shard, step: act(step), _nobody_asked)
            )

        clock = self._machine.clock
        deadlines = Deadlines(clock, self._machine.timers, reached)
        return GroupShard(
            ShardContext(self.settings, clock, deadlines, self.topics, self.configs, soon, self.ledger)
        )

    def shard_index(self, group_id: str) -> int:
        partitions = self._partitions()
        if not partitions:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "nobody coordinates groups yet: ask FindCoordinator")
        return partition_for(group_id, partitions)

    # -- steps --------------------------------------------------------------------------------------

    def perform(self, group_id: str, act: Act, refuse: Refuse) -> None:
        """Run a step that answers by itself; `refuse` is told when it cannot be run."""
        self.perform_or_explain(group_id, act, lambda error: refuse(error.code))

    def perform_or_explain(self, group_id: str, act: Act, explain: Explain) -> None:
        """The same for answers that have room for a message."""
        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            explain(error)
            return

        def weighed(shard: GroupShard, step: Step) -> None:
            act(shard, step)
            if step.records:
                self.ledger.changed(shard.groups, group_id)

        self._perform(index, weighed, explain)

    def perform_simple(
        self,
        group_id: str,
        act: Act,
        done: Callable[[ErrorCode], None],
        *,
        producer: Producer | None = None,
    ) -> None:
        """Run a step that only writes; `done` is told how that went, when it is safe."""
        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error.code)
            return

        translate = coordinator_error if producer is None else commit_error

        def handle(shard: GroupShard) -> tuple[list[CoordinatorRecord], None]:
            step = Step()
            act(shard, step)
            self.ledger.changed(shard.groups, group_id)
            return step.records, None

        def finished(outcome: KafkaError | None) -> None:
            done(ErrorCode.NONE if outcome is None else translate(outcome.code))

        self.runtime.write(index, handle, finished, producer=producer)

    def commit(
        self,
        group_id: str,
        act: Callable[[GroupShard], list[CoordinatorRecord]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Commit offsets, together with others that are committed in this turn of the loop."""

        def finished(outcome: KafkaError | None) -> None:
            done(ErrorCode.NONE if outcome is None else commit_error(outcome.code))

        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error.code)
            return
        self.runtime.write_in_turn(index, act, finished)

    def _perform(self, index: int, act: Act, explain: Explain) -> None:
        step: Step | None = None

        def handle(shard: GroupShard) -> tuple[list[CoordinatorRecord], None]:
            nonlocal step
            started = Step()
            act(shard, started)
            step = started
            return step.records, None

        def done(outcome: KafkaError | None) -> None:
            if step is None:
                assert outcome is not None
                explain(KafkaError(coordinator_error(outcome.code), outcome.message))
            elif outcome is None:
                step.give()
            else:
                step.refuse(outcome.code)

        def undo() -> None:
            if step is not None and step.undo is not None:
                step.undo()

        self.runtime.write(index, handle, done, undo=undo)

    def read(
        self, group_id: str, look: Callable[[GroupShard], T], done: Callable[[T | KafkaError], None]
    ) -> None:
        """Look at a group; `done` is called when what was seen is safe."""
        try:
            index = self.shard_index(group_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.read(index, look, done)

    def all_groups(self) -> list[Group]:
        """Every group of this broker; KafkaError while some are still being loaded."""
        if self.runtime.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [group for _, shard in self.runtime.shards() for group in shard.groups.values()]

    # -- transactions -------------------------------------------------------------------------------

    def complete_transaction(
        self,
        index: int,
        producer: Producer,
        marker: EndTransactionMarker,
        done: Callable[[KafkaError | None], None],
    ) -> None:
        """A transaction with commits in partition `index` is over: write its marker there."""
        self.runtime.complete_transaction(index, producer, marker, done)

    # -- what nobody asks for -----------------------------------------------------------------------

    def topics_changed(self, changed: Iterable[str], deleted: Iterable[str]) -> None:
        """Topics were created or deleted, or have other partitions or racks. No hashing, no record here: a
        group finds out what that means for it with its next heartbeat."""
        gone = set(deleted)
        self.topics.changed(gone)
        for _, shard in self.runtime.shards():
            shard.topics_changed(gone.union(changed), gone)
        if gone:
            self._for_each_group(lambda group_id, shard, step: shard.forget_topics(group_id, gone, step))

    def _clean_up(self) -> None:
        self.start()
        self._for_each_group(lambda group_id, shard, step: shard.expire_offsets(group_id, step))

    def _for_each_group(self, act: Callable[[str, GroupShard, Step], None]) -> None:
        """One batch for each group, so that none grows beyond what the log takes."""
        for index, shard in self.runtime.shards():
            for group_id in list(shard.groups):
                self.ledger.changed(shard.groups, group_id)
                self._perform(index, partial(act, group_id), _nobody_asked)


def _nobody_asked(error: KafkaError) -> None:
    """A step of our own that cannot be run now will be run by the next coordinator."""
