"""State of share partitions, created and deleted on behalf of a group coordinator: many partitions, one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.shard import GroupShard
from barnabas.groups.share.group import ShareGroup
from barnabas.groups.share.state_partitions import NamedPartitions, Partitions
from barnabas.groups.step import Step
from barnabas.log_lines import limited_logger
from barnabas.queues.stored_state import NO_OFFSET, ShareKey
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = limited_logger(__name__)

Outcomes = dict[ShareKey, KafkaError | None]
Offsets = Mapping[ShareKey, int]


def keys_of(group_id: str, partitions: Partitions) -> list[ShareKey]:
    return [
        ShareKey(group_id, topic, index) for topic, each in partitions.items() for index in each.partitions
    ]


class ShareStates:
    """Creates state for groups whose members wait for it, and remembers who waits."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    # -- for members ----------------------------------------------------------------------------------

    def is_creating(self, group_id: str) -> bool:
        return group_id in self._waiting

    def when_created(self, group_id: str, callback: Callable[[], None]) -> None:
        """Call back when all that is being created for a group is there, or has failed."""
        if group_id in self._waiting:
            self._waiting[group_id].append(callback)
        else:
            callback()

    def create(self, group_id: str, state_epoch: int, wanted: Partitions) -> None:
        """Create state that begins where `share.auto.offset.reset` says, and let the group know."""
        self._waiting.setdefault(group_id, [])

        def created(outcomes: Outcomes) -> None:
            self._note(group_id, wanted, outcomes, lambda: self._wake(group_id))

        self.initialize(dict.fromkeys(keys_of(group_id, wanted), NO_OFFSET), state_epoch, created)

    def _note(self, group_id: str, wanted: Partitions, outcomes: Outcomes, done: Callable[[], None]) -> None:
        created, failed = {}, {}
        for topic, (name, partitions) in wanted.items():
            ready = frozenset(
                index for index in partitions if outcomes[ShareKey(group_id, topic, index)] is None
            )
            if ready:
                created[topic] = NamedPartitions(name, ready)
            if partitions - ready:
                failed[topic] = NamedPartitions(name, partitions - ready)

        def note(shard: GroupShard, step: Step) -> None:
            if failed:
                shard.share.state_not_created(group_id, failed, step)
            if created:
                shard.share.state_created(group_id, created, step)

        def noted(error: ErrorCode) -> None:
            if error:
                logger.warning("the state of share group %r is created, but not noted: %s", group_id, error)
            done()

        if failed and created:  # two records of one key: the second must know of the first
            self._broker.coordinators.groups.perform_simple(
                group_id, lambda shard, step: shard.share.state_not_created(group_id, failed, step), _ignore
            )
            failed = {}
        self._broker.coordinators.groups.perform_simple(group_id, note, noted)

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
        """Begin at other offsets; `done` hears how it went, when the group knows."""

        def created(outcomes: Outcomes) -> None:
            self._note(group_id, wanted, outcomes, lambda: done(outcomes))

        self.initialize(offsets, state_epoch, created)

    def delete_all(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Before a share group is deleted, its state goes; groups of other types have none."""
        found: dict[Uuid, NamedPartitions] = {}

        def begin(shard: GroupShard, step: Step) -> None:
            group = shard.groups.get(group_id)
            if isinstance(group, ShareGroup):
                topics = {*group.states.initializing, *group.states.initialized}
                found.update(shard.share.begin_deletion(group_id, topics, step))

        def begun(error: ErrorCode) -> None:
            if error or not found:
                done(error)
            else:
                self.delete(keys_of(group_id, found), deleted)

        def deleted(outcomes: Outcomes) -> None:
            failed = next((error for error in outcomes.values() if error is not None), None)
            done(failed.code if failed is not None else ErrorCode.NONE)

        self._broker.coordinators.groups.perform_simple(group_id, begin, begun)

    # -- many at once ---------------------------------------------------------------------------------

    def initialize(self, offsets: Offsets, state_epoch: int, done: Callable[[Outcomes], None]) -> None:
        persister = self._broker.coordinators.share_partitions.persister

        def ask(key: ShareKey, answered: Callable[[KafkaError | None], None]) -> None:
            persister.initialize(key, state_epoch, offsets[key], answered)

        _each(list(offsets), ask, done)

    def delete(self, keys: list[ShareKey], done: Callable[[Outcomes], None]) -> None:
        persister = self._broker.coordinators.share_partitions.persister
        _each(keys, persister.delete, done)


def _each(
    keys: list[ShareKey],
    ask: Callable[[ShareKey, Callable[[KafkaError | None], None]], None],
    done: Callable[[Outcomes], None],
) -> None:
    outcomes: Outcomes = {}
    missing = len(keys)
    if not missing:
        done(outcomes)

    def answered(key: ShareKey, outcome: KafkaError | None) -> None:
        nonlocal missing
        outcomes[key] = outcome
        missing -= 1
        if not missing:
            done(outcomes)

    for key in keys:
        ask(key, lambda outcome, key=key: answered(key, outcome))  # type: ignore[misc]


def _ignore(error: ErrorCode) -> None:
    """The next heartbeat finds what is missing."""
