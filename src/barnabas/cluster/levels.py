"""Levels of the metadata: what entries of the log may say, so that the oldest broker of the cluster understands them.

The level is a finalized feature, `barnabas.metadata.version`. A new cluster begins with the highest that its founder
knows. A cluster that is upgraded broker by broker keeps its level until somebody raises it (`kafka-features upgrade`),
which is refused while a registered broker does not know the new one; a broker that does not know the level of its
cluster is not registered. Until then the controller says everything in terms of the finalized level.

A field that a delta gets, with a default, needs no level: who does not know it ignores it. A new kind of delta does,
and so does a field that must not be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.cluster.deltas import Delta, FeatureFinalized
from barnabas.cluster.image import MetadataImage
from barnabas.errors import ErrorCode, KafkaError

METADATA_VERSION = "barnabas.metadata.version"
FIRST_LEVEL = 1
NEWEST_LEVEL = 1

LOWERED: dict[int, Callable[[Delta], Delta | None]] = {}
"""By level: how a delta of that level is said in terms of the level below; None when it cannot be."""


def level_of(image: MetadataImage) -> int:
    """The level that the cluster has finalized; clusters from before the feature have the first."""
    return image.features.get(METADATA_VERSION, FIRST_LEVEL)


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
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"this needs {METADATA_VERSION}={level}: upgrade all brokers, then finalize it with kafka-features",
            )
        delta = lowered
    return delta
