"""Broker attributes used by handlers. Each handler combines those it uses in its Needs protocol.

A protocol that combines several lists them in alphabetical order, so that protocols can be combined again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from barnabas.cluster.features import Levels
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.config.broker import BrokerConfig
from barnabas.controller import Controller, ControllerPolicy
from barnabas.groups import GroupCoordinator
from barnabas.replication import (
    ColdReads,
    FetchSessions,
    Partition,
    ReplicaManager,
    ReplicationQuota,
    TimerLoop,
)

T = TypeVar("T")


class HasConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class HasController(Protocol):
    """Gives access to the controller, which raises NOT_CONTROLLER on other brokers."""

    @property
    def controller(self) -> Controller: ...
    @property
    def policy(self) -> ControllerPolicy: ...


class HasFeatures(Protocol):
    @property
    def supported_features(self) -> Levels: ...


class GroupCoordinators(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...


class HasGroups(Protocol):
    @property
    def coordinators(self) -> GroupCoordinators: ...


class HasImage(Protocol):
    """Gives access to the metadata image and this broker's id."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def node_id(self) -> int: ...


class HasReplicas(Protocol):
    @property
    def replicas(self) -> ReplicaManager: ...


class HasThreads(Protocol):
    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that may block on the disk."""
        ...


class IsMember(HasImage, Protocol):
    """Describes membership in a cluster, which may be fenced; or a single node."""

    @property
    def is_alone(self) -> bool: ...
    @property
    def is_fenced(self) -> bool: ...


class FetchNeeds(HasReplicas, TimerLoop, Protocol):
    """Broker attributes used by Fetch."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...
    @property
    def page_cache(self) -> ColdReads: ...
    @property
    def leader_throttle(self) -> ReplicationQuota: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def reads_from_followers(self) -> bool: ...


class LedPartitionNeeds(HasImage, HasReplicas, Protocol):
    """Broker attributes used to find a led partition."""


def led_partition(broker: LedPartitionNeeds, topic: str, index: int, epoch: int = -1) -> Partition:
    """Return the partition if this broker leads it at this leader epoch (-1: any). As in Kafka, a partition
    on other brokers is NOT_LEADER_OR_FOLLOWER, not unknown.
    """
    partition = broker.replicas.find(topic, index)
    if partition is None:
        problem = broker.replicas.why_missing(topic, ZERO_UUID, index)
        is_elsewhere = broker.image.partition(topic, index) is not None
        if problem is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_elsewhere:
            problem = ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise KafkaError(problem, f"partition {topic}-{index} is not on this broker")
    problem = partition.leadership_error(epoch)
    if problem:
        raise KafkaError(problem, f"this broker does not lead {topic}-{index} at leader epoch {epoch}")
    return partition
