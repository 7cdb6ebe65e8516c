from __future__ import annotations

import asyncio

import pytest

from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.services.console.sampling.broker_health import HealthReader, parse_health, reachable
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
def test_metrics_are_asked_for_at_the_address_of_the_broker_and_nowhere_else(
    listen: str, host: str, found: Address | None
) -> None:
    assert reachable(listen, host) == found


def test_a_page_without_these_metrics_says_nothing() -> None:
    assert parse_health(b"HTTP/1.1 200 OK\r\n\r\nup 1\n") == (None, None)


def test_a_broker_that_serves_metrics_says_how_busy_it_is() -> None:
    async def read(bootstrap: str) -> tuple[float | None, float | None]:
        async with Client(bootstrap) as client:
            metadata = await client.refresh([])
            (health,) = (await HealthReader(client).read(metadata.brokers)).values()
            return health

    with EmbeddedBroker(settings={"barnabas.metrics.listen": f"127.0.0.1:{free_port()}"}) as broker:
        broker.create_topic(partitions=1)
        busy, _ = asyncio.run(read(broker.bootstrap_servers))

    assert busy is not None
    assert 0 <= busy <= 100
