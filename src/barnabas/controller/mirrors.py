"""Mirror topics are created and moved from one state to another (AlterMirrors, SettleMirrors).

A promotion raises the leader epochs by EPOCH_JUMP, not by one. A source that is not stopped continues to
raise its
epochs by one with each election, so without the jump both clusters would write different records under the
same epoch,
and replicas of the old primary could not be distinguished by epochs when it becomes a mirror itself
(`REVERSE`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from barnabas.cluster import NEW_PARTITION, TAKES_BATCHES, MirrorPartition, MirrorTopic
from barnabas.cluster.deltas import Delta, MirrorStored, PartitionChanged
from barnabas.cluster.features import MIRROR_LEVEL, how_to_reach, level_of
from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, Uuid
from barnabas.config.tiering_checks import is_tiered
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.partitions import raised
from barnabas.controller.restoring import NOT_OF_A_MIRROR
from barnabas.controller.topics import MorePartitions, NewTopic, create_topics, grow
from barnabas.protocol.internal_topics import INTERNAL_TOPICS
from barnabas.protocol.messages.mirror import MirrorAction, MirrorState

EPOCH_JUMP = 1 << 16
MAX_EPOCH = (1 << 31) - 1
MAX_TOPICS = 1000
"""Limit per request: one entry of the metadata log must stay small."""
MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class MirrorLink:
    name: str
    source_cluster_id: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChange:
    index: int
    min_leader_epoch: int = -1
    state: int = MirrorState.NONE
    reason: str = ""
    promoted_at: int = -1
    promoted_epoch: int = -1


@dataclass(frozen=True, slots=True)
class MirrorChange:
    name: str
    action: int
    source_name: str = ""
    source_topic_id: Uuid = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    reason: str = ""
    partitions: Sequence[PartitionChange] = ()


_PASSIVE = frozenset({*TAKES_BATCHES, MirrorState.PAUSED, MirrorState.FAILED})

# action -> (allowed states, next state); a topic already in that state does not change
_STEPS: dict[int, tuple[frozenset[int], MirrorState]] = {
    MirrorAction.ACTIVATE: (_PASSIVE, MirrorState.ACTIVE),
    MirrorAction.PAUSE: (_PASSIVE, MirrorState.PAUSED),
    MirrorAction.SOURCE_UNAVAILABLE: (TAKES_BATCHES, MirrorState.SOURCE_UNAVAILABLE),
    MirrorAction.FAIL: (_PASSIVE, MirrorState.FAILED),
    MirrorAction.PROMOTE: (frozenset({MirrorState.ACTIVE, MirrorState.PAUSED}), MirrorState.PROMOTING),
    MirrorAction.FAILOVER: (_PASSIVE, MirrorState.PROMOTING),
}

_PROMOTES = frozenset({MirrorAction.PROMOTE, MirrorAction.FAILOVER})

Results = dict[str, MirrorTopic | KafkaError]


def alter_mirrors(
    image: MetadataImage,
    link: MirrorLink,
    changes: Sequence[MirrorChange],
    policy: ControllerPolicy,
    *,
    validate_only: bool = False,
) -> Decided[Results]:
    """Change each topic separately: one failure does not affect the others."""
    if len(changes) > MAX_TOPICS:
        too_many = KafkaError(ErrorCode.INVALID_REQUEST, f"at most {MAX_TOPICS} topics in one request")
        return [], {change.name: too_many for change in changes}
    repeated = {name for name, count in Counter(change.name for change in changes).items() if count > 1}
    alteration = _Alteration(image, link)
    results: Results = {}
    for change in changes:
        try:
            if change.name in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if (mirror := alteration.change(change)) is not None:
                results[change.name] = mirror
        except KafkaError as error:
            results[change.name] = error
    results |= alteration.create(policy)
    return ([] if validate_only else alteration.deltas), results


class _Alteration:
    """One AlterMirrors request."""

    def __init__(self, image: MetadataImage, link: MirrorLink) -> None:
        self.deltas: list[Delta] = []
        self._image = image
        self._link = link
        self._new: dict[str, MirrorChange] = {}

    def change(self, change: MirrorChange) -> MirrorTopic | None:
        """None if it is to be created, with all others that are."""
        if level_of(self._image) < MIRROR_LEVEL:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"mirrors need {how_to_reach(MIRROR_LEVEL)}")
        if change.action not in list(MirrorAction):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown action {change.action}")
        if change.action == MirrorAction.REVERSE:
            return self._reverse(change)
        mirror = self._image.mirror_of(change.name)
        if mirror is None and change.action == MirrorAction.CREATE:
            self._check_new(change)
            self._new[change.name] = change
            return None
        mirror = self._found(change, mirror)
        if change.action == MirrorAction.CREATE:
            return self._grow(change, mirror)
        mirror, raises = self._with_partitions(change, mirror)
        return self._store(self._step(change, mirror), *raises)

    def _store(self, mirror: MirrorTopic, *others: Delta) -> MirrorTopic:
        if mirror != self._image.mirrors.get(mirror.topic_id):
            self.deltas.append(MirrorStored(mirror))
        self.deltas += others
        return mirror

    def _found(self, change: MirrorChange, mirror: MirrorTopic | None) -> MirrorTopic:
        if mirror is None and change.name not in self._image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {change.name} does not exist")
        if mirror is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{change.name} is not a mirror")
        if self._link.name and self._link.name != mirror.link:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{change.name} belongs to the link {mirror.link}: say so (--link)"
            )
        return mirror

    # -- creating ---------------------------------------------------------------------------------

    def _check_new(self, change: MirrorChange) -> None:
        self._check_source(change)
        if change.num_partitions < 1:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, "a mirror has as many partitions as its source")
        _check_configs(change.configs)

    def create(self, policy: ControllerPolicy) -> Results:
        """Create all new mirrors in one step."""
        requested = [
            NewTopic(each.name, each.num_partitions, each.replication_factor, (), dict(each.configs))
            for each in self._new.values()
        ]
        deltas, created = create_topics(self._image, requested, policy) if requested else ([], {})
        self.deltas += deltas
        return {
            name: topic if isinstance(topic, KafkaError) else self._store(self._mirror_of(topic.state))
            for name, topic in created.items()
        }

    def _mirror_of(self, topic: TopicState) -> MirrorTopic:
        partitions = (NEW_PARTITION,) * len(topic.partitions)
        return self._of_link(self._new[topic.name], topic, partitions, MirrorState.ACTIVE)

    def _of_link(
        self,
        change: MirrorChange,
        topic: TopicState,
        partitions: tuple[MirrorPartition, ...],
        state: MirrorState,
    ) -> MirrorTopic:
        return MirrorTopic(
            topic.topic_id,
            self._link.name,
            self._link.source_cluster_id,
            change.source_name,
            change.source_topic_id,
            self._link.path,
            state,
            "",
            partitions,
        )

    def _check_source(self, change: MirrorChange) -> None:
        link = self._link
        if not link.name or not link.source_cluster_id or not change.source_name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "a mirror has a link, the id of a source cluster and a source topic",
            )
        if change.name in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{change.name} is a topic of this cluster itself"
            )
        if self._image.cluster_id in (link.source_cluster_id, *link.path):
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"a loop: cluster {self._image.cluster_id} would mirror what comes from itself "
                f"({' <- '.join((link.source_cluster_id, *link.path))})",
            )

    def _grow(self, change: MirrorChange, mirror: MirrorTopic) -> MirrorTopic:
        """The mirror exists: check that it is the same, and add partitions if its source has more."""
        link = self._link
        if (mirror.link, mirror.source_cluster_id, mirror.source_name) != (
            link.name,
            link.source_cluster_id,
            change.source_name,
        ) or mirror.is_own:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, mirror.write_refusal(change.name))
        _check_topic_id(change, mirror)
        topic = self._image.topics[change.name]
        if change.num_partitions <= len(topic.partitions):
            return mirror
        if mirror.is_settling:
            raise _wrong_state(mirror, "get more partitions")
        added = grow(self._image, MorePartitions(change.name, change.num_partitions))
        more = (NEW_PARTITION,) * len(added.partitions)
        return self._store(replace(mirror, partitions=(*mirror.partitions, *more)), added)

    # -- states -----------------------------------------------------------------------------------

    def _with_partitions(self, change: MirrorChange, mirror: MirrorTopic) -> tuple[MirrorTopic, list[Delta]]:
        """Apply the changes of single partitions: failures, and new leader epochs."""
        if change.source_topic_id != ZERO_UUID:
            _check_topic_id(change, mirror)
        if change.partitions and (mirror.state not in _PASSIVE or change.action in _PROMOTES):
            raise _wrong_state(mirror, "be changed in single partitions")
        topic, partitions = self._image.topics[change.name], list(mirror.partitions)
        raises: dict[int, Delta] = {}
        for each in change.partitions:
            state = topic.partition(each.index)
            if state is None or each.index >= len(partitions):
                text = f"{change.name}-{each.index} does not exist"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            if (higher := raised(state, _checked_epoch(each.min_leader_epoch))) is not state:
                raises[each.index] = PartitionChanged(topic.topic_id, each.index, higher)
            partitions[each.index] = _with_failure(partitions[each.index], each)
        return replace(mirror, partitions=tuple(partitions)), list(raises.values())

    def _step(self, change: MirrorChange, mirror: MirrorTopic) -> MirrorTopic:
        if change.action == MirrorAction.NONE:
            return mirror
        sources, target = _STEPS[change.action]
        if mirror.state == target and target in (MirrorState.PAUSED, MirrorState.PROMOTING):
            return mirror
        if change.action in _PROMOTES and mirror.is_own:
            return mirror
        if mirror.state not in sources:
            raise _wrong_state(mirror, MirrorAction(change.action).name.lower())
        if change.action in _PROMOTES:
            return self._promote(change, mirror)
        if change.action == MirrorAction.ACTIVATE and mirror.state != MirrorState.SOURCE_UNAVAILABLE:
            partitions = tuple(replace(each, failure="") for each in mirror.partitions)
            mirror = replace(mirror, partitions=partitions)
        return replace(mirror, state=target, reason=change.reason[:MAX_REASON])

    def _promote(self, change: MirrorChange, mirror: MirrorTopic) -> MirrorTopic:
        failed = [index for index, each in enumerate(mirror.partitions) if each.failure]
        if failed and change.action == MirrorAction.PROMOTE:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"partition {failed[0]} of {change.name} is FAILED ({mirror.partitions[failed[0]].failure}): "
                "`barnabas mirror failover` promotes it as it is",
            )
        topic = self._image.topics[change.name]
        states = [raised(state, _jumped(state.leader_epoch)) for state in topic.partitions]
        self.deltas += _changed(topic, states)
        return replace(
            mirror,
            state=MirrorState.PROMOTING,
            reason=change.reason[:MAX_REASON],
            partitions=tuple(MirrorPartition(since_epoch=state.leader_epoch) for state in states),
        )

    # -- reversal ----------------------------------------------------------------------------------

    def _reverse(self, change: MirrorChange) -> MirrorTopic:
        topic = self._image.topics.get(change.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {change.name} does not exist")
        self._check_source(change)
        known = self._image.mirrors.get(topic.topic_id)
        if known is not None and not known.is_own:
            if known.link == self._link.name and known.source_cluster_id == self._link.source_cluster_id:
                return known  # it has begun, or is done
            raise _wrong_state(known, "be reversed")
        _check_configs(self._image.topic_configs(change.name))
        ends = {each.index: each for each in change.partitions if each.promoted_at >= 0}
        if len(ends) != len(change.partitions) or sorted(ends) != list(range(len(topic.partitions))):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{change.name} has {len(topic.partitions)} partitions: say for each of them where the new primary was "
                "promoted",
            )
        states = [raised(state, state.leader_epoch + 1) for state in topic.partitions]
        partitions = tuple(
            MirrorPartition(
                since_epoch=state.leader_epoch,
                promoted_at=ends[index].promoted_at,
                promoted_epoch=ends[index].promoted_epoch,
            )
            for index, state in enumerate(states)
        )
        reversing = self._of_link(change, topic, partitions, MirrorState.REVERSING)
        return self._store(reversing, *_changed(topic, states))


def _jumped(epoch: int) -> int:
    return min(epoch + EPOCH_JUMP, max(MAX_EPOCH - EPOCH_JUMP, epoch + 1))


def _changed(topic: TopicState, states: Sequence[PartitionState]) -> list[Delta]:
    return [PartitionChanged(topic.topic_id, index, state) for index, state in enumerate(states)]


def _checked_epoch(epoch: int) -> int:
    if epoch > MAX_EPOCH - EPOCH_JUMP:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no cluster has a leader epoch as high as {epoch}")
    return epoch


def _with_failure(partition: MirrorPartition, change: PartitionChange) -> MirrorPartition:
    if change.state == MirrorState.FAILED:
        reason = change.reason[:MAX_REASON] or "the mirror has not said why"
        return replace(partition, failure=reason)
    return replace(partition, failure="") if change.state == MirrorState.ACTIVE else partition


def _check_topic_id(change: MirrorChange, mirror: MirrorTopic) -> None:
    if change.source_topic_id != mirror.source_topic_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{mirror.source_name} was deleted and recreated in cluster {mirror.source_cluster_id}: delete "
            f"{change.name} here, or promote it, and mirror the new one under another name",
        )


def _check_configs(configs: Mapping[str, str | None]) -> None:
    if is_tiered({name: value for name, value in configs.items() if value is not None}):
        raise KafkaError(ErrorCode.INVALID_CONFIG, NOT_OF_A_MIRROR)


def _wrong_state(mirror: MirrorTopic, what: str) -> KafkaError:
    state = MirrorState(mirror.state).name
    reason = f" ({mirror.reason})" if mirror.reason else ""
    return KafkaError(ErrorCode.INVALID_REQUEST, f"a mirror that is {state}{reason} cannot {what}")
