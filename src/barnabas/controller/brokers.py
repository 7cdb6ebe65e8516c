"""Brokers register, are fenced when they are lost, shut down, and are unregistered."""

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
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.controller.decision import ControllerPolicy, Decided
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

PRODUCER_ID_BLOCK_SIZE = 1000  # Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class Registration:
    """A starting broker. `epoch` is set by stores that have a better one (ZooKeeper's czxid).

    `clean`: the broker lost no data since it last served, after a clean shutdown or a crash of the
    process alone. After
    a crash of the machine unflushed data is lost, and its replicas may lack records.
    """

    broker_id: int
    host: str = ""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clean: bool = True
    epoch: int | None = None
    node: int = -1


def create_cluster(image: MetadataImage, cluster_id: str, features: Mapping[str, int]) -> Decided[str]:
    """Give a new cluster its id and its features; an existing one keeps what it has."""
    if image.cluster_id:
        return [], image.cluster_id
    deltas: list[Delta] = [ClusterCreated(cluster_id)]
    deltas += [FeatureFinalized(name, level) for name, level in features.items()]
    return deltas, cluster_id


def register(image: MetadataImage, registration: Registration, policy: ControllerPolicy) -> Decided[int]:
    """The new broker epoch. Every partition it leads gets a new leader epoch, so that clients notice if
    the log is shorter
    than before.
    """
    check_supported(image, registration.broker_id, registration.features)
    broker = _registered(image, registration)
    changes = _partitions_of_registered(image, broker, registration.clean, policy)
    return [BrokerStored(broker), *changes], broker.epoch


def fence(image: MetadataImage, broker_id: int, policy: ControllerPolicy) -> Decided[None]:
    """Remove a lost broker from every ISR, and elect other leaders."""
    broker = _known(image, broker_id)
    stored = BrokerStored(msgspec.structs.replace(broker, fenced=True))
    return [stored, *_without_broker(image, broker_id, policy)], None


def unfence(image: MetadataImage, broker_id: int, policy: ControllerPolicy) -> Decided[None]:
    """Unfence a returned broker: it may lead partitions that have no other leader."""
    broker = msgspec.structs.replace(_known(image, broker_id), fenced=False, shutting_down=False)

    def can_lead(other: int) -> bool:
        return other == broker_id or image.can_lead(other)

    def transition_of(topic: TopicState, partition: PartitionState) -> Transition | None:
        if partition.leader >= 0 or broker_id not in partition.replicas:
            return None
        min_isr = policy.min_isr(image, topic.name, len(partition.replicas))
        return Transition(can_lead, min_isr, election_for(image, policy, topic.name))

    return [BrokerStored(broker), *change_all(image, transition_of)], None


def begin_shutdown(image: MetadataImage, broker_id: int, policy: ControllerPolicy) -> Decided[int]:
    """Move leadership away before the broker stops, and remove it from every ISR; return the number of
    partitions that no
    other broker can lead.
    """
    broker = _known(image, broker_id)
    stored = BrokerStored(msgspec.structs.replace(broker, shutting_down=True))
    without_heir = sum(
        partition.leader == broker_id and not _has_heir(image, partition, broker_id)
        for _, _, partition in image.partitions()
    )
    return [stored, *_handed_over(image, broker_id, policy)], without_heir


def lose_replicas(
    image: MetadataImage, broker_id: int, partitions: Collection[tuple[Uuid, int]], policy: ControllerPolicy
) -> Decided[None]:
    """Handle a failed disk: elect other leaders for its partitions, and remove the broker from their ISRs."""

    def transition_of(topic: TopicState, index: int, partition: PartitionState) -> Transition | None:
        known = broker_id in (*partition.isr, *partition.elr, partition.leader)
        if (topic.topic_id, index) not in partitions or not known:
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


def unregister(image: MetadataImage, broker_id: int, policy: ControllerPolicy) -> Decided[None]:
    """Unregister a broker that will not return."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )
    if not broker.fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running. Stop it before unregistering it."
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
        node=registration.node,
    )


def _partitions_of_registered(
    image: MetadataImage, broker: BrokerState, clean: bool, policy: ControllerPolicy
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
    policy: ControllerPolicy,
) -> tuple[PartitionState, bool]:
    """The state, and True if the leader may then lack acknowledged records."""
    min_isr = policy.min_isr(image, topic.name, len(partition.replicas))
    state = partition
    if not clean:
        # First as if it had left for good: a replica that has everything takes over.
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
        # The only replica returns with its data: that is not an election.
        after = msgspec.structs.replace(after, leader_recovery_state=partition.leader_recovery_state)
        return _one_epoch_up(partition, after), False
    return _one_epoch_up(partition, after), is_unclean(state, after)


def _one_epoch_up(before: PartitionState, after: PartitionState) -> PartitionState:
    """Combine two transitions of one decision into one epoch."""
    if after == before:
        return before
    changed_leader = after.leader_epoch > before.leader_epoch
    return msgspec.structs.replace(
        after,
        leader_epoch=before.leader_epoch + changed_leader,
        partition_epoch=before.partition_epoch + 1,
    )


def _without_broker(
    image: MetadataImage, broker_id: int, policy: ControllerPolicy
) -> Iterator[PartitionChanged]:
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


def _handed_over(
    image: MetadataImage, broker_id: int, policy: ControllerPolicy
) -> Iterator[PartitionChanged]:
    """Also remove it from every ISR, before it stops fetching; otherwise commits would wait until its
    session has expired
    and a controller, perhaps a new one, has noticed. A partition without a successor is served until the end.
    """

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
    """A block of ids that no other broker has or will ever get."""
    check_broker_epoch(image, broker_id, broker_epoch)
    block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
    return [ProducerIdsAllocated(block.stop)], block
