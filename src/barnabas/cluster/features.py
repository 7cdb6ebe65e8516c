"""Supported features, the initial levels of a new cluster, and the metadata level.

A feature is listed only when it is complete: clients change their requests as soon as they see it finalized.

`barnabas.metadata.version` limits the contents of metadata log entries to what the oldest broker of the cluster
understands. A new cluster starts with the highest level of its first broker. A rolling upgrade keeps the level until it
is raised (`kafka-features upgrade`), which is refused while a registered broker does not support the new one; a broker
that does not support the level of its cluster is not registered. Until then the controller writes entries of the
finalized level. A new field of a delta, with a default, needs no level: older brokers ignore it. A new type of delta
does, and so does a field that must not be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.cluster.deltas import (
    AclsChanged,
    BrokerStored,
    ClientQuotasChanged,
    ClusterRestored,
    DelegationTokenRemoved,
    DelegationTokenStored,
    Delta,
    FeatureFinalized,
    MirrorStored,
    RemoteDeletionBegun,
    RemoteDeletionEnded,
    ScramCredentialChanged,
    ScramDecoyKeyCreated,
)
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError

METADATA_VERSION = "barnabas.metadata.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
DEAD_LETTERS_LEVEL = 2
"""Of `share.version`, as in Kafka 4.4. Earlier versions of Barnabas had dead letters at level 1; they stay enabled."""
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
FIRST_LEVEL = 1
ENVELOPE_LEVEL = 2
"""From this level on, every broker forwards metadata changes in an Envelope (KIP-590)."""
SECURITY_LEVEL = 3
"""From this level on, the log may have ACLs, SCRAM credentials, delegation tokens and client quotas."""
TIERING_LEVEL = 4
"""From this level on, topics may be tiered: every broker supports tiered logs and the deletion of their objects."""
MIRROR_LEVEL = 5
"""From this level on, topics may be mirrors: every broker rejects writes of clients to them."""
PROCESSES_LEVEL = 6
"""From this level on, nodes may have several processes, which share their log dirs."""
NEWEST_LEVEL = PROCESSES_LEVEL

_OF_SECURITY = (
    AclsChanged,
    ScramCredentialChanged,
    ScramDecoyKeyCreated,
    DelegationTokenStored,
    DelegationTokenRemoved,
    ClientQuotasChanged,
)


def _without_security(delta: Delta) -> Delta | None:
    return None if isinstance(delta, _OF_SECURITY) else delta


def _without_tiers(delta: Delta) -> Delta | None:
    return None if isinstance(delta, ClusterRestored | RemoteDeletionBegun | RemoteDeletionEnded) else delta


def _without_mirrors(delta: Delta) -> Delta | None:
    return None if isinstance(delta, MirrorStored) else delta


def _without_processes(delta: Delta) -> Delta | None:
    return None if isinstance(delta, BrokerStored) and delta.broker.node >= 0 else delta


LOWERED: dict[int, Callable[[Delta], Delta | None]] = {
    SECURITY_LEVEL: _without_security,
    TIERING_LEVEL: _without_tiers,
    MIRROR_LEVEL: _without_mirrors,
    PROCESSES_LEVEL: _without_processes,
}
"""By level: converts a delta to the level below; returns None if that is impossible."""

Levels = Mapping[str, tuple[int, int]]

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    # contents of metadata log entries; 2: brokers forward by Envelope; 3: ACLs, users, tokens, quotas;
    # 4: tiered topics; 5: mirror topics; 6: several processes on a node
    METADATA_VERSION: (FIRST_LEVEL, NEWEST_LEVEL),
    # 2: the epoch rises with every transaction, partitions are added by the first write (KIP-890)
    TRANSACTION_VERSION: (0, 2),
    # 1: consumer groups (KIP-848)
    GROUP_VERSION: (0, 1),
    # 1: share groups (KIP-932); 2: dead letter topics of groups (KIP-1191)
    SHARE_VERSION: (0, DEAD_LETTERS_LEVEL),
    # 1: streams groups (KIP-1071)
    STREAMS_VERSION: (0, 1),
}


def initial_features(supported: Levels) -> dict[str, int]:
    return {name: highest for name, (_, highest) in supported.items()}


def is_enabled(image: MetadataImage, feature: str) -> bool:
    """True if the cluster has finalized a level of the feature."""
    return image.features.get(feature, 0) > 0


def check_enabled(image: MetadataImage, feature: str) -> None:
    if not is_enabled(image, feature):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def level_of(image: MetadataImage) -> int:
    """Finalized metadata level; clusters older than the feature have the first."""
    return image.features.get(METADATA_VERSION, FIRST_LEVEL)


def how_to_reach(level: int) -> str:
    return (
        f"{METADATA_VERSION}={level}: upgrade all brokers, then finalize it with "
        f"`barnabas cluster upgrade` or `kafka-features upgrade --feature {METADATA_VERSION}={level}`"
    )


def in_terms_of(image: MetadataImage, deltas: list[Delta]) -> list[Delta]:
    """Convert deltas to the finalized level; raise KafkaError if that is impossible."""
    level = level_of(image)
    newer = sorted((each for each in LOWERED if each > level), reverse=True)
    return [_lowered(delta, newer) for delta in deltas] if newer else deltas


def raised_level(deltas: Iterable[Delta]) -> int | None:
    """Metadata level that this entry finalizes, if any."""
    levels = [
        delta.level
        for delta in deltas
        if isinstance(delta, FeatureFinalized) and delta.name == METADATA_VERSION
    ]
    return levels[-1] if levels else None


def _lowered(delta: Delta, levels: Iterable[int]) -> Delta:
    for level in levels:
        lowered = LOWERED[level](delta)
        if lowered is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"this needs {how_to_reach(level)}")
        delta = lowered
    return delta
