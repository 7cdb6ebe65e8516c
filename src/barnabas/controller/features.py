"""Finalized feature levels: what all brokers of the cluster support and use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.cluster.deltas import FeatureFinalized
from barnabas.cluster.features import METADATA_VERSION, level_of
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.decision import Decided


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The new level of a feature; 0 removes it."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    supported: Mapping[str, tuple[int, int]],
    *,
    validate_only: bool = False,
) -> Decided[KafkaError | None]:
    """Update all features or none, as they may depend on each other. Returns the first problem."""
    for update in updates:
        if problem := _problem(image, update, supported):
            return [], problem
    changed = [update for update in updates if image.features.get(update.name, 0) != update.level]
    return [] if validate_only else [FeatureFinalized(each.name, each.level) for each in changed], None


def check_supported(image: MetadataImage, broker_id: int, supported: Mapping[str, tuple[int, int]]) -> None:
    """Raise KafkaError if a broker does not support the finalized features; it must not join."""
    for name, level in image.features.items():
        minimum, maximum = supported.get(name, (0, 0))
        if not minimum <= level <= maximum:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {broker_id} supports {name} {minimum} to {maximum}, and the cluster has finalized {level}: "
                "upgrade this broker",
            )


def _problem(
    image: MetadataImage, update: FeatureUpdate, supported: Mapping[str, tuple[int, int]]
) -> KafkaError | None:
    current = _current_level(image, update.name)
    if update.upgrade_type not in list(UpgradeType):
        return _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        return _invalid(update, "A feature version cannot be less than 0.")
    if update.name not in supported:
        return _invalid(update, f"Local controller {image.controller_id} does not support this feature.")
    if refusal := _unsupported(image, update, supported[update.name]):
        return _invalid(update, refusal)
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return _invalid(update, "Can't downgrade to a newer version.")
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either "
            "safe or unsafe downgrade.",
        )
    if update.level < current and update.name == METADATA_VERSION:
        return _invalid(update, "The log may hold entries that older brokers do not understand.")
    return None


def _current_level(image: MetadataImage, name: str) -> int:
    return level_of(image) if name == METADATA_VERSION else image.features.get(name, 0)


def _unsupported(image: MetadataImage, update: FeatureUpdate, supported: tuple[int, int]) -> str | None:
    """The broker that does not support this level; removing a feature is always possible."""
    if update.level == 0:
        return None
    minimum, maximum = supported
    if not minimum <= update.level <= maximum:
        return f"Local controller {image.controller_id} only supports versions {minimum}-{maximum}"
    for broker in image.brokers.values():
        minimum, maximum = broker.features.get(update.name, (0, 0))
        if not minimum <= update.level <= maximum:
            return f"Broker {broker.id} only supports versions {minimum}-{maximum}"
    return None


def _invalid(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
