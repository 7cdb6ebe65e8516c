import pytest
from msgspec.structs import replace

from barnabas.cluster.deltas import BrokerStored, Delta, FeatureFinalized, apply
from barnabas.cluster.features import METADATA_VERSION
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.brokers import Registration, register
from barnabas.controller.features import FeatureUpdate, UpgradeType, check_supported, update_features
from tests.support.builders.images import POLICY, cluster_of

SUPPORTED = {"group.version": (0, 2)}


def cluster(broker_knows: int = 2, level: int = 1) -> MetadataImage:
    image = cluster_of(1)
    broker = replace(image.brokers[1], features={"group.version": (0, broker_knows)})
    return apply(image, [BrokerStored(broker), FeatureFinalized("group.version", level)])


def test_an_upgrade_is_finalized() -> None:
    deltas, problem = update_features(cluster(), [FeatureUpdate("group.version", 2)], SUPPORTED)
    assert deltas == [FeatureFinalized("group.version", 2)]
    assert problem is None


def test_the_level_it_has_already_changes_nothing() -> None:
    assert update_features(cluster(), [FeatureUpdate("group.version", 1)], SUPPORTED)[0] == []


def test_downgrade_must_be_requested_explicitly() -> None:
    deltas, problem = update_features(cluster(), [FeatureUpdate("group.version", 0)], SUPPORTED)
    assert deltas == []
    assert problem is not None
    down = FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE)
    assert update_features(cluster(), [down], SUPPORTED)[0] == [FeatureFinalized("group.version", 0)]


def test_one_bad_update_stops_all() -> None:
    updates = [FeatureUpdate("group.version", 2), FeatureUpdate("nope", 1)]
    deltas, problem = update_features(cluster(), updates, SUPPORTED)
    assert deltas == []
    assert problem is not None
    assert "feature nope" in problem.message


def test_checking_only_stores_nothing() -> None:
    updates = [FeatureUpdate("group.version", 2)]
    assert update_features(cluster(), updates, SUPPORTED, validate_only=True)[0] == []


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (FeatureUpdate("group.version", 9), "Local controller -1 only supports versions 0-2"),
        (FeatureUpdate("group.version", -1), "cannot be less than 0"),
        (FeatureUpdate("group.version", 1, 7), "does not support the given upgrade type"),
        (FeatureUpdate("group.version", 2, UpgradeType.SAFE_DOWNGRADE), "Can't downgrade to a newer version"),
    ],
)
def test_impossible_update_has_a_reason(update: FeatureUpdate, text: str) -> None:
    error = update_features(cluster(), [update], SUPPORTED)[1]
    assert error is not None
    assert text in error.message


def test_a_level_that_one_broker_does_not_know_is_not_finalized() -> None:
    updates = [FeatureUpdate("group.version", 2)]
    error = update_features(cluster(broker_knows=1), updates, SUPPORTED)[1]
    assert error is not None
    assert "Broker 1 only supports versions 0-1" in error.message


LEVELS = {METADATA_VERSION: (1, 2)}


def of_level(broker_knows: int, finalized: int | None = None) -> MetadataImage:
    image = cluster_of(1)
    deltas: list[Delta] = [
        BrokerStored(replace(image.brokers[1], features={METADATA_VERSION: (1, broker_knows)}))
    ]
    if finalized is not None:
        deltas.append(FeatureFinalized(METADATA_VERSION, finalized))
    return apply(image, deltas)


def refused(image: MetadataImage, level: int, upgrade_type: int = UpgradeType.UPGRADE) -> str | None:
    error = update_features(image, [FeatureUpdate(METADATA_VERSION, level, upgrade_type)], LEVELS)[1]
    return None if error is None else error.message


def test_the_format_of_the_metadata_is_raised_when_every_broker_knows_it() -> None:
    assert "Broker 1 only supports versions 1-1" in (refused(of_level(broker_knows=1), 2) or "")
    assert refused(of_level(broker_knows=2), 2) is None
    # Clusters created before the feature have the first level, and may report it.
    assert refused(of_level(broker_knows=1), 1) is None


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("upgrade_type", [UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE])
def test_the_format_of_the_metadata_does_not_go_back(level: int, upgrade_type: UpgradeType) -> None:
    assert "older brokers do not understand" in (refused(of_level(2, finalized=2), level, upgrade_type) or "")


def test_broker_without_the_features_of_the_cluster_must_be_upgraded() -> None:
    image = cluster(level=2)
    check_supported(image, 5, {"group.version": (0, 3)})
    for known in ({}, {"group.version": (0, 1)}, {"group.version": (3, 4)}):
        with pytest.raises(KafkaError, match="upgrade this broker") as caught:
            check_supported(image, 5, known)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(KafkaError, match=r"group\.version"):
            register(image, Registration(5, features=known), POLICY)
