"""Metadata images for controller decisions."""

from barnabas.cluster.deltas import Delta, TopicCreated, apply
from barnabas.cluster.image import EMPTY_IMAGE, BrokerState, MetadataImage, PartitionState, TopicState
from barnabas.common.types import new_uuid
from barnabas.controller.brokers import Registration, register
from barnabas.controller.decision import ControllerPolicy

POLICY = ControllerPolicy()


def cluster_of(count: int) -> MetadataImage:
    """Brokers 1 to `count`, all up, each on a separate machine."""
    image = EMPTY_IMAGE
    for broker_id in range(1, count + 1):
        deltas, _ = register(image, Registration(broker_id, host=f"host-{broker_id}"), POLICY)
        image = apply(image, deltas)
    return image


def with_topic(image: MetadataImage, name: str, *partitions: PartitionState) -> MetadataImage:
    return apply(image, [TopicCreated(TopicState(name, new_uuid(), partitions))])


def after(image: MetadataImage, decided: tuple[list[Delta], object]) -> MetadataImage:
    """The image once the decision is stored."""
    return apply(image, decided[0]) if decided[0] else image


def broker(broker_id: int, host: str = "", rack: str | None = None, fenced: bool = False) -> BrokerState:
    return BrokerState(broker_id, 1, host, rack, fenced=fenced)
