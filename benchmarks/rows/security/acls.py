"""Cost of 10,000 ACLs for a client that some of them apply to: produce latency with and without them."""

from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from benchmarks.rows.security.unchanged import unchanged_latency
from benchmarks.session import Session, admin_client
from benchmarks.subjects.brokers import Broker

_COUNT, _PER_REQUEST = 10_000, 1_000


def create_acls(session: Session, broker: Broker) -> None:
    """Create rules for a hundred users on the topics of 97 teams, and one for the measured clients."""
    admin = admin_client(broker)
    rules = [_rule("*", ResourcePatternType.LITERAL, "User:ANONYMOUS", AclOperation.ALL)]
    for number in range(session.scaled(_COUNT)):
        pattern = ResourcePatternType.PREFIXED if number % 3 == 0 else ResourcePatternType.LITERAL
        name = f"team-{number % 97}.topic-{number}"
        rules.append(_rule(name, pattern, f"User:user-{number % 100}", AclOperation.READ))
    for start in range(0, len(rules), _PER_REQUEST):
        for future in admin.create_acls(rules[start : start + _PER_REQUEST]).values():
            future.result(60)


def _rule(name: str, pattern: ResourcePatternType, user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, user, "*", operation, AclPermissionType.ALLOW)


ROWS = (unchanged_latency("acls", "acls", "10,000 ACLs", create_acls),)
