"""Brokers register, are fenced when they are lost, stop in an orderly way, and leave for good."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from barnabas.cluster.deltas import (
    BrokerRemoved,
    BrokerStored,
    ClusterCreated,
    Delta,
    FeatureFinalized,
    PartitionChanged,
    ProducerIdsAllocated,
)
from barnabas.cluster.image import BrokerState, Endpoint, MetadataImage, PartitionState, TopicState
from barnabas.controller.decision import Decided, Policy
from barnabas.controller.features import check_supported
from barnabas.controller.isr import check_broker_epoch
from barnabas.controller.partitions import (
    Election,
    Transition,
    change_all,
    election_for,
    is_unclean,
    next_state,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid

PRODUCER_ID_BLOCK_SIZE = 1000  # Kafka's own (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker that starts. `epoch` comes from the store that knows a better one (ZooKeeper's czxid).

    `clean` says that it lost nothing since it last served: an orderly stop, or a crash of the process
    alone. After a crash of the machine what was not synced is gone, and its replicas may lack records.
    """

    broker_id: int
    host: str = ""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clean: bool = True
    epoch: int | None = None


def create_cluster(image: MetadataImage, cluster_id: str, features: Mapping[str, int]) -> Decided[str]:
    """Give a new cluster its id and its features; an existing one keeps what it has."""
    if image.cluster_id:
        return [], image.cluster_id
    deltas: list[Delta] = [ClusterCreated(cluster_id)]
    deltas += [FeatureFinalized(name, level) for name, level in features.items()]
    return deltas, cluster_id


def register(image: MetadataImage, registration: Registration, policy: Policy) -> Decided[int]:
    """The epoch of the broker's new life. Every partition it leads gets a new leader epoch, so that
    clients notice if the log is shorter than it was."""
    check_supported(image, registration.broker_id, registration.features)
    broker = _registered(image, registration)
    changes = _partitions_of_registered(image, broker, registration.clean, policy)
    return [BrokerStored(broker), *changes], broker.epoch


def fence(image: MetadataImage, broker_id: int, policy: Policy) -> Decided[None]:
    """The broker is lost: it leaves every ISR, and others take over what it led."""
    broker = _known(image, broker_id)
    stored = BrokerStored(msgspec.structs.replace(broker, fenced=True))
    return [stored, *_without_broker(image, broker_id, policy)], None


def unfence(image: MetadataImage, broker_id: int, policy: Policy) -> Decided[None]:
    """The broker is back: it may lead what no other broker can."""
    broker = msgspec.structs.replace(_known(image, broker_id), fenced=False, shutting_down=False)

    def can_lead(other: int) -> bool:
        return other == broker_id or image.can_lead(other)

    def transition_of(topic: TopicState, partition: PartitionState) -> Transition | None:
        if partition.leader >= 0 or broker_id not in partition.replicas:
            return None
        min_isr = policy.min_isr(image, topic.name, len(partition.replicas))
        return Transition(can_lead, min_isr, election_for(image, policy, topic.name))

    return [BrokerStored(broker), *change_all(image, transition_of)], None


def begin_shutdown(image: MetadataImage, broker_id: int, policy: Policy) -> Decided[int]:
    """Hand over what the broker leads before it stops, and wait for it nowhere any more; the number of partitions
    no other broker can lead."""
    broker = _known(image, broker_id)
    stored = BrokerStored(msgspec.structs.replace(broker, shutting_down=True))
    without_heir = sum(
        partition.leader == broker_id and not _has_heir(image, partition, broker_id)
        for _, _, partition in image.partitions()
    )
    return [stored, *_handed_over(image, broker_id, policy)], without_heir


def lose_replicas(
    image: MetadataImage, broker_id: int, places: Collection[tuple[Uuid, int]], policy: Policy
) -> Decided[None]:
    """A disk of the broker has failed: what lay there is led by others, and the broker is in sync with none of it."""

    def transition_of(topic: TopicState, index: int, partition: PartitionState) -> Transition | None:
        known = broker_id in (*partition.isr, *partition.elr, partition.leader)
        if (topic.topic_id, index) not in places or not known:
            return None
        return Transition(
            lambda other: other != broker_id and image.can_lead(other),
            policy.min_isr(image, topic.name, len(partition.replicas)),
            election_for(image, policy, topic.name),
            stopped_uncleanly=(broker_id,),
        )

    deltas: list[Delta] = []
    for topic, index, partition in image.partitions():
        step = transition_of(topic, index, partition)
        if step is not None and (state := next_state(partition, step)) is not partition:
            deltas.append(PartitionChanged(topic.topic_id, index, state, is_unclean(partition, state)))
    return deltas, None


def unregister(image: MetadataImage, broker_id: int, policy: Policy) -> Decided[None]:
    """Forget a broker that will not come back."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )
    if not broker.fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running. Stop it before it is unregistered."
        )
    return [*_without_broker(image, broker_id, policy), BrokerRemoved(broker_id)], None


def _registered(image: MetadataImage, registration: Registration) -> BrokerState:
    epoch = image.offset + 1 if registration.epoch is None else registration.epoch
    before = image.brokers.get(registration.broker_id)
    if before is not None and epoch <= before.epoch:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {registration.broker_id} is registered with the newer epoch {before.epoch}; "
            "do two brokers run with this node.id?",
        )
    return BrokerState(
        registration.broker_id,
        epoch,
        registration.host,
        registration.rack,
        registration.endpoints,
        features=dict(registration.features),
    )


def _partitions_of_registered(
    image: MetadataImage, broker: BrokerState, clean: bool, policy: Policy
) -> Iterator[PartitionChanged]:
    for topic, index, partition in image.partitions():
        if broker.id not in partition.replicas:
            continue
        state, unclean = _after_restart(image, topic, partition, broker.id, clean, policy)
        if state is not partition:
            yield PartitionChanged(topic.topic_id, index, state, unclean)


def _after_restart(
    image: MetadataImage,
    topic: TopicState,
    partition: PartitionState,
    broker_id: int,
    clean: bool,
    policy: Policy,
) -> tuple[PartitionState, bool]:
    """The state, and whether the leader may then lack what was acknowledged."""
    min_isr = policy.min_isr(image, topic.name, len(partition.replicas))
    state = partition
    if not clean:
        # First as if it had gone for good: a replica that has everything takes over.
        others = Transition(
            lambda other: other != broker_id and image.can_lead(other),
            min_isr,
            stopped_uncleanly=(broker_id,),
        )
        state = next_state(state, others)
    step = Transition(
        lambda other: other == broker_id or image.can_lead(other),
        min_isr,
        election_for(image, policy, topic.name),
        bump_leader_epoch=state.leader == broker_id,
    )
    after = next_state(state, step)
    if len(after.replicas) == 1:
        # The only replica of all comes back with what it has: that is no election.
        after = msgspec.structs.replace(after, leader_recovery_state=partition.leader_recovery_state)
        return _one_epoch_up(partition, after), False
    return _one_epoch_up(partition, after), is_unclean(state, after)


def _one_epoch_up(before: PartitionState, after: PartitionState) -> PartitionState:
    """Two steps of one decision are one change."""
    if after == before:
        return before
    changed_leader = after.leader_epoch > before.leader_epoch
    return msgspec.structs.replace(
        after,
        leader_epoch=before.leader_epoch + changed_leader,
        partition_epoch=before.partition_epoch + 1,
    )


def _without_broker(image: MetadataImage, broker_id: int, policy: Policy) -> Iterator[PartitionChanged]:
    def transition_of(topic: TopicState, partition: PartitionState) -> Transition | None:
        if broker_id not in partition.isr and partition.leader != broker_id:
            return None
        return Transition(
            lambda other: other != broker_id and image.can_lead(other),
            policy.min_isr(image, topic.name, len(partition.replicas)),
            election_for(image, policy, topic.name),
            isr=tuple(member for member in partition.isr if member != broker_id),
        )

    return change_all(image, transition_of)


def _handed_over(image: MetadataImage, broker_id: int, policy: Policy) -> Iterator[PartitionChanged]:
    """It leaves every ISR as well, before it ceases to fetch: else what is committed would wait until its session has
    ended and a controller, perhaps a new one, has noticed. A partition without an heir is served until the very end."""

    def transition_of(topic: TopicState, partition: PartitionState) -> Transition | None:
        if broker_id not in partition.isr or not _has_heir(image, partition, broker_id):
            return None
        return Transition(
            lambda other: other != broker_id and image.can_lead(other),
            policy.min_isr(image, topic.name, len(partition.replicas)),
            Election.ONLINE,
            isr=tuple(member for member in partition.isr if member != broker_id),
        )

    return change_all(image, transition_of)


def _has_heir(image: MetadataImage, partition: PartitionState, broker_id: int) -> bool:
    return any(member != broker_id and image.can_lead(member) for member in partition.isr)


def _known(image: MetadataImage, broker_id: int) -> BrokerState:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} must register first")
    return broker


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decided[range]:
    """A block of ids that no other broker has or will ever get; the broker gives them out without asking again."""
    check_broker_epoch(image, broker_id, broker_epoch)
    block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
    return [ProducerIdsAllocated(block.stop)], block
