"""Finalized feature levels: what all brokers of the cluster do from now on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.cluster.deltas import FeatureFinalized
from barnabas.cluster.image import MetadataImage
from barnabas.controller.decision import Decided
from barnabas.errors import ErrorCode, KafkaError


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level a feature shall have; 0 takes it away."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    supported: Mapping[str, tuple[int, int]],
    *,
    validate_only: bool = False,
) -> Decided[dict[str, KafkaError | None]]:
    """All or nothing, as features may depend on each other; None for an update that is in order."""
    results = {update.name: _problem(image, update, supported) for update in updates}
    if validate_only or any(results.values()):
        return [], results
    changed = [update for update in updates if image.features.get(update.name, 0) != update.level]
    return [FeatureFinalized(update.name, update.level) for update in changed], results


def _problem(
    image: MetadataImage, update: FeatureUpdate, supported: Mapping[str, tuple[int, int]]
) -> KafkaError | None:
    current = image.features.get(update.name, 0)
    if update.upgrade_type not in list(UpgradeType):
        return _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        return _invalid(update, "A feature version cannot be less than 0.")
    if update.name not in supported:
        return _invalid(update, f"Local controller does not support feature {update.name}.")
    if update.level and not _supports_everywhere(image, update, supported):
        least, most = supported[update.name]
        return _invalid(
            update, f"All brokers must support it; this one only supports versions {least}-{most}"
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return _invalid(update, "Can't downgrade to a newer version.")
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either "
            "safe or unsafe downgrade.",
        )
    return None


def _supports_everywhere(
    image: MetadataImage, update: FeatureUpdate, supported: Mapping[str, tuple[int, int]]
) -> bool:
    registered = [broker.features.get(update.name) for broker in image.brokers.values() if broker.features]
    ranges = [supported[update.name], *registered]
    return all(levels is not None and levels[0] <= update.level <= levels[1] for levels in ranges)


def _invalid(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
