"""What a console itself must be allowed to do, so that it can show how a cluster stands."""

from __future__ import annotations

from barnabas.client.status import STATUS_TOPIC
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.security.acls import AclBinding
from barnabas.security.authorizer import CLUSTER_NAME, Operation, ResourceType

LITERAL, ALLOW, EVERYWHERE, ALL = 3, 3, "*", "*"

_NEEDED = {
    (ResourceType.CLUSTER, CLUSTER_NAME): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, ALL): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, ALL): (Operation.DESCRIBE,),
    (ResourceType.TRANSACTIONAL_ID, ALL): (Operation.DESCRIBE,),
    (ResourceType.TOPIC, STATUS_TOPIC): (Operation.READ,),
    (ResourceType.TOPIC, CONSUMER_OFFSETS): (Operation.READ,),  # why groups were rebalanced
}


def needed_acls(user: str) -> list[AclBinding]:
    return [
        AclBinding(kind, name, LITERAL, f"User:{user}", EVERYWHERE, operation, ALLOW)
        for (kind, name), operations in _NEEDED.items()
        for operation in operations
    ]
