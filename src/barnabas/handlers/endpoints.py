"""Broker endpoints for a client: those of the listener that the client uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.cluster.image import MetadataImage
from barnabas.handlers.needs import IsMember
from barnabas.network import Connection
from barnabas.security.authz import Operation
from barnabas.security.authz.acls import OF_CLUSTER, OF_GROUP, OF_TOPIC

# -- Authorized operations, as the bit fields of Metadata and DescribeCluster (KIP-430)

NOT_ASKED_FOR = -0x80000000
"""Value of the field when the client did not request its operations."""


def bit_field(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


# Without an authorizer every client may do everything that the resource type supports.
ALL_OF_TOPIC = bit_field(OF_TOPIC)
ALL_OF_GROUP = bit_field(OF_GROUP)
ALL_OF_CLUSTER = bit_field(OF_CLUSTER)


class BrokerEndpoint(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None


def endpoints_for(broker: IsMember, connection: Connection) -> list[BrokerEndpoint]:
    """Return every live broker with the endpoint for this connection."""
    listener = connection.listener
    own = broker.image.brokers.get(broker.node_id)
    found = []
    for known in broker.image.brokers.values():
        if known.id == broker.node_id:
            if broker.is_fenced:
                continue  # this broker's image may be stale: clients must find the leaders elsewhere
            found.append(BrokerEndpoint(known.id, *listener.advertised(connection), known.rack))
        elif not known.fenced:
            others = _endpoints_of(broker.image, known.id, listener.name)
            if (
                own is not None
                and own.node >= 0
                and known.node == own.node
                and not listener.advertised_address
            ):
                # Another process of this node is reachable at the same address.
                host, _ = listener.advertised(connection)
                others = (each._replace(host=host) for each in others)
            found += others
    return found


def fenced_endpoints(image: MetadataImage, listener: str) -> Iterator[BrokerEndpoint]:
    for known in image.brokers.values():
        if known.fenced:
            yield from _endpoints_of(image, known.id, listener)


def _endpoints_of(image: MetadataImage, broker_id: int, listener: str) -> Iterator[BrokerEndpoint]:
    known = image.brokers[broker_id]
    for endpoint in known.endpoints:
        if endpoint.name == listener:
            yield BrokerEndpoint(broker_id, endpoint.host, endpoint.port, known.rack)
