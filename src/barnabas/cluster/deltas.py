"""The changes of the metadata log, and how they turn one image into the next.

An entry of the log is a list of deltas that belong together: all of them happen, or none. They are
written as JSON with a `type` that names them, so that the log can be read by people and with `jq`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from barnabas.cluster.image import (
    NO_CONTROLLER,
    BrokerState,
    MetadataImage,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from barnabas.types import Uuid


class _Delta(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class ClusterCreated(_Delta, frozen=True):
    cluster_id: str


class ControllerElected(_Delta, frozen=True):
    controller_id: int
    controller_epoch: int


class BrokerStored(_Delta, frozen=True):
    """A broker was registered, or something about it changed."""

    broker: BrokerState


class BrokerRemoved(_Delta, frozen=True):
    broker_id: int


class TopicCreated(_Delta, frozen=True):
    topic: TopicState


class TopicDeleted(_Delta, frozen=True):
    """The topic and its configs are gone; a topic created later under the same name is another one."""

    topic_id: Uuid


class PartitionsAdded(_Delta, frozen=True):
    topic_id: Uuid
    partitions: tuple[PartitionState, ...]


class PartitionChanged(_Delta, frozen=True, omit_defaults=True):
    """`unclean` says that the new leader may lack what was acknowledged. The states before and after do not tell that
    by themselves: a leader that lost records with its machine may lead again in the same step."""

    topic_id: Uuid
    index: int
    state: PartitionState
    unclean: bool = False


class ConfigsChanged(_Delta, frozen=True):
    """Values to set; None takes a setting back to its default."""

    resource_type: int
    resource_name: str
    values: dict[str, str | None]


class FeatureFinalized(_Delta, frozen=True):
    """Level 0 means that the feature is not finalized."""

    name: str
    level: int


class ProducerIdsAllocated(_Delta, frozen=True):
    """Ids below `next_producer_id` belong to somebody."""

    next_producer_id: int


Delta: TypeAlias = (
    ClusterCreated
    | ControllerElected
    | BrokerStored
    | BrokerRemoved
    | TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionChanged
    | ConfigsChanged
    | FeatureFinalized
    | ProducerIdsAllocated
)


def apply(image: MetadataImage, deltas: Iterable[Delta]) -> MetadataImage:
    """The image after one more entry of the log."""
    return _changed(image, deltas, image.offset + 1)


def image_from_snapshot(deltas: Iterable[Delta], offset: int) -> MetadataImage:
    return _changed(MetadataImage(), deltas, offset)


def snapshot_of(image: MetadataImage) -> Iterator[Delta]:
    """The shortest list of deltas that leads from the empty image to this one."""
    if image.cluster_id:
        yield ClusterCreated(image.cluster_id)
    if image.controller_id != NO_CONTROLLER or image.controller_epoch:
        yield ControllerElected(image.controller_id, image.controller_epoch)
    yield from (FeatureFinalized(name, level) for name, level in image.features.items())
    yield from (BrokerStored(broker) for broker in image.brokers.values())
    yield from (TopicCreated(topic) for topic in image.topics.values())
    for resource, values in image.configs.items():
        yield ConfigsChanged(resource.type, resource.name, dict(values))
    if image.next_producer_id:
        yield ProducerIdsAllocated(image.next_producer_id)


class _Draft:
    """An image that is being changed. A mapping is copied when it is first touched, and only then."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changes: dict[str, Any] = {}

    def finish(self, offset: int) -> MetadataImage:
        return msgspec.structs.replace(self._image, offset=offset, **self._changes)

    def set(self, field: str, value: object) -> None:
        self._changes[field] = value

    def _own(self, field: str) -> Any:
        if field not in self._changes:
            self._changes[field] = dict(getattr(self._image, field))
        return self._changes[field]

    def name_of(self, topic_id: Uuid) -> str:
        """Looked up without a copy: names change seldom, partitions often."""
        names: Mapping[Uuid, str] = self._changes.get("topic_names_by_id", self._image.topic_names_by_id)
        return names[topic_id]

    @property
    def brokers(self) -> dict[int, BrokerState]:
        return self._own("brokers")  # type: ignore[no-any-return]

    @property
    def topics(self) -> dict[str, TopicState]:
        return self._own("topics")  # type: ignore[no-any-return]

    @property
    def names(self) -> dict[Uuid, str]:
        return self._own("topic_names_by_id")  # type: ignore[no-any-return]

    @property
    def configs(self) -> dict[Resource, Mapping[str, str]]:
        return self._own("configs")  # type: ignore[no-any-return]

    @property
    def features(self) -> dict[str, int]:
        return self._own("features")  # type: ignore[no-any-return]


def _changed(image: MetadataImage, deltas: Iterable[Delta], offset: int) -> MetadataImage:
    draft = _Draft(image)
    changed_partitions: dict[Uuid, list[PartitionState]] = {}
    for delta in deltas:
        # Many partitions of a topic often change together (a broker's start): their tuple is built once.
        if isinstance(delta, PartitionChanged):
            _change_partition(draft, delta, changed_partitions)
        else:
            if changed_partitions:
                _store_partitions(draft, changed_partitions)
            _APPLY[type(delta)](draft, delta)
    if changed_partitions:
        _store_partitions(draft, changed_partitions)
    return draft.finish(offset)


def _change_partition(
    draft: _Draft, delta: PartitionChanged, changed: dict[Uuid, list[PartitionState]]
) -> None:
    partitions = changed.get(delta.topic_id)
    if partitions is None:
        partitions = changed[delta.topic_id] = list(_topic(draft, delta.topic_id).partitions)
    partitions[delta.index] = delta.state


def _store_partitions(draft: _Draft, changed: dict[Uuid, list[PartitionState]]) -> None:
    for topic_id, partitions in changed.items():
        _replace_partitions(draft, topic_id, partitions)
    changed.clear()


def _topic(draft: _Draft, topic_id: Uuid) -> TopicState:
    return draft.topics[draft.name_of(topic_id)]


def _replace_partitions(draft: _Draft, topic_id: Uuid, partitions: Sequence[PartitionState]) -> None:
    name = draft.name_of(topic_id)
    draft.topics[name] = TopicState(name, topic_id, tuple(partitions))


def _create_cluster(draft: _Draft, delta: ClusterCreated) -> None:
    draft.set("cluster_id", delta.cluster_id)


def _elect_controller(draft: _Draft, delta: ControllerElected) -> None:
    draft.set("controller_id", delta.controller_id)
    draft.set("controller_epoch", delta.controller_epoch)


def _store_broker(draft: _Draft, delta: BrokerStored) -> None:
    draft.brokers[delta.broker.id] = delta.broker


def _remove_broker(draft: _Draft, delta: BrokerRemoved) -> None:
    del draft.brokers[delta.broker_id]


def _create_topic(draft: _Draft, delta: TopicCreated) -> None:
    draft.topics[delta.topic.name] = delta.topic
    draft.names[delta.topic.topic_id] = delta.topic.name


def _delete_topic(draft: _Draft, delta: TopicDeleted) -> None:
    name = draft.names.pop(delta.topic_id)
    del draft.topics[name]
    draft.configs.pop(Resource(ResourceType.TOPIC, name), None)


def _add_partitions(draft: _Draft, delta: PartitionsAdded) -> None:
    existing = _topic(draft, delta.topic_id).partitions
    _replace_partitions(draft, delta.topic_id, existing + delta.partitions)


def _change_configs(draft: _Draft, delta: ConfigsChanged) -> None:
    resource = Resource(delta.resource_type, delta.resource_name)
    merged = {**draft.configs.get(resource, {}), **delta.values}
    kept = {name: value for name, value in merged.items() if value is not None}
    if kept:
        draft.configs[resource] = kept
    else:
        draft.configs.pop(resource, None)


def _finalize_feature(draft: _Draft, delta: FeatureFinalized) -> None:
    if delta.level > 0:
        draft.features[delta.name] = delta.level
    else:
        draft.features.pop(delta.name, None)


def _allocate_producer_ids(draft: _Draft, delta: ProducerIdsAllocated) -> None:
    draft.set("next_producer_id", delta.next_producer_id)


_APPLY: dict[type[_Delta], Callable[[_Draft, Any], None]] = {
    ClusterCreated: _create_cluster,
    ControllerElected: _elect_controller,
    BrokerStored: _store_broker,
    BrokerRemoved: _remove_broker,
    TopicCreated: _create_topic,
    TopicDeleted: _delete_topic,
    PartitionsAdded: _add_partitions,
    ConfigsChanged: _change_configs,
    FeatureFinalized: _finalize_feature,
    ProducerIdsAllocated: _allocate_producer_ids,
}
