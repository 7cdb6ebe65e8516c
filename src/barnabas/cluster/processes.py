"""Broker ids of a node with several processes: process k of node n is broker n + 1000 k, and process 0 keeps n."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from barnabas.cluster.image import BrokerState, MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.log.recovery import ShutdownKind

IDS_PER_NODE = 1000
MAX_PROCESSES = 256


def broker_of(node: int, k: int) -> int:
    return node + IDS_PER_NODE * k


def number_of(broker_id: int, node: int) -> int:
    return (broker_id - node) // IDS_PER_NODE


def node_of(broker: BrokerState) -> int:
    """The node of a broker; its own id if it is the only process."""
    return broker.id if broker.node < 0 else broker.node


def check_node_id(node: int) -> None:
    """Raise KafkaError if a node with this id cannot have several processes."""
    if node >= IDS_PER_NODE:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"node.id={node} allows one process only: the ids of the others are node.id + {IDS_PER_NODE} k, and "
            f"node.id must be below {IDS_PER_NODE}",
        )


class NodeProcess(NamedTuple):
    """A process of a node, and the number of processes of that node."""

    node: int
    processes: int


def represented(image: MetadataImage, broker_id: int, process: NodeProcess) -> frozenset[int]:
    """Brokers whose partitions this process loads: itself, and processes that its node has no more."""
    node, count = process
    others = (number_of(each.id, node) for each in image.brokers.values() if node_of(each) == node)
    own_nodes = (k for k in others if k >= count and k % count == number_of(broker_id, node))
    return frozenset({broker_id, *(broker_of(node, k) for k in own_nodes)})


def is_on_node(image: MetadataImage, state: PartitionState, node: int) -> bool:
    """True if a replica of the partition is on the node."""
    return any(each in image.brokers and node_of(image.brokers[each]) == node for each in state.replicas)


def have_one_node(image: MetadataImage, brokers: Collection[int]) -> bool:
    """True if two of these brokers are processes of one node, and share its disks."""
    nodes = [node_of(image.brokers[each]) for each in brokers if each in image.brokers]
    return len(set(nodes)) < len(nodes)


class Hold(NamedTuple):
    """`stop` says how the partition was closed. `topic_id` is the id in the newest metadata, None if the partition is
    deleted: while this process holds it, a folder with another id is left over from a deleted topic."""

    stop: ShutdownKind
    topic_id: Uuid | None


Holds = dict[TopicPartition, Hold]


class HoldService(Protocol):
    """Grants holds to a process: the right to open the logs of partitions."""

    on_granted: Callable[[Holds], None]
    """Called with holds that `request` had to wait for."""

    async def request(self, partitions: Collection[TopicPartition]) -> Holds:
        """Return what is free now."""
        ...

    def release(self, partitions: Collection[TopicPartition], *, are_closed: bool) -> None:
        """Free partitions. `are_closed`: their logs were open here, and are complete on the disk."""
        ...
