"""Where a client reaches the brokers: by the endpoints of the listener that it uses itself."""

from __future__ import annotations

from collections.abc import Iterable
from barnabas.security.authz.acls import OF_CLUSTER, OF_GROUP, OF_TOPIC
from barnabas.security.authz.authorizer import Operation

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.cluster.image import MetadataImage
from barnabas.handlers.needs import IsMember
from barnabas.network.connection import Connection


# -- The operations that a client may do, as the bit fields that Metadata and DescribeCluster carry (KIP-430) 

NOT_ASKED_FOR = -0x80000000
"""What stands in a response when the client did not ask for its operations."""


def bit_field(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


# Without an authorizer everybody may do everything that can be done with a resource of the kind.
ALL_OF_TOPIC = bit_field(OF_TOPIC)
ALL_OF_GROUP = bit_field(OF_GROUP)
ALL_OF_CLUSTER = bit_field(OF_CLUSTER)




class BrokerEndpoint(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None


def endpoints_for(broker: IsMember, connection: Connection) -> list[BrokerEndpoint]:
    """Every broker in service, as the client behind this connection reaches it."""
    listener = connection.listener
    found = []
    for known in broker.image.brokers.values():
        if known.id == broker.node_id:
            if broker.is_fenced:
                continue  # our image may be old: clients must look for the leaders elsewhere
            found.append(BrokerEndpoint(known.id, *listener.advertised(connection), known.rack))
        elif not known.fenced:
            found += _endpoints_of(broker.image, known.id, listener.name)
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
