"""What a mirror's principal needs on both sides: refused without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barnabas.client.access.acls import create_acls, delete_acls, describe_acls
from barnabas.client.mirrors.store import State
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.broker.security.test_acls_decide import EVERYBODY, STANDARD, change
from tests.services.mirror.mirror_process import MirrorThread, ask, ends, until
from tests.services.mirror.test_following import settings
from tests.services.mirror.test_producing import produce

Op, Kind = Operation, ResourceType


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"authorizer.class.name": STANDARD, "super.users": "User:admin"}) as running:
        yield running


def allow(kind: ResourceType, name: str, *operations: Operation) -> list[AclBinding]:
    pattern = PatternType.PREFIXED if name.endswith("_") else PatternType.LITERAL
    return [AclBinding(kind, name, pattern, EVERYBODY, "*", each, Permission.ALLOW) for each in operations]


OF_SOURCE = [
    *allow(Kind.TOPIC, "*", Op.READ, Op.DESCRIBE, Op.DESCRIBE_CONFIGS),
    *allow(Kind.GROUP, "*", Op.DESCRIBE),
    *allow(Kind.CLUSTER, "kafka-cluster", Op.DESCRIBE),
]
OF_TARGET = [
    *allow(Kind.CLUSTER, "kafka-cluster", Op.ALTER, Op.DESCRIBE),
    *allow(Kind.TOPIC, "*", Op.READ, Op.WRITE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    *allow(Kind.TOPIC, "__barnabas_", Op.CREATE),
    *allow(Kind.GROUP, "*", Op.READ, Op.DESCRIBE),
]


def test_a_mirror_works_with_the_rights_of_the_documentation_and_is_refused_without_them(
    source: EmbeddedBroker, guarded: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, theirs, ours = new_name(), source.bootstrap_servers, guarded.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(theirs, name, ["one"])
    without = tuple(acl for acl in OF_TARGET if acl.operation != Op.ALTER)
    change(guarded, *without)
    mirror = MirrorThread(theirs, ours, settings(name))
    mirror.__enter__()
    assert mirror.ended is not None
    with pytest.raises(KafkaError) as refused:
        mirror.ended.result(60)
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    change(guarded, *OF_TARGET)
    with MirrorThread(theirs, ours, settings(name)):
        until(lambda: ends(ours, name) == [1])
    writing = tuple(acl for acl in OF_TARGET if acl.operation == Op.WRITE and acl.resource_type == Kind.TOPIC)
    books = allow(Kind.TOPIC, "__barnabas_", Op.WRITE)
    change(guarded, *books, removed=writing)
    produce(theirs, name, ["two"])
    unwritten = MirrorThread(theirs, ours, settings(name))
    unwritten.__enter__()
    try:
        until(lambda: name in unwritten.links[0].topics.notices.refused or unwritten.partitions(State.FAILED))
    finally:
        unwritten.__exit__(ValueError, ValueError(), None)
    assert ends(ours, name) == [1]
    change(guarded, removed=(*OF_TARGET, *books))


def test_a_source_that_forbids_reading_is_said_so(
    guarded: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, theirs, ours = new_name(), guarded.bootstrap_servers, target.bootstrap_servers
    creating = allow(Kind.TOPIC, name, Op.CREATE, Op.WRITE)
    change(guarded, *OF_SOURCE, *creating)
    guarded.create_topic(name, partitions=1)
    produce(theirs, name, ["one"])
    with MirrorThread(theirs, ours, settings(name)):
        until(lambda: ends(ours, name) == [1])
    reading = tuple(acl for acl in OF_SOURCE if acl.operation == Op.READ)
    change(guarded, removed=reading)
    produce(theirs, name, ["two"])
    with MirrorThread(theirs, ours, settings(name)) as mirror:
        assert "TOPIC_AUTHORIZATION_FAILED" in mirror.failed()
    change(guarded, removed=(*OF_SOURCE, *creating))


def test_acls_of_mirrored_topics_follow_and_others_are_left_alone(
    guarded: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, theirs = new_name(), guarded.bootstrap_servers
    admin = allow(Kind.CLUSTER, "kafka-cluster", Op.ALTER)
    creating = allow(Kind.TOPIC, name, Op.CREATE)
    change(guarded, *OF_SOURCE, *admin, *creating)
    guarded.create_topic(name, partitions=1)

    def acl(topic: str, user: str, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
        return AclBinding(Kind.TOPIC, topic, pattern, f"User:{user}", "*", Op.READ, Permission.ALLOW)

    exact, prefixed, other = acl(name, "a"), acl(name[:4], "b", PatternType.PREFIXED), acl("elsewhere", "c")
    ask(theirs, lambda client: create_acls(client, [exact, prefixed, other]))
    with EmbeddedBroker({"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}) as ours:
        own = acl(f"m.{name}", "own")
        ask(ours.bootstrap_servers, lambda client: create_acls(client, [own]))

        def users() -> set[str]:
            found = ask(ours.bootstrap_servers, lambda client: describe_acls(client, AclFilter()))
            return {
                each.principal for each in found if each.name == f"m.{name}" and each.operation == Op.READ
            }

        with MirrorThread(theirs, ours.bootstrap_servers, settings(name, rename="m.{topic}")):
            until(lambda: {"User:a", "User:b", "User:own"} <= users())
            assert "User:c" not in users()
            ask(theirs, lambda client: delete_acls(client, [AclFilter(principal="User:a")]))
            until(lambda: "User:a" not in users())
            assert {"User:b", "User:own"} <= users()
    change(guarded, removed=(*OF_SOURCE, *admin, *creating))
