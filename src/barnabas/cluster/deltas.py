"""Deltas, the changes in the metadata log, and their application to an image.

An entry of the log is a list of deltas that are applied atomically. They are JSON objects with a `type`, so
that the log is readable, also with `jq`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from barnabas.cluster.image import (
    BrokerState,
    ConfigResourceType,
    Draft,
    MetadataImage,
    PartitionState,
    RemoteDeletion,
    Resource,
    ScramUser,
    TopicState,
)
from barnabas.cluster.mirrors import MirrorTopic
from barnabas.common.types import Uuid
from barnabas.security.authn import DelegationToken, ScramCredential
from barnabas.security.authz.acls import AclBinding
from barnabas.security.quotas.filters import QuotaEntity


class _Delta(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class ClusterCreated(_Delta, frozen=True):
    cluster_id: str


class ControllerElected(_Delta, frozen=True):
    controller_id: int
    controller_epoch: int


class BrokerStored(_Delta, frozen=True):
    """A broker was registered or has changed."""

    broker: BrokerState


class BrokerRemoved(_Delta, frozen=True):
    broker_id: int


class TopicCreated(_Delta, frozen=True):
    topic: TopicState


class TopicDeleted(_Delta, frozen=True):
    """The topic was deleted with its configs. A later topic of the same name has another id."""

    topic_id: Uuid


class PartitionsAdded(_Delta, frozen=True):
    topic_id: Uuid
    partitions: tuple[PartitionState, ...]


class PartitionChanged(_Delta, frozen=True, omit_defaults=True):
    """New state of a partition.

    `unclean` is True if the new leader may lack acknowledged records. It cannot be derived from the states: a leader
    that lost records in a crash of its host may be elected again in the same step.
    """

    topic_id: Uuid
    index: int
    state: PartitionState
    unclean: bool = False


class ConfigsChanged(_Delta, frozen=True):
    """Values to set; None resets a config to its default."""

    resource_type: int
    resource_name: str
    values: dict[str, str | None]


class FeatureFinalized(_Delta, frozen=True):
    """Level 0 means that the feature is not finalized."""

    name: str
    level: int


class ProducerIdsAllocated(_Delta, frozen=True):
    """Ids below `next_producer_id` are allocated."""

    next_producer_id: int


class AclsChanged(_Delta, frozen=True):
    removed: tuple[AclBinding, ...] = ()
    added: tuple[AclBinding, ...] = ()


class ScramCredentialChanged(_Delta, frozen=True):
    """New credential of a user; None deletes it."""

    user: str
    mechanism: int
    credential: ScramCredential | None


class ScramDecoyKeyCreated(_Delta, frozen=True):
    """Written with the first SCRAM credential."""

    key: bytes


class DelegationTokenStored(_Delta, frozen=True):
    """A token was created or renewed."""

    token: DelegationToken


class DelegationTokenRemoved(_Delta, frozen=True):
    token_id: str


class ClientQuotasChanged(_Delta, frozen=True):
    """Values to set; None removes a quota."""

    entity: QuotaEntity
    values: dict[str, float | None]


class ClusterRestored(_Delta, frozen=True):
    """The first entry of a cluster that was restored from an object store."""

    incarnation: int


class RemoteDeletionBegun(_Delta, frozen=True):
    """Written with its cause, the deletion of a topic or the end of its tiering. The controller deletes the objects."""

    deletion: RemoteDeletion


class RemoteDeletionEnded(_Delta, frozen=True):
    """All remote objects of the topic are deleted."""

    topic_id: Uuid


class MirrorStored(_Delta, frozen=True):
    """A topic became a mirror, or its mirror state changed."""

    mirror: MirrorTopic


Delta: TypeAlias = (
    ClusterCreated
    | ClusterRestored
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
    | AclsChanged
    | ScramCredentialChanged
    | ScramDecoyKeyCreated
    | DelegationTokenStored
    | DelegationTokenRemoved
    | ClientQuotasChanged
    | RemoteDeletionBegun
    | RemoteDeletionEnded
    | MirrorStored
)


def apply(image: MetadataImage, deltas: Iterable[Delta]) -> MetadataImage:
    """Return the image after the next entry of the log."""
    return changed(image, deltas, image.offset + 1)


def changed(image: MetadataImage, deltas: Iterable[Delta], offset: int) -> MetadataImage:
    """Return the image after these deltas, with this offset."""
    draft = Draft(image)
    changed_partitions: dict[Uuid, list[PartitionState]] = {}
    for delta in deltas:
        # Many partitions of a topic often change together, as at a broker's start: build their tuple once.
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
    draft: Draft, delta: PartitionChanged, changed: dict[Uuid, list[PartitionState]]
) -> None:
    partitions = changed.get(delta.topic_id)
    if partitions is None:
        partitions = changed[delta.topic_id] = list(_topic(draft, delta.topic_id).partitions)
    partitions[delta.index] = delta.state


def _store_partitions(draft: Draft, changed: dict[Uuid, list[PartitionState]]) -> None:
    for topic_id, partitions in changed.items():
        _replace_partitions(draft, topic_id, partitions)
    changed.clear()


def _topic(draft: Draft, topic_id: Uuid) -> TopicState:
    return draft.topics[draft.name_of(topic_id)]


def _replace_partitions(draft: Draft, topic_id: Uuid, partitions: Sequence[PartitionState]) -> None:
    name = draft.name_of(topic_id)
    draft.topics[name] = TopicState(name, topic_id, tuple(partitions))


def _create_cluster(draft: Draft, delta: ClusterCreated) -> None:
    draft.set("cluster_id", delta.cluster_id)


def _restore_cluster(draft: Draft, delta: ClusterRestored) -> None:
    draft.set("incarnation", delta.incarnation)


def _elect_controller(draft: Draft, delta: ControllerElected) -> None:
    draft.set("controller_id", delta.controller_id)
    draft.set("controller_epoch", delta.controller_epoch)


def _store_broker(draft: Draft, delta: BrokerStored) -> None:
    draft.brokers[delta.broker.id] = delta.broker


def _remove_broker(draft: Draft, delta: BrokerRemoved) -> None:
    del draft.brokers[delta.broker_id]


def _create_topic(draft: Draft, delta: TopicCreated) -> None:
    draft.topics[delta.topic.name] = delta.topic
    draft.names[delta.topic.topic_id] = delta.topic.name


def _delete_topic(draft: Draft, delta: TopicDeleted) -> None:
    name = draft.names.pop(delta.topic_id)
    del draft.topics[name]
    draft.configs.pop(Resource(ConfigResourceType.TOPIC, name), None)
    draft.forget_mirror(delta.topic_id)


def _add_partitions(draft: Draft, delta: PartitionsAdded) -> None:
    existing = _topic(draft, delta.topic_id).partitions
    _replace_partitions(draft, delta.topic_id, existing + delta.partitions)


def _change_configs(draft: Draft, delta: ConfigsChanged) -> None:
    resource = Resource(delta.resource_type, delta.resource_name)
    merged = {**draft.configs.get(resource, {}), **delta.values}
    kept = {name: value for name, value in merged.items() if value is not None}
    if kept:
        draft.configs[resource] = kept
    else:
        draft.configs.pop(resource, None)


def _finalize_feature(draft: Draft, delta: FeatureFinalized) -> None:
    if delta.level > 0:
        draft.features[delta.name] = delta.level
    else:
        draft.features.pop(delta.name, None)


def _allocate_producer_ids(draft: Draft, delta: ProducerIdsAllocated) -> None:
    draft.set("next_producer_id", delta.next_producer_id)


def _change_acls(draft: Draft, delta: AclsChanged) -> None:
    acls = draft.acls
    acls -= set(delta.removed)
    acls |= set(delta.added)


def _change_scram_credential(draft: Draft, delta: ScramCredentialChanged) -> None:
    user = ScramUser(delta.user, delta.mechanism)
    if delta.credential is None:
        draft.scram_credentials.pop(user, None)
    else:
        draft.scram_credentials[user] = delta.credential


def _create_scram_decoy_key(draft: Draft, delta: ScramDecoyKeyCreated) -> None:
    draft.set("scram_decoy_key", delta.key)


def _store_delegation_token(draft: Draft, delta: DelegationTokenStored) -> None:
    draft.delegation_tokens[delta.token.token_id] = delta.token


def _remove_delegation_token(draft: Draft, delta: DelegationTokenRemoved) -> None:
    draft.delegation_tokens.pop(delta.token_id, None)


def _change_client_quotas(draft: Draft, delta: ClientQuotasChanged) -> None:
    merged = {**draft.client_quotas.get(delta.entity, {}), **delta.values}
    kept = {name: value for name, value in merged.items() if value is not None}
    if kept:
        draft.client_quotas[delta.entity] = kept
    else:
        draft.client_quotas.pop(delta.entity, None)


def _begin_remote_deletion(draft: Draft, delta: RemoteDeletionBegun) -> None:
    draft.remote_deletions[delta.deletion.topic_id] = delta.deletion


def _end_remote_deletion(draft: Draft, delta: RemoteDeletionEnded) -> None:
    draft.remote_deletions.pop(delta.topic_id, None)


def _store_mirror(draft: Draft, delta: MirrorStored) -> None:
    draft.mirrors[delta.mirror.topic_id] = delta.mirror


_APPLY: dict[type[_Delta], Callable[[Draft, Any], None]] = {
    ClusterCreated: _create_cluster,
    ClusterRestored: _restore_cluster,
    ControllerElected: _elect_controller,
    BrokerStored: _store_broker,
    BrokerRemoved: _remove_broker,
    TopicCreated: _create_topic,
    TopicDeleted: _delete_topic,
    PartitionsAdded: _add_partitions,
    ConfigsChanged: _change_configs,
    FeatureFinalized: _finalize_feature,
    ProducerIdsAllocated: _allocate_producer_ids,
    AclsChanged: _change_acls,
    ScramCredentialChanged: _change_scram_credential,
    ScramDecoyKeyCreated: _create_scram_decoy_key,
    DelegationTokenStored: _store_delegation_token,
    DelegationTokenRemoved: _remove_delegation_token,
    ClientQuotasChanged: _change_client_quotas,
    RemoteDeletionBegun: _begin_remote_deletion,
    RemoteDeletionEnded: _end_remote_deletion,
    MirrorStored: _store_mirror,
}
