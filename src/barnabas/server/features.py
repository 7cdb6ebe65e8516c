"""Features that this version knows, and the levels that a new cluster starts with.

A feature is listed when every one of its paths works, not before: clients change what they send as soon as they
see it finalized.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cluster.image import MetadataImage
from barnabas.cluster.levels import FIRST_LEVEL, METADATA_VERSION, NEWEST_LEVEL

Levels = Mapping[str, tuple[int, int]]

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    # what entries of the metadata log may say
    METADATA_VERSION: (FIRST_LEVEL, NEWEST_LEVEL),
    # 2: the epoch rises with every transaction, partitions join by being written
    "transaction.version": (0, 2),
    # 1: consumer groups (KIP-848)
    "group.version": (0, 1),
    # 1: share groups (KIP-932)
    "share.version": (0, 1),
    # 1: streams groups (KIP-1071)
    "streams.version": (0, 1),
}


def initial_features(supported: Levels) -> dict[str, int]:
    return {name: highest for name, (_, highest) in supported.items()}


def is_enabled(image: MetadataImage, feature: str) -> bool:
    """Has the cluster finalized any level of it?"""
    return image.features.get(feature, 0) > 0
