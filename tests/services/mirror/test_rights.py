"""Rights of a mirror's principal on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from barnabas.client.access.acls import create_acls, delete_acls, describe_acls
from barnabas.client.cluster import Client
from barnabas.client.mirrors.control import failover, mirrors_of
from barnabas.client.mirrors.store import ACLS, LinkStatus, MirrorStore, key_of
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.broker.security.test_acls_decide import EVERYBODY, STANDARD, change
from tests.services.mirror.test_following import settings
from tests.services.mirror.test_producing import produce
from tests.support.mirrors.process import MirrorThread, ask, ends, wait_for

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
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, guarded.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, ["one"])
    without = tuple(acl for acl in OF_TARGET if acl.operation != Op.ALTER)
    change(guarded, *without)
    mirror = MirrorThread(source_servers, target_servers, settings(name))
    mirror.__enter__()
    assert mirror.ended is not None
    with pytest.raises(KafkaError) as refused:
        mirror.ended.result(60)
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    change(guarded, *OF_TARGET)
    with MirrorThread(source_servers, target_servers, settings(name)):
        wait_for(lambda: ends(target_servers, name) == [1])
    writing = tuple(acl for acl in OF_TARGET if acl.operation == Op.WRITE and acl.resource_type == Kind.TOPIC)
    books = allow(Kind.TOPIC, "__barnabas_", Op.WRITE)
    change(guarded, *books, removed=writing)
    produce(source_servers, name, ["two"])
    unwritten = MirrorThread(source_servers, target_servers, settings(name))
    unwritten.__enter__()
    try:
        wait_for(
            lambda: (
                name in unwritten.links[0].topics.notices.refused or unwritten.partitions(LinkStatus.FAILED)
            )
        )
    finally:
        unwritten.__exit__(ValueError, ValueError(), None)
    assert ends(target_servers, name) == [1]
    change(guarded, removed=(*OF_TARGET, *books))


def test_source_without_read_access_is_reported(
    guarded: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), guarded.bootstrap_servers, target.bootstrap_servers
    creating = allow(Kind.TOPIC, name, Op.CREATE, Op.WRITE)
    change(guarded, *OF_SOURCE, *creating)
    guarded.create_topic(name, partitions=1)
    produce(source_servers, name, ["one"])
    with MirrorThread(source_servers, target_servers, settings(name)):
        wait_for(lambda: ends(target_servers, name) == [1])
    reading = tuple(acl for acl in OF_SOURCE if acl.operation == Op.READ)
    change(guarded, removed=reading)
    produce(source_servers, name, ["two"])
    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        assert "TOPIC_AUTHORIZATION_FAILED" in mirror.failed()
    change(guarded, removed=(*OF_SOURCE, *creating))


def test_acls_of_mirrored_topics_follow_and_others_are_left_alone(
    guarded: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers = new_name(), guarded.bootstrap_servers
    admin = allow(Kind.CLUSTER, "kafka-cluster", Op.ALTER)
    creating = allow(Kind.TOPIC, name, Op.CREATE)
    change(guarded, *OF_SOURCE, *admin, *creating)
    guarded.create_topic(name, partitions=1)

    def acl(topic: str, user: str, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
        return AclBinding(Kind.TOPIC, topic, pattern, f"User:{user}", "*", Op.READ, Permission.ALLOW)

    exact, prefixed, other = acl(name, "a"), acl(name[:4], "b", PatternType.PREFIXED), acl("elsewhere", "c")
    ask(source_servers, lambda client: create_acls(client, [exact, prefixed, other]))
    with EmbeddedBroker(
        {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    ) as target_servers:
        own = acl(f"m.{name}", "own")
        ask(target_servers.bootstrap_servers, lambda client: create_acls(client, [own]))

        def users() -> set[str]:
            found = ask(target_servers.bootstrap_servers, lambda client: describe_acls(client, AclFilter()))
            return {
                each.principal for each in found if each.name == f"m.{name}" and each.operation == Op.READ
            }

        with MirrorThread(
            source_servers, target_servers.bootstrap_servers, settings(name, rename="m.{topic}")
        ):
            wait_for(lambda: {"User:a", "User:b", "User:own"} <= users())
            assert "User:c" not in users()
            ask(source_servers, lambda client: delete_acls(client, [AclFilter(principal="User:a")]))
            wait_for(lambda: "User:a" not in users())
            assert {"User:b", "User:own"} <= users()
    change(guarded, removed=(*OF_SOURCE, *admin, *creating))


def binding(topic: str, user: str, *, prefixed: bool = False, denied: bool = False) -> AclBinding:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = Permission.DENY if denied else Permission.ALLOW
    return AclBinding(Kind.TOPIC, topic, pattern, f"User:{user}", "*", Op.READ, permission)


@pytest.mark.parametrize("rest", [None, b"[[1,2]]", b"{"], ids=["acls", "another shape", "not JSON"])
def test_acls_of_topics_that_are_not_mirrored_stay_unchanged(
    new_name: Callable[[], str], rest: bytes | None
) -> None:
    """Clients with write access to `__barnabas_mirror` must not select ACLs to delete, nor stop the mirror."""
    name, guards = new_name(), {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    precious = [
        binding("secrets", "mallory", denied=True),
        binding(name, "mallory", prefixed=True, denied=True),
        binding("*", "auditor"),
    ]
    with EmbeddedBroker(guards) as source, EmbeddedBroker(guards) as target:
        source_servers, target_servers = source.bootstrap_servers, target.bootstrap_servers
        source.create_topic(name, partitions=1)
        ask(source_servers, lambda client: create_acls(client, [binding(name, "a"), binding(name, "b")]))
        ask(target_servers, lambda client: create_acls(client, precious))

        async def forge(client: Client) -> None:
            store = MirrorStore(client, "src")
            await store.open()
            value = rest or msgspec.json.encode([*precious, binding(name, "gone")])
            await store.write([(key_of("src", ACLS), value)])

        def acls() -> set[AclBinding]:
            return set(ask(target_servers, lambda client: describe_acls(client, AclFilter())))

        ask(target_servers, forge)
        with MirrorThread(source_servers, target_servers, settings(name)):
            wait_for(lambda: {binding(name, "a"), binding(name, "b")} <= acls())
            ask(source_servers, lambda client: delete_acls(client, [AclFilter(principal="User:a")]))
            wait_for(lambda: binding(name, "a") not in acls())
            assert acls() == {*precious, binding(name, "b")}


def test_a_promoted_topic_keeps_its_acls(new_name: Callable[[], str]) -> None:
    name, guards = new_name(), {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    other = new_name()
    with EmbeddedBroker(guards) as source, EmbeddedBroker(guards) as target:
        source_servers, target_servers = source.bootstrap_servers, target.bootstrap_servers
        for each in (name, other):
            source.create_topic(each, partitions=1)
        ask(source_servers, lambda client: create_acls(client, [binding(name, "a"), binding(other, "a")]))

        def acls() -> set[AclBinding]:
            return set(ask(target_servers, lambda client: describe_acls(client, AclFilter())))

        async def promote(client: Client) -> None:
            await failover(client, await mirrors_of(client, "src", name))

        with MirrorThread(source_servers, target_servers, settings(f"{name}|{other}")) as mirror:
            wait_for(lambda: acls() == {binding(name, "a"), binding(other, "a")})
            ask(target_servers, promote)
            wait_for(lambda: mirror.partitions(LinkStatus.STOPPED))
            ask(source_servers, lambda client: create_acls(client, [binding(other, "b")]))
            ask(source_servers, lambda client: delete_acls(client, [AclFilter(principal="User:a")]))
            wait_for(lambda: binding(other, "b") in acls() and binding(other, "a") not in acls())
            assert binding(name, "a") in acls()
