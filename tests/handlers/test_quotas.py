"""Quotas of the cluster's metadata: charged routes, and throttle times in every API."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages import metadata, topics
from barnabas.security.authz.standard_authorizer import Policy, StandardAuthorizer
from barnabas.security.context import RequestContext
from barnabas.security.quotas import NoQuotas, QuotaKind, Usage
from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.testing import EmbeddedBroker
from tests.handlers.questions import OTHER, QUESTIONS, TOPIC, fetched, produced
from tests.support.brokers import quotas, set_quotas
from tests.support.clients import RawConnection
from tests.support.server import brokers_let_in

SERVED = {ApiKey(handler.request_class.api_key): handler for handler in HANDLERS}
RAW = QuotaEntity(None, "raw")


class AlwaysExceeded(NoQuotas):
    kinds = frozenset(QuotaKind)

    def charge(self, context: RequestContext, usage: Usage) -> int:
        return 1

    charge_fetch = charge


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic(TOPIC)
        running.create_topic(OTHER)
        yield running


@pytest.mark.parametrize("key", QUESTIONS, ids=lambda key: key.name)
def test_every_version_of_every_api_returns_throttle_time_or_has_none(
    broker: EmbeddedBroker, key: ApiKey
) -> None:
    make, _ = QUESTIONS[key]
    handler = SERVED[key]
    broker.broker.dispatcher.use(RequestSecurity(StandardAuthorizer(Policy()), AlwaysExceeded()))
    try:
        with brokers_let_in(broker), RawConnection(broker.port) as connection:
            for version in range(handler.min_version, handler.max_version + 1):
                answer: Any = connection.ask(make(broker.broker, version), version)
                assert getattr(answer, "throttle_time_ms", 0) in (0, 1)
            if any(field.name == "throttle_time_ms" for field in answer.FIELDS):
                assert answer.throttle_time_ms == 1
    finally:
        broker.broker.dispatcher.use(OPEN)


def stages_of(broker: EmbeddedBroker, key: ApiKey) -> bool:
    """Has the route of an API stages around its handler?"""
    handler = SERVED[key]
    with RawConnection(broker.port) as connection:
        connection.ask(QUESTIONS[key][0](broker.broker, handler.max_version), handler.max_version)
    route = broker.broker.dispatcher.route_of(key, handler.max_version)
    assert route is not None
    return route.function is not handler.function


def test_routes_are_counted_only_with_a_quota(
    broker: EmbeddedBroker,
) -> None:
    assert not stages_of(broker, ApiKey.PRODUCE)
    with quotas(broker, RAW, producer_byte_rate=1e9):
        assert stages_of(broker, ApiKey.PRODUCE)
        assert not stages_of(broker, ApiKey.FETCH)
        with quotas(broker, QuotaEntity("ANONYMOUS"), consumer_byte_rate=1e9):
            assert stages_of(broker, ApiKey.FETCH)
            assert not stages_of(broker, ApiKey.METADATA)
            with quotas(broker, QuotaEntity(DEFAULT), request_percentage=1e6):
                assert stages_of(broker, ApiKey.METADATA)
    with quotas(broker, QuotaEntity(ip=DEFAULT), connection_creation_rate=1e6):
        assert not stages_of(broker, ApiKey.PRODUCE)
    assert not stages_of(broker, ApiKey.FETCH)


def test_a_producer_and_a_consumer_above_their_quotas_have_to_wait(broker: EmbeddedBroker) -> None:
    metrics = broker.broker.metrics
    with quotas(broker, RAW, producer_byte_rate=10.0), RawConnection(broker.port) as connection:
        answer: Any = connection.ask(produced(broker.broker, 12), 12)
        assert 1000 < answer.throttle_time_ms < 20_000
        assert metrics.snapshot()["kafka_server_quota_throttle_time{resource=Produce,clientId=raw}"] > 1000
        assert metrics.snapshot()["kafka_server_quota_byte_rate{resource=Produce,clientId=raw}"] > 10
    with quotas(broker, RAW, consumer_byte_rate=10.0), RawConnection(broker.port) as connection:
        first: Any = connection.ask(fetched(broker.broker, 12), 12)
        assert first.responses
        second: Any = connection.ask(fetched(broker.broker, 12), 12)
        assert second.throttle_time_ms > 0
        assert not second.responses


def test_a_quota_that_is_raised_counts_from_the_next_request_on(broker: EmbeddedBroker) -> None:
    with quotas(broker, RAW, producer_byte_rate=10.0):
        with RawConnection(broker.port) as connection:
            connection.ask(produced(broker.broker, 12), 12)
        set_quotas(broker, RAW, producer_byte_rate=1e9)
        with RawConnection(broker.port) as connection:
            answer: Any = connection.ask(produced(broker.broker, 12), 12)
            assert answer.throttle_time_ms == 0


def test_a_client_that_takes_more_time_of_the_loop_than_it_may_waits_a_window_at_most(
    broker: EmbeddedBroker,
) -> None:
    with quotas(broker, RAW, request_percentage=0.0001), RawConnection(broker.port) as connection:
        began = time.monotonic()
        for _ in range(2):
            answer: Any = connection.ask(metadata.MetadataRequest(), 9)
            assert answer.throttle_time_ms == 1000
        assert time.monotonic() - began > 0.9


def test_topics_beyond_the_mutation_rate_are_refused_and_existing_ones_are_not_counted(
    broker: EmbeddedBroker,
) -> None:
    # Eleven windows of one mutation a second may be used at once, and overdrawn once.
    with quotas(broker, RAW, controller_mutation_rate=1.0), RawConnection(broker.port) as connection:
        names = [TOPIC] * 1 + [f"mutation-{number}" for number in range(3)]
        wanted = [topics.CreatableTopic(name, 6, 1) for name in names]
        answer: Any = connection.ask(topics.CreateTopicsRequest(wanted, 10_000), 6)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        assert codes[TOPIC] == ErrorCode.TOPIC_ALREADY_EXISTS
        assert codes["mutation-0"] == codes["mutation-1"] == ErrorCode.NONE
        assert codes["mutation-2"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 0 < answer.throttle_time_ms <= 1000


def test_auto_created_topics_count_too(broker: EmbeddedBroker) -> None:
    with quotas(broker, RAW, controller_mutation_rate=0.5), RawConnection(broker.port) as connection:
        codes = set()
        for number in range(20):
            wanted = [metadata.MetadataRequestTopic(name=f"by-asking-{number}")]
            answer: Any = connection.ask(metadata.MetadataRequest(wanted), 9)
            codes |= {topic.error_code for topic in answer.topics}
            if ErrorCode.THROTTLING_QUOTA_EXCEEDED in codes:
                break
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED in codes


def test_an_address_that_connects_too_often_is_kept_away_for_a_while(broker: EmbeddedBroker) -> None:
    with quotas(broker, QuotaEntity(ip="127.0.0.1"), connection_creation_rate=1.0):
        connections = [RawConnection(broker.port) for _ in range(30)]
        served = 0
        for connection in connections:
            with connection, suppress(AssertionError, OSError):
                served += connection.is_served()
        assert 10 <= served < 25
    values = broker.broker.metrics.snapshot()
    assert values["barnabas_connections_throttled_total{listener=PLAINTEXT,limit=ip}"] >= 5
    with RawConnection(broker.port) as connection:
        assert connection.is_served()
