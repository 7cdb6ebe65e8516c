"""A cluster is upgraded broker by broker to a version with a newer metadata level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from barnabas.broker.broker import Broker
from barnabas.cluster import features as cluster_features
from barnabas.cluster.deltas import BrokerStored, Delta
from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL, SUPPORTED_FEATURES, Levels, level_of
from barnabas.common.errors import ErrorCode, KafkaError
from tests.support.clusters import Brokers
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import ToolResult, run_tool
from tests.support.waiting import until

pytestmark = requires_java

NEXT = NEWEST_LEVEL + 1


class NewerBroker(Broker):
    supported_features: ClassVar[Levels] = {**SUPPORTED_FEATURES, METADATA_VERSION: (1, NEXT)}


def without_racks(delta: Delta) -> Delta | None:
    """Simulate racks as a feature of the new level."""
    return BrokerStored(replace(delta.broker, rack=None)) if isinstance(delta, BrokerStored) else delta


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    monkeypatch.setitem(cluster_features.LOWERED, NEXT, without_racks)
    with Brokers(tmp_path) as running:
        yield running


def kafka_features(brokers: Brokers, *arguments: str) -> ToolResult:
    return run_tool(
        "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", brokers.bootstrap_servers, *arguments
    )


def raise_level(brokers: Brokers) -> ToolResult:
    return kafka_features(brokers, "upgrade", "--feature", f"{METADATA_VERSION}={NEXT}")


def restart(brokers: Brokers, number: int, kind: type[Broker]) -> None:
    brokers.stop(number)
    brokers.start(number, kind=kind)


def test_the_level_is_raised_when_the_last_broker_knows_it_and_not_before(brokers: Brokers) -> None:
    for number in (1, 2):
        restart(brokers, number, NewerBroker)
    refused = raise_level(brokers)
    assert refused.returncode != 0
    assert f"3 only supports versions 1-{NEWEST_LEVEL}" in refused.stdout + refused.stderr
    # The controller writes only what the oldest broker supports, whichever broker it is.
    assert [broker.rack for broker in brokers.any.image.brokers.values()] == [None] * 3

    restart(brokers, 3, NewerBroker)
    raise_level(brokers).check()
    until(lambda: all(level_of(broker.image) == NEXT for broker in brokers.brokers.values()))
    assert f"Feature: {METADATA_VERSION}" in kafka_features(brokers, "describe").check().stdout
    restart(brokers, 3, NewerBroker)
    assert brokers.any.image.brokers[3].rack == "rack-3"


def test_broker_too_old_for_its_cluster_logs_it_and_exits(brokers: Brokers) -> None:
    for number in (1, 2, 3):
        restart(brokers, number, NewerBroker)
    raise_level(brokers).check()
    brokers.stop(3)
    with pytest.raises(KafkaError, match="upgrade this broker") as caught:
        brokers.start(3, kind=Broker)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    brokers.start(3, kind=NewerBroker)
    assert not brokers.any.image.brokers[3].fenced
