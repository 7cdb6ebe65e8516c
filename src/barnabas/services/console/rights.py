"""What a console itself must be allowed to do, so that it can show how a cluster stands."""

from __future__ import annotations

from barnabas.client.status import STATUS_TOPIC
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.security.authz.acls import WILDCARD, AclBinding, allowing
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType

_NEEDED = {
    (ResourceType.CLUSTER, CLUSTER_NAME): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, WILDCARD): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, WILDCARD): (Operation.DESCRIBE,),
    (ResourceType.TRANSACTIONAL_ID, WILDCARD): (Operation.DESCRIBE,),
    (ResourceType.TOPIC, STATUS_TOPIC): (Operation.READ,),
    (ResourceType.TOPIC, CONSUMER_OFFSETS): (Operation.READ,),  # why groups were rebalanced
}


def needed_acls(user: str) -> list[AclBinding]:
    return allowing(user, _NEEDED)
