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
    from barnabas.client.addresses import Address as Address
    from barnabas.client.addresses import parse_address as parse_address
    from barnabas.client.addresses import parse_addresses as parse_addresses
    from barnabas.client.cluster import TOTAL_TIMEOUT as TOTAL_TIMEOUT
    from barnabas.client.cluster import AsyncClosable as AsyncClosable
    from barnabas.client.cluster import Client as Client
    from barnabas.client.cluster import raise_for as raise_for
    from barnabas.client.compacted_table import CompactedTable as CompactedTable
    from barnabas.client.compacted_table import create_if_missing as create_if_missing
    from barnabas.client.connection import REQUEST_TIMEOUT as REQUEST_TIMEOUT
    from barnabas.client.connection import BrokerConnection as BrokerConnection
    from barnabas.client.connector_requests import CONNECT_TOPIC as CONNECT_TOPIC
    from barnabas.client.connector_requests import ConnectorAction as ConnectorAction
    from barnabas.client.connector_requests import ConnectorRequest as ConnectorRequest
    from barnabas.client.connector_requests import ConnectorRequests as ConnectorRequests
    from barnabas.client.connector_requests import request_connector as request_connector
    from barnabas.client.consumer import Consumer as Consumer
    from barnabas.client.errors import RETRIABLE as RETRIABLE
    from barnabas.client.errors import BufferFullError as BufferFullError
    from barnabas.client.errors import CannotConnectError as CannotConnectError
    from barnabas.client.errors import ClientError as ClientError
    from barnabas.client.errors import SecurityError as SecurityError
    from barnabas.client.errors import UnsupportedApiError as UnsupportedApiError
    from barnabas.client.errors import error_code as error_code
    from barnabas.client.errors import is_retriable as is_retriable
    from barnabas.client.fetching import FetchedPartition as FetchedPartition
    from barnabas.client.fetching import FetchSettings as FetchSettings
    from barnabas.client.fetching import fetch as fetch
    from barnabas.client.groups import CommittedOffset as CommittedOffset
    from barnabas.client.metadata import BrokerMetadata as BrokerMetadata
    from barnabas.client.metadata import PartitionMetadata as PartitionMetadata
    from barnabas.client.metadata import TopicMetadata as TopicMetadata
    from barnabas.client.opening import ConsumedRecord as ConsumedRecord
    from barnabas.client.opening import check_batch as check_batch
    from barnabas.client.producer import Producer as Producer
    from barnabas.client.producer import ProducerSettings as ProducerSettings
    from barnabas.client.producing.transaction_manager import GroupMetadata as GroupMetadata
    from barnabas.client.producing.transaction_manager import ProducerFencedError as ProducerFencedError
    from barnabas.client.producing.transaction_manager import TransactionError as TransactionError
    from barnabas.client.range_fetcher import BatchSource as BatchSource
    from barnabas.client.range_fetcher import FetchedRange as FetchedRange
    from barnabas.client.range_fetcher import RangeFetcher as RangeFetcher
    from barnabas.client.range_fetcher import StalledError as StalledError
    from barnabas.client.tiers import PartitionTiers as PartitionTiers
    from barnabas.client.tiers import ask_brokers_if_allowed as ask_brokers_if_allowed
    from barnabas.client.tiers import describe_tiers as describe_tiers
    from barnabas.client.tiers import find_tiered as find_tiered
    from barnabas.client.tiers import tiered_topics as tiered_topics
else:
    __getattr__ = lazy_exports(__name__)
