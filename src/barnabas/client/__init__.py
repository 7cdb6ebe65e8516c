"""Asyncio client for Kafka brokers, used by the command line, mirrors, pipelines and services.

`Client` routes requests to brokers; `Producer`, `Consumer` and `ShareConsumer` build on it. `parse_security` reads TLS
and SASL settings by Kafka's names; `SchemaClient` talks to a schema registry.

async with Client("127.0.0.1:9092") as client:
    async with Producer(client) as producer:
        await producer.send("events", b"hello")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.addresses import Address, parse_address, parse_addresses
    from barnabas.client.cluster import TOTAL_TIMEOUT, Client, Closing, raise_for
    from barnabas.client.compacted_table import CompactedTable, create_if_missing
    from barnabas.client.connection import REQUEST_TIMEOUT, BrokerConnection
    from barnabas.client.consumer import Consumer
    from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
    from barnabas.client.metadata import BrokerMetadata, PartitionMetadata, TopicMetadata
    from barnabas.client.opening import ConsumedRecord, check_batch
    from barnabas.client.producer import Producer, ProducerSettings
    from barnabas.client.range_fetcher import BatchSource, FetchedRange, RangeFetcher, StalledError
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "addresses": "Address parse_address parse_addresses",
            "cluster": "Client Closing TOTAL_TIMEOUT raise_for",
            "compacted_table": "CompactedTable create_if_missing",
            "connection": "BrokerConnection REQUEST_TIMEOUT",
            "consumer": "Consumer",
            "fetching": "FetchSettings FetchedPartition fetch",
            "metadata": "BrokerMetadata PartitionMetadata TopicMetadata",
            "opening": "ConsumedRecord check_batch",
            "producer": "Producer ProducerSettings",
            "range_fetcher": "BatchSource FetchedRange RangeFetcher StalledError",
        },
    )

__all__ = [
    "REQUEST_TIMEOUT",
    "TOTAL_TIMEOUT",
    "Address",
    "BatchSource",
    "BrokerConnection",
    "BrokerMetadata",
    "Client",
    "Closing",
    "CompactedTable",
    "ConsumedRecord",
    "Consumer",
    "FetchSettings",
    "FetchedPartition",
    "FetchedRange",
    "PartitionMetadata",
    "Producer",
    "ProducerSettings",
    "RangeFetcher",
    "StalledError",
    "TopicMetadata",
    "check_batch",
    "create_if_missing",
    "fetch",
    "parse_address",
    "parse_addresses",
    "raise_for",
]
