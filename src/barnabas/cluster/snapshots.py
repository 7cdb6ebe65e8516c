"""A snapshot of the metadata: the shortest list of deltas that leads to an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.cluster.deltas import (
    AclsChanged,
    BrokerStored,
    ClientQuotasChanged,
    ClusterCreated,
    ClusterRestored,
    ConfigsChanged,
    ControllerElected,
    DelegationTokenStored,
    Delta,
    FeatureFinalized,
    MirrorStored,
    ProducerIdsAllocated,
    RemoteDeletionBegun,
    ScramCredentialChanged,
    ScramDecoyKeyCreated,
    TopicCreated,
    changed,
)
from barnabas.cluster.image import NO_CONTROLLER, MetadataImage

ACLS_PER_DELTA = 500
"""So that a delta stays far below what ZooKeeper takes in one node."""


def image_from_snapshot(deltas: Iterable[Delta], offset: int) -> MetadataImage:
    return changed(MetadataImage(), deltas, offset)


def snapshot_of(image: MetadataImage) -> Iterator[Delta]:
    """The shortest list of deltas that leads from the empty image to this one."""
    if image.cluster_id:
        yield ClusterCreated(image.cluster_id)
    if image.incarnation:
        yield ClusterRestored(image.incarnation)
    if image.controller_id != NO_CONTROLLER or image.controller_epoch:
        yield ControllerElected(image.controller_id, image.controller_epoch)
    yield from (FeatureFinalized(name, level) for name, level in image.features.items())
    yield from (BrokerStored(broker) for broker in image.brokers.values())
    yield from (TopicCreated(topic) for topic in image.topics.values())
    for resource, values in image.configs.items():
        yield ConfigsChanged(resource.type, resource.name, dict(values))
    if image.next_producer_id:
        yield ProducerIdsAllocated(image.next_producer_id)
    yield from _security_of(image)
    yield from map(RemoteDeletionBegun, image.remote_deletions.values())
    yield from map(MirrorStored, image.mirrors.values())


def _security_of(image: MetadataImage) -> Iterator[Delta]:
    acls = sorted(image.acls)
    for start in range(0, len(acls), ACLS_PER_DELTA):
        yield AclsChanged(added=tuple(acls[start : start + ACLS_PER_DELTA]))
    if image.scram_decoy_key:
        yield ScramDecoyKeyCreated(image.scram_decoy_key)
    for user, credential in image.scram_credentials.items():
        yield ScramCredentialChanged(user.name, user.mechanism, credential)
    yield from map(DelegationTokenStored, image.delegation_tokens.values())
    for entity, quotas in image.client_quotas.items():
        yield ClientQuotasChanged(entity, dict(quotas))
