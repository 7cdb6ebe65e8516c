import pytest
from msgspec.structs import replace

from barnabas.cluster.deltas import BrokerStored, FeatureFinalized, apply
from barnabas.cluster.image import MetadataImage
from barnabas.controller.features import FeatureUpdate, UpgradeType, update_features
from tests.controller.clusters import cluster_of

SUPPORTED = {"group.version": (0, 2)}


def cluster(broker_knows: int = 2, level: int = 1) -> MetadataImage:
    image = cluster_of(1)
    broker = replace(image.brokers[1], features={"group.version": (0, broker_knows)})
    return apply(image, [BrokerStored(broker), FeatureFinalized("group.version", level)])


def test_an_upgrade_is_finalized() -> None:
    deltas, results = update_features(cluster(), [FeatureUpdate("group.version", 2)], SUPPORTED)
    assert deltas == [FeatureFinalized("group.version", 2)]
    assert results == {"group.version": None}


def test_the_level_it_has_already_changes_nothing() -> None:
    assert update_features(cluster(), [FeatureUpdate("group.version", 1)], SUPPORTED)[0] == []


def test_a_downgrade_must_be_asked_for_as_one() -> None:
    deltas, results = update_features(cluster(), [FeatureUpdate("group.version", 0)], SUPPORTED)
    assert deltas == []
    assert results["group.version"] is not None
    down = FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE)
    assert update_features(cluster(), [down], SUPPORTED)[0] == [FeatureFinalized("group.version", 0)]


def test_one_bad_update_stops_all() -> None:
    updates = [FeatureUpdate("group.version", 2), FeatureUpdate("nope", 1)]
    deltas, results = update_features(cluster(), updates, SUPPORTED)
    assert deltas == []
    assert results["nope"] is not None


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
def test_an_update_that_cannot_be_says_why(update: FeatureUpdate, text: str) -> None:
    error = update_features(cluster(), [update], SUPPORTED)[1]["group.version"]
    assert error is not None
    assert text in error.message


def test_a_level_that_one_broker_does_not_know_is_not_finalized() -> None:
    updates = [FeatureUpdate("group.version", 2)]
    error = update_features(cluster(broker_knows=1), updates, SUPPORTED)[1]["group.version"]
    assert error is not None
    assert "Broker 1 only supports versions 0-1" in error.message
