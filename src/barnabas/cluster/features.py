"""Features that this version knows, the levels that a new cluster starts with, and the level of the metadata.

A feature is listed when every one of its paths works, not before: clients change what they send as soon as they
see it finalized.

`barnabas.metadata.version` says what entries of the metadata log may say, so that the oldest broker of the cluster
understands them. A new cluster begins with the highest level that its founder knows. A cluster that is upgraded broker
by broker keeps its level until it is raised (`kafka-features upgrade`), which is refused while a registered broker does
not know the new one; a broker that does not know the level of its cluster is not registered. Until then the controller
says everything in terms of the finalized level. A field that a delta gets, with a default, needs no level: a broker
that does not know it ignores it. A new kind of delta does, and so does a field that must not be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.cluster.deltas import (
    AclsChanged,
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
"""Of `share.version`, as in Kafka 4.4. Earlier versions of Barnabas had dead letters at 1: what has them keeps them."""
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
FIRST_LEVEL = 1
ENVELOPE_LEVEL = 2
"""From here on every broker forwards changes of the metadata in an Envelope (KIP-590)."""
SECURITY_LEVEL = 3
"""From here on the log may hold ACLs, SCRAM credentials, delegation tokens and client quotas."""
TIERING_LEVEL = 4
"""From here on topics may be tiered: every broker knows what a tiered log is, and that its objects outlive it."""
MIRROR_LEVEL = 5
"""From here on topics may be mirrors: every broker knows that clients do not write them."""
NEWEST_LEVEL = MIRROR_LEVEL

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


LOWERED: dict[int, Callable[[Delta], Delta | None]] = {
    SECURITY_LEVEL: _without_security,
    TIERING_LEVEL: _without_tiers,
    MIRROR_LEVEL: _without_mirrors,
}
"""By level: how a delta of that level is said in terms of the level below; None when it cannot be."""

Levels = Mapping[str, tuple[int, int]]

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    # what entries of the metadata log may say; 2: brokers forward by Envelope; 3: ACLs, users, tokens, quotas;
    # 4: tiered topics; 5: mirror topics
    METADATA_VERSION: (FIRST_LEVEL, NEWEST_LEVEL),
    # 2: the epoch rises with every transaction, partitions join by being written
    TRANSACTION_VERSION: (0, 2),
    # 1: consumer groups (KIP-848)
    GROUP_VERSION: (0, 1),
    # 1: share groups (KIP-932); 2: a group can be given a topic for dead letters (KIP-1191)
    SHARE_VERSION: (0, DEAD_LETTERS_LEVEL),
    # 1: streams groups (KIP-1071)
    STREAMS_VERSION: (0, 1),
}


def initial_features(supported: Levels) -> dict[str, int]:
    return {name: highest for name, (_, highest) in supported.items()}


def is_enabled(image: MetadataImage, feature: str) -> bool:
    """Has the cluster finalized any level of it?"""
    return image.features.get(feature, 0) > 0


def check_enabled(image: MetadataImage, feature: str) -> None:
    if not is_enabled(image, feature):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def level_of(image: MetadataImage) -> int:
    """The level that the cluster has finalized; clusters from before the feature have the first."""
    return image.features.get(METADATA_VERSION, FIRST_LEVEL)


def how_to_reach(level: int) -> str:
    return (
        f"{METADATA_VERSION}={level}: upgrade all brokers, then finalize it with "
        f"`barnabas cluster upgrade` or `kafka-features upgrade --feature {METADATA_VERSION}={level}`"
    )


def in_terms_of(image: MetadataImage, deltas: list[Delta]) -> list[Delta]:
    """These deltas as every broker of the cluster understands them. KafkaError when that cannot be."""
    level = level_of(image)
    newer = sorted((each for each in LOWERED if each > level), reverse=True)
    return [_lowered(delta, newer) for delta in deltas] if newer else deltas


def raised_level(deltas: Iterable[Delta]) -> int | None:
    """The level that this entry finalizes, if it does."""
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
