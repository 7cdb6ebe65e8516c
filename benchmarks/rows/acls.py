"""What 10,000 ACLs cost a client that has some of them: the latency of produce requests, with them and without."""

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from benchmarks.model import Row, Target
from benchmarks.rows import latency
from benchmarks.rows.common import subject
from benchmarks.session import Session

WITHOUT, WITH = "without", "10,000 ACLs"
_BROKER = "barnabas-acls"
_COUNT, _PER_REQUEST = 10_000, 1_000
_SLOWER = 1.1


def create_acls(session: Session) -> None:
    """Rules for a hundred users on as many teams' topics, and one for everybody who is measured."""
    admin = AdminClient({"bootstrap.servers": session.broker(_BROKER).bootstrap, "log_level": 3})
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


ROWS = (
    Row(
        "acls",
        "produce latency at 5,000/s with 10,000 ACLs, compared with none",
        (subject(WITHOUT, "barnabas", latency.produce), subject(WITH, _BROKER, latency.produce)),
        (latency.P50, latency.P99),
        (Target("p99_us", "<=", _SLOWER, relative_to=WITHOUT, subject=WITH, or_within_spread=True),),
        prepare=create_acls,
    ),
)
