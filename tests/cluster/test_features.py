"""Entries of the controller while not all brokers support the newest metadata level."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from barnabas.cluster import features as cluster_features
from barnabas.cluster.deltas import (
    AclsChanged,
    BrokerStored,
    ClientQuotasChanged,
    DelegationTokenRemoved,
    DelegationTokenStored,
    Delta,
    FeatureFinalized,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    ScramDecoyKeyCreated,
)
from barnabas.cluster.features import METADATA_VERSION, SECURITY_LEVEL, in_terms_of, level_of
from barnabas.cluster.image import EMPTY_IMAGE, BrokerState, MetadataImage
from barnabas.cluster.store import MemoryMetadataStore
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.controller import Controller
from barnabas.security.authn.credentials import DelegationToken
from barnabas.security.quotas.filters import QuotaEntity

BROKER = BrokerState(1, 1, rack="r1")


def without_racks(delta: Delta) -> Delta | None:
    """Simulate racks as a feature of level 2."""
    return BrokerStored(replace(delta.broker, rack=None)) if isinstance(delta, BrokerStored) else delta


def without_ids(delta: Delta) -> Delta | None:
    """Simulate producer ids as a feature of level 3, unsupported before."""
    return None if isinstance(delta, ProducerIdsAllocated) else delta


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cluster_features.LOWERED, 2, without_racks)
    monkeypatch.setitem(cluster_features.LOWERED, 3, without_ids)


def at(level: int) -> MetadataImage:
    return MetadataImage(features={METADATA_VERSION: level})


def test_a_cluster_from_before_the_feature_has_the_first_level() -> None:
    assert level_of(EMPTY_IMAGE) == 1


@pytest.mark.usefixtures("newer")
def test_unsupported_errors_are_mapped_for_older_brokers() -> None:
    assert in_terms_of(at(1), [BrokerStored(BROKER)]) == [BrokerStored(replace(BROKER, rack=None))]
    assert in_terms_of(at(2), [BrokerStored(BROKER)]) == [BrokerStored(BROKER)]


@pytest.mark.usefixtures("newer")
def test_values_without_an_equivalent_are_rejected() -> None:
    for level in (1, 2):
        with pytest.raises(KafkaError, match=r"barnabas\.metadata\.version=3") as caught:
            in_terms_of(at(level), [ProducerIdsAllocated(5)])
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert in_terms_of(at(3), [ProducerIdsAllocated(5)]) == [ProducerIdsAllocated(5)]


@pytest.mark.usefixtures("newer")
def test_controller_knows_only_its_written_entries() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        controller = Controller(store, 1)
        await controller.start()
        for level in (None, 2):
            if level is not None:
                await controller.submit(lambda image: ([FeatureFinalized(METADATA_VERSION, 2)], None))
            await controller.submit(lambda image: ([BrokerStored(BROKER)], None))
            assert controller.image.brokers[1].rack == (None if level is None else "r1")
            assert (await store.load()).brokers == controller.image.brokers

    asyncio.run(main())


TOKEN = DelegationToken("id", "User:alice", "User:alice", (), 1, 2, 3)


@pytest.mark.parametrize(
    "delta",
    [
        AclsChanged(),
        ScramCredentialChanged("alice", 1, None),
        ScramDecoyKeyCreated(b"key"),
        DelegationTokenStored(TOKEN),
        DelegationTokenRemoved("id"),
        ClientQuotasChanged(QuotaEntity(user="alice"), {"request_percentage": 50.0}),
    ],
    ids=lambda delta: type(delta).__name__,
)
def test_security_features_are_rejected_until_every_broker_supports_them(delta: Delta) -> None:
    for level in range(1, SECURITY_LEVEL):
        with pytest.raises(KafkaError, match="barnabas cluster upgrade") as caught:
            in_terms_of(at(level), [FeatureFinalized("other", 1), delta])
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert f"{METADATA_VERSION}={SECURITY_LEVEL}" in caught.value.message
    assert in_terms_of(at(SECURITY_LEVEL), [delta]) == [delta]
