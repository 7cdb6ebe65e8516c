"""Share state of a group's partitions: created, reset and deleted by the group coordinator.

The group records its intent before each operation and its completion afterwards (`state_partitions`), so that the next
coordinator knows which operations may be incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import CoordinatorResult, ask_each, ignore
from barnabas.groups.coordinator import GroupCoordinator
from barnabas.groups.shard import GroupShard
from barnabas.groups.share.group import ShareGroup
from barnabas.groups.share.state_partitions import NamedPartitions, Partitions
from barnabas.protocol.internal_topics import NO_OFFSET, SharePartitionKey

logger = rate_limited_logger(__name__)

Outcomes = dict[SharePartitionKey, KafkaError | None]
Offsets = Mapping[SharePartitionKey, int]


def keys_of(group_id: str, partitions: Partitions) -> list[SharePartitionKey]:
    return [
        SharePartitionKey(group_id, topic, index)
        for topic, each in partitions.items()
        for index in each.partitions
    ]


class Persister(Protocol):
    """Sends requests to the share coordinator, on this or another broker."""

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[KafkaError | None], None],
    ) -> None: ...

    def delete(self, key: SharePartitionKey, done: Callable[[KafkaError | None], None]) -> None: ...


class ShareStates:
    """Creates state for groups and notifies members that wait for it."""

    def __init__(self, groups: GroupCoordinator, persister: Persister) -> None:
        self._groups = groups
        self._persister = persister
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    # -- for members ----------------------------------------------------------------------------------

    def is_creating(self, group_id: str) -> bool:
        return group_id in self._waiting

    def when_created(self, group_id: str, callback: Callable[[], None]) -> None:
        """Call back when all pending state of a group is created, or has failed."""
        if group_id in self._waiting:
            self._waiting[group_id].append(callback)
        else:
            callback()

    def create(self, group_id: str, state_epoch: int, wanted: Partitions) -> None:
        """Create state that starts at `share.auto.offset.reset`, and record it in the group."""
        self._waiting.setdefault(group_id, [])

        def created(outcomes: Outcomes) -> None:
            self._note(group_id, wanted, outcomes, lambda: self._wake(group_id))

        self.initialize(dict.fromkeys(keys_of(group_id, wanted), NO_OFFSET), state_epoch, created)

    def _note(self, group_id: str, wanted: Partitions, outcomes: Outcomes, done: Callable[[], None]) -> None:
        created, failed = {}, {}
        for topic, (name, partitions) in wanted.items():
            ready = frozenset(
                index for index in partitions if outcomes[SharePartitionKey(group_id, topic, index)] is None
            )
            if ready:
                created[topic] = NamedPartitions(name, ready)
            if partitions - ready:
                failed[topic] = NamedPartitions(name, partitions - ready)

        def noted(outcome: KafkaError | None) -> None:
            if outcome is not None:
                logger.warning("the state of share group %r is created, but not noted: %s", group_id, outcome)
            done()

        # Two records of one key: the second depends on the first.
        if failed:
            self._groups.write(
                group_id,
                lambda shard: shard.share.state_not_created(group_id, failed),
                ignore if created else noted,  # the next heartbeat detects missing state
            )
        if created or not failed:
            self._groups.write(group_id, lambda shard: shard.share.state_created(group_id, created), noted)

    def _wake(self, group_id: str) -> None:
        for callback in self._waiting.pop(group_id, ()):
            callback()

    # -- for administrators ---------------------------------------------------------------------------

    def reset(
        self,
        group_id: str,
        state_epoch: int,
        wanted: Partitions,
        offsets: Offsets,
        done: Callable[[Outcomes], None],
    ) -> None:
        """Start at other offsets; `done` gets the outcomes once the group has recorded them."""

        def created(outcomes: Outcomes) -> None:
            self._note(group_id, wanted, outcomes, lambda: done(outcomes))

        self.initialize(offsets, state_epoch, created)

    def delete_all(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Delete the state of a share group before the group; groups of other types have none."""

        def begin(shard: GroupShard) -> CoordinatorResult[Partitions]:
            group = shard.groups.get(group_id)
            if not isinstance(group, ShareGroup):
                return CoordinatorResult({})
            return shard.share.begin_deletion(
                group_id, {*group.states.initializing, *group.states.initialized}
            )

        def begun(outcome: Partitions | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                done(outcome.code)
            else:
                self.delete(keys_of(group_id, outcome), deleted)

        def deleted(outcomes: Outcomes) -> None:
            failed = next((error for error in outcomes.values() if error is not None), None)
            done(failed.code if failed is not None else ErrorCode.NONE)

        self._groups.write(group_id, begin, begun)

    # -- many at once ---------------------------------------------------------------------------------

    def initialize(self, offsets: Offsets, state_epoch: int, done: Callable[[Outcomes], None]) -> None:
        def ask(key: SharePartitionKey, answered: Callable[[KafkaError | None], None]) -> None:
            self._persister.initialize(key, state_epoch, offsets[key], answered)

        _each(list(offsets), ask, done)

    def delete(self, keys: list[SharePartitionKey], done: Callable[[Outcomes], None]) -> None:
        _each(keys, self._persister.delete, done)


def _each(
    keys: list[SharePartitionKey],
    ask: Callable[[SharePartitionKey, Callable[[KafkaError | None], None]], None],
    done: Callable[[Outcomes], None],
) -> None:
    def all_answered(errors: list[KafkaError | None]) -> None:
        done(dict(zip(keys, errors, strict=True)))

    ask_each(keys, ask, all_answered)
