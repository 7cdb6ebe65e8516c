"""The operations that a client may do, as the bit fields that Metadata and DescribeCluster carry (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

NOT_ASKED_FOR = -0x80000000
"""What stands in a response when the client did not ask for its operations."""


class Operation(IntEnum):
    """What can be allowed; Kafka's own numbers (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def bit_field(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


_OF_BOTH = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
# Without an authorizer everybody may do everything that can be done with a resource of the kind.
ALL_OF_TOPIC = bit_field((*_OF_BOTH, Operation.READ, Operation.WRITE, Operation.DELETE))
ALL_OF_GROUP = bit_field(
    (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
)
ALL_OF_CLUSTER = bit_field((*_OF_BOTH, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE))
