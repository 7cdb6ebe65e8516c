"""What handlers need of a broker. Each handler says in a protocol of its own which of these it uses.

A protocol that combines several names them in alphabetical order, so that handlers' protocols can be combined again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from barnabas.cluster.features import Levels
from barnabas.cluster.image import MetadataImage
from barnabas.config.broker import BrokerConfig
from barnabas.controller.controller import Controller
from barnabas.controller.decision import Policy
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.coordinator import GroupCoordinator
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.partition import Partition
from barnabas.common.types import ZERO_UUID

T = TypeVar("T")


class HasConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class HasController(Protocol):
    """Decides, if this broker is the controller, and is told that it is not otherwise."""

    @property
    def controller(self) -> Controller: ...
    @property
    def policy(self) -> Policy: ...


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
    """Knows the cluster, and its own place in it."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def node_id(self) -> int: ...


class HasReplicas(Protocol):
    @property
    def replicas(self) -> ReplicaManager: ...


class HasThreads(Protocol):
    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run something that may wait for the disk."""
        ...


class IsMember(HasImage, Protocol):
    """Is part of a cluster, which it may be cut off from; or the whole of it."""

    @property
    def is_alone(self) -> bool: ...
    @property
    def is_fenced(self) -> bool: ...


class LedPartitionNeeds(HasImage, HasReplicas, Protocol):
    """What finding a partition that is led here needs."""


def led_partition(broker: LedPartitionNeeds, topic: str, index: int, epoch: int = -1) -> Partition:
    """The partition, if this broker leads it at this leader epoch (-1: at any). As with Kafka, who knows of one that
    others have is told to look for its leader, not that there is none."""
    partition = broker.replicas.find(topic, index)
    if partition is None:
        problem = broker.replicas.why_missing(topic, ZERO_UUID, index)
        is_elsewhere = broker.image.partition(topic, index) is not None
        if problem is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_elsewhere:
            problem = ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise KafkaError(problem, f"there is no partition {topic}-{index} here")
    problem = partition.leadership_error(epoch)
    if problem:
        raise KafkaError(problem, f"this broker cannot answer for {topic}-{index} at leader epoch {epoch}")
    return partition
