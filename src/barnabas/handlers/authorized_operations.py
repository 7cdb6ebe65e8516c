"""The operations that a client may do, as the bit fields that Metadata and DescribeCluster carry (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.security.authz.acls import OF_CLUSTER, OF_GROUP, OF_TOPIC
from barnabas.security.authz.authorizer import Operation

NOT_ASKED_FOR = -0x80000000
"""What stands in a response when the client did not ask for its operations."""


def bit_field(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


# Without an authorizer everybody may do everything that can be done with a resource of the kind.
ALL_OF_TOPIC = bit_field(OF_TOPIC)
ALL_OF_GROUP = bit_field(OF_GROUP)
ALL_OF_CLUSTER = bit_field(OF_CLUSTER)
