from __future__ import annotations

import asyncio

import pytest

from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.common.types import TopicPartition
from barnabas.services.console.sampling.broker_health import (
    BrokerHealth,
    HealthReader,
    LossWindow,
    parse_health,
    reachable,
)
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port


@pytest.mark.parametrize(
    ("listen", "host", "found"),
    [
        ("127.0.0.1:9404", "127.0.0.1", Address("127.0.0.1", 9404)),
        (":9404", "localhost", Address("localhost", 9404)),
        ("0.0.0.0:9404", "kafka1", Address("kafka1", 9404)),
        ("[::]:9404", "kafka1", Address("kafka1", 9404)),
        ("127.0.0.1:9404", "kafka1", None),
        ("169.254.169.254:80", "kafka1", None),
        ("", "kafka1", None),
        ("kafka1:0", "kafka1", None),
        ("kafka1:x", "kafka1", None),
    ],
)
def test_metrics_are_requested_only_from_the_address_of_the_broker(
    listen: str, host: str, found: Address | None
) -> None:
    assert reachable(listen, host) == found


def test_page_without_these_metrics_is_empty() -> None:
    assert parse_health(b"HTTP/1.1 200 OK\r\n\r\nup 1\n") == BrokerHealth()


def test_page_has_the_values_that_alarms_need() -> None:
    page = b"""# HELP kafka_cluster_partition_underminisr x
kafka_cluster_partition_underminisr{topic="orders",partition="2"} 1
kafka_cluster_partition_underminisr{topic="orders",partition="3"} 0
barnabas_tls_certificate_expiry_seconds{listener="SSL"} 1800000000
barnabas_tls_certificate_expiry_seconds{listener="OTHER"} 1.7e9
barnabas_audit_events_lost_total 4
"""
    assert parse_health(page)[2:] == ((TopicPartition("orders", 2),), 1.7e9, 4.0)


def test_lost_events_are_reported_for_ten_minutes_and_not_those_from_before() -> None:
    window = LossWindow()
    responses = [
        window.recent(value, now) for value, now in ((5, 0), (5, 10), (8, 20), (2, 30), (2, 625), (2, 700))
    ]
    assert responses == [0, 0, 3, 5, 2, 0]


def test_broker_that_serves_metrics_reports_its_load() -> None:
    async def read(bootstrap: str) -> BrokerHealth:
        async with Client(bootstrap) as client:
            metadata = await client.refresh([])
            (health,) = (await HealthReader(client).read(metadata.brokers)).values()
            return health

    with EmbeddedBroker(settings={"barnabas.metrics.listen": f"127.0.0.1:{free_port()}"}) as broker:
        broker.create_topic(partitions=1)
        health = asyncio.run(read(broker.bootstrap_servers))

    busy = health.loop_busy
    assert (health.under_min_isr, health.certificate_expiry, health.audit_lost) == ((), None, 0)
    assert busy is not None
    assert 0 <= busy <= 100
