"""ACLs required by the registry's own principal; rights of clients are in `api/routes`."""

from __future__ import annotations

from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.security.authz.acls import AclBinding, allowing
from barnabas.services.registry.leadership import GROUP
from barnabas.services.registry.topic import TOPIC
from barnabas.services.registry.writer import TRANSACTIONAL_ID

_NEEDED = {
    (ResourceType.TOPIC, TOPIC): (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
    (ResourceType.GROUP, GROUP): (Operation.READ, Operation.DESCRIBE),
    (ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID): (Operation.WRITE, Operation.DESCRIBE),
    # For the check of other group members' principals, and for the authorization of certificates.
    (ResourceType.CLUSTER, CLUSTER_NAME): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
}


def needed_acls(user: str) -> list[AclBinding]:
    return allowing(user, _NEEDED)
