"""Topics are created and deleted, and get more partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from barnabas.cluster import can_collide, check_topic_name, collision_index, collision_key
from barnabas.cluster.deltas import ConfigsChanged, Delta, PartitionsAdded, TopicCreated, TopicDeleted
from barnabas.cluster.image import ConfigResourceType, MetadataImage, PartitionState, TopicState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid, new_uuid
from barnabas.config.remote_origin import origin_of
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.placement import place_replicas, replica_load
from barnabas.controller.reassignment import check_assignment, new_partition
from barnabas.controller.restoring import check_new_topic, deletion_of
from barnabas.protocol.internal_topics import CLUSTER_METADATA

T = TypeVar("T")

DEFAULT = -1
"""In a request: as many partitions, or replicas, as the broker's settings say."""

# Kafka's own bound (ReplicationControlManager): one entry of the metadata log must stay small.
MAX_PARTITIONS_PER_REQUEST = 10_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that is asked for. `assignments` gives the replicas of each partition by hand."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    state: TopicState
    configs: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        return len(self.state.partitions[0].replicas)


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """The number a topic shall have in all, and the replicas of each new partition, if given by hand."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


def create_topics(
    image: MetadataImage,
    requested: Sequence[NewTopic],
    policy: ControllerPolicy,
    *,
    validate_only: bool = False,
    new_id: Callable[[], Uuid] = new_uuid,
) -> Decided[dict[str, CreatedTopic | KafkaError]]:
    """Create each topic separately: one failure does not affect the others."""
    repeated = _repeated(topic.name for topic in requested)
    refusal = refusal_of_size(sum(_partitions_asked_for(topic, policy) for topic in requested))
    creation = _Creation(image, policy, new_id)
    results: dict[str, CreatedTopic | KafkaError] = {}
    for topic in requested:
        if topic.name in repeated:
            results[topic.name] = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif refusal is not None:
            results[topic.name] = refusal
        else:
            results[topic.name] = _attempt(partial(creation.create, topic))
    return ([] if validate_only else creation.deltas), results


class _Creation:
    """One CreateTopics request; topics of the same request must not collide with each other either."""

    def __init__(self, image: MetadataImage, policy: ControllerPolicy, new_id: Callable[[], Uuid]) -> None:
        self.deltas: list[Delta] = []
        self._image = image
        self._policy = policy
        self._new_id = new_id
        self._load = replica_load(image)
        self._by_collision_key = collision_index(image.topics)

    def create(self, topic: NewTopic) -> CreatedTopic:
        self._check_name(topic.name)
        configs = _checked_configs(topic.configs, self._policy)
        check_new_topic(self._image, configs)
        partitions = self._assigned(topic) if topic.assignments else self._placed(topic)
        if origin := origin_of(configs):
            partitions = [replace(each, leader_epoch=origin.leader_epoch) for each in partitions]
        created = CreatedTopic(TopicState(topic.name, self._new_id(), tuple(partitions)), configs)
        self._remember(created)
        return created

    def _check_name(self, name: str) -> None:
        if name == CLUSTER_METADATA:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
            )
        if name in self._image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_topic_name(name)
        if can_collide(name) and (other := self._by_collision_key.get(collision_key(name))):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )

    def _assigned(self, topic: NewTopic) -> list[PartitionState]:
        if topic.replication_factor != DEFAULT:
            raise _by_hand_and("replication factor")
        if topic.partitions != DEFAULT:
            raise _by_hand_and("numPartitions")
        by_index = _by_index(topic.assignments)
        expected = None
        for replicas in by_index.values():
            check_assignment(self._image, replicas, expected)
            expected = len(replicas)
        return [new_partition(self._image, index, by_index[index]) for index in range(len(by_index))]

    def _placed(self, topic: NewTopic) -> list[PartitionState]:
        factor = topic.replication_factor
        if factor < DEFAULT or factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partitions < DEFAULT or topic.partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        count = _partitions_asked_for(topic, self._policy)
        factor = self._policy.default_replication_factor if factor == DEFAULT else factor
        return _assign_replicas(self._image, 0, count, factor, self._load)

    def _remember(self, created: CreatedTopic) -> None:
        name = created.state.name
        self.deltas.append(TopicCreated(created.state))
        if created.configs:
            self.deltas.append(ConfigsChanged(ConfigResourceType.TOPIC, name, dict(created.configs)))
        for partition in created.state.partitions:
            self._load.update(partition.replicas)
        if can_collide(name):
            self._by_collision_key[collision_key(name)] = name


def delete_topics(
    image: MetadataImage, topic_ids: Sequence[Uuid]
) -> Decided[dict[Uuid, TopicState | KafkaError]]:
    results: dict[Uuid, TopicState | KafkaError] = {}
    for topic_id in topic_ids:
        results[topic_id] = image.topic_by_id(topic_id) or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    deltas: list[Delta] = []
    for topic in results.values():
        if isinstance(topic, TopicState):
            deltas += [*deletion_of(image, topic), TopicDeleted(topic.topic_id)]
    return deltas, results


def create_partitions(
    image: MetadataImage, requested: Sequence[MorePartitions], *, validate_only: bool = False
) -> Decided[dict[str, PartitionsAdded | KafkaError]]:
    repeated = _repeated(request.topic for request in requested)
    results: dict[str, PartitionsAdded | KafkaError] = {}
    for request in requested:
        if request.topic in repeated:
            results[request.topic] = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            results[request.topic] = _attempt(partial(_grow_own, image, request))
    added = [result for result in results.values() if isinstance(result, PartitionsAdded)]
    return ([] if validate_only else list(added)), results


def _grow_own(image: MetadataImage, request: MorePartitions) -> PartitionsAdded:
    mirror = image.mirror_of(request.topic)
    if mirror is not None and not mirror.is_own:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, mirror.write_refusal(request.topic))
    return grow(image, request)


def grow(image: MetadataImage, request: MorePartitions) -> PartitionsAdded:
    """Add partitions, also to a mirror, which has as many as its source."""
    topic = image.topics.get(request.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    additional = _additional_partitions(topic, request)
    first = len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    if request.assignments is None:
        return PartitionsAdded(
            topic.topic_id, tuple(_assign_replicas(image, first, additional, factor, replica_load(image)))
        )
    for replicas in request.assignments:
        check_assignment(image, replicas, factor)
    states = (
        new_partition(image, index, replicas) for index, replicas in enumerate(request.assignments, first)
    )
    return PartitionsAdded(topic.topic_id, tuple(states))


def _additional_partitions(topic: TopicState, request: MorePartitions) -> int:
    existing = len(topic.partitions)
    if request.count == existing:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if request.count < existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {existing} partition(s); "
            f"{request.count} would not be an increase.",
        )
    additional = request.count - existing
    if refusal := refusal_of_size(additional):
        raise refusal
    if request.assignments is not None and len(request.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(request.assignments)} assignment(s) were specified.",
        )
    return additional


def _assign_replicas(
    image: MetadataImage, first: int, count: int, factor: int, load: Mapping[int, int]
) -> list[PartitionState]:
    try:
        placed = place_replicas(list(image.brokers.values()), count, factor, load)
    except KafkaError as error:
        message = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise KafkaError(error.code, message) from error
    return [new_partition(image, index, replicas) for index, replicas in enumerate(placed, first)]


def _checked_configs(configs: Mapping[str, str | None], policy: ControllerPolicy) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in configs.items():
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        values[name] = value
    policy.check_topic_configs(values)
    return values


def _by_index(assignments: Sequence[tuple[int, Sequence[int]]]) -> dict[int, Sequence[int]]:
    by_index: dict[int, Sequence[int]] = {}
    for index, replicas in assignments:
        if index in by_index:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        by_index[index] = replicas
    if sorted(by_index) != list(range(len(by_index))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return by_index


def _partitions_asked_for(topic: NewTopic, policy: ControllerPolicy) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return policy.num_partitions if topic.partitions == DEFAULT else max(topic.partitions, 0)


def refusal_of_size(partitions: int) -> KafkaError | None:
    """Return the error for a request that creates too many partitions."""
    if partitions <= MAX_PARTITIONS_PER_REQUEST:
        return None
    return KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _by_hand_and(what: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"A manual partition assignment was specified, but {what} was not set to -1.",
    )


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _attempt(step: Callable[[], T]) -> T | KafkaError:
    try:
        return step()
    except KafkaError as error:
        return error
