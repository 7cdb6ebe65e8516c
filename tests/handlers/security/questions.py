"""Requests about ACLs, quotas, SCRAM users and tokens, for Apache Kafka and Barnabas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from barnabas.protocol.schema import Message

Question = tuple[Message, int]

TOPIC, GROUP, CLUSTER, TRANSACTION, TOKEN, USER = 2, 3, 4, 5, 6, 7
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, WRITE, ALTER = 3, 4, 7
DENY, ALLOW = 2, 3


def rule(name: str = "orders", /, **changed: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**fields | changed)


def selecting(**changed: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return fields | changed


FILTERS = [
    selecting(),
    selecting(resource_type_filter=TOPIC),
    selecting(resource_name_filter="orders"),
    selecting(resource_name_filter="orders-eu", pattern_type_filter=MATCH),
    selecting(resource_name_filter="orders", pattern_type_filter=MATCH, resource_type_filter=TOPIC),
    selecting(resource_name_filter="orders", pattern_type_filter=PREFIXED),
    selecting(resource_name_filter="*", pattern_type_filter=LITERAL),
    selecting(resource_name_filter="*", pattern_type_filter=MATCH),
    selecting(resource_name_filter="", pattern_type_filter=MATCH),
    selecting(pattern_type_filter=PREFIXED),
    selecting(principal_filter="User:alice"),
    selecting(principal_filter="alice"),
    selecting(host_filter="10.0.0.1"),
    selecting(host_filter="10.0.0.0/8"),
    selecting(host_filter="*"),
    selecting(operation=READ),
    selecting(operation=2),
    selecting(permission_type=DENY),
    selecting(resource_type_filter=99),
    selecting(operation=99),
]


def acls() -> Iterator[Question]:
    for version in (1, 2, 3):
        yield CreateAclsRequest([rule(f"v{version}")]), version
    yield (
        CreateAclsRequest(
            [
                rule(),
                rule(),
                rule(operation=WRITE, permission_type=DENY, host="10.0.0.1"),
                rule(resource_pattern_type=PREFIXED),
                rule("*"),
                rule("kafka-cluster", resource_type=CLUSTER, operation=ALTER),
                rule("User:bob", resource_type=USER, operation=13),
                rule("t-1", resource_type=TRANSACTION, operation=15),
                rule("a-token", resource_type=TOKEN, operation=8, principal="Group:them"),
                rule("g", resource_type=GROUP, host="10.0.0.0/8"),
                rule(operation=2, principal="User:*"),
            ]
        ),
        3,
    )
    # ANY and MATCH are left out: Kafka answers with UNKNOWN_SERVER_ERROR.
    wrong = [
        rule(""),
        rule("other", resource_type=CLUSTER),
        rule(principal="alice"),
        rule(principal=""),
        rule(principal=":"),
        rule(resource_type=99),
        rule(resource_pattern_type=99),
        rule(operation=99),
        rule(permission_type=99),
        rule("fine"),
    ]
    for one in wrong:
        yield CreateAclsRequest([one]), 3
    yield CreateAclsRequest(wrong), 3
    yield CreateAclsRequest([]), 3
    hosts = [
        "",
        "localhost",
        "10.0.0.300",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "::1",
        "fe80::/10",
        "2001:db8::1/64",
        "/8",
    ]
    for host in hosts:
        yield CreateAclsRequest([rule("hosts", host=host)]), 3
    for wanted in FILTERS:
        yield DescribeAclsRequest(**wanted), 3
    yield DescribeAclsRequest(**selecting()), 1
    for wanted in FILTERS[2:8] + FILTERS[11:16]:
        yield DeleteAclsRequest([DeleteAclsFilter(**wanted)]), 3
    overlapping = [selecting(resource_type_filter=GROUP), selecting(operation=99), selecting()]
    yield DeleteAclsRequest([DeleteAclsFilter(**one) for one in overlapping]), 3
    yield DescribeAclsRequest(**selecting()), 3
    yield DeleteAclsRequest([]), 2


def quota(
    entity: Sequence[tuple[str, str | None]], *ops: tuple[str, float] | tuple[str, float, bool]
) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        [EntityData(*each) for each in entity], [OpData(*op) for op in ops]
    )


def altering(*entries: AlterClientQuotasRequestEntryData, validate_only: bool = False) -> Question:
    return AlterClientQuotasRequest(list(entries), validate_only), 1


def describing(*components: tuple[str, int, str | None], strict: bool = False) -> Question:
    return DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict), 1


EXACT, DEFAULT, SPECIFIED = 0, 1, 2
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUESTS, MUTATIONS, CONNECTIONS = (
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


def quotas() -> Iterator[Question]:
    alice = [("user", "alice")]
    yield altering(quota(alice, (PRODUCE, 1000.0), (FETCH, 2000.0), (REQUESTS, 12.5), (MUTATIONS, 3.5)))
    yield altering(quota(alice, (PRODUCE, 500.0), (FETCH, 0.0, True)))
    yield altering(quota([("user", None)], (PRODUCE, 10.0)), quota([("client-id", None)], (PRODUCE, 11.0)))
    yield altering(quota([("user", "bob"), ("client-id", "c")], (FETCH, 5.0)))
    yield altering(quota([("user", None), ("client-id", None)], (FETCH, 6.0)))
    yield altering(quota([("client-id", "c")], (REQUESTS, 200.0)))
    yield altering(quota([("ip", "10.0.0.1")], (CONNECTIONS, 5.0)), quota([("ip", None)], (CONNECTIONS, 7.0)))
    yield altering(quota(alice, (PRODUCE, 77.0)), validate_only=True)
    for entity in (
        [],
        [("user", "")],
        [("nope", "a")],
        [("ip", "10.0.0.1"), ("user", "a")],
        [("ip", "10.0.0.1"), ("client-id", "a")],
        [("ip", "10.0.0.1"), ("user", "a"), ("client-id", "a")],
        [("ip", "not an address")],
        [("ip", "127.0.0.1.5")],
        [("ip", "::1")],
        [("ip", "")],
    ):
        yield altering(quota(entity, (CONNECTIONS if ("ip" in dict(entity)) else PRODUCE, 1.0)))
    for op in (
        ("nope", 1.0),
        (CONNECTIONS, 1.0),
        (PRODUCE, 0.0),
        (PRODUCE, -1.0),
        (PRODUCE, 1.5),
        (PRODUCE, 1e30),
        (PRODUCE, 9.3e18),
        (REQUESTS, 0.0),
        (REQUESTS, -0.1),
        (REQUESTS, 0.001),
        (MUTATIONS, 0.0),
        (MUTATIONS, 0.25),
        ("nope", 1.0, True),
        (PRODUCE, float("inf")),
    ):
        yield altering(quota([("user", "checked")], op))
    yield altering(quota([("user", "checked")], (PRODUCE, 1e-7)))
    yield altering(quota([("ip", "10.0.0.2")], (PRODUCE, 1.0)))
    yield altering(quota([("ip", "10.0.0.2")], (CONNECTIONS, 1.5)))
    yield altering(quota([("ip", "10.0.0.2")], (CONNECTIONS, 3e9)))
    yield altering(quota(alice))
    yield altering()
    for strict in (False, True):
        yield describing(strict=strict)
        yield describing(("user", EXACT, "alice"), strict=strict)
        yield describing(("user", DEFAULT, None), strict=strict)
        yield describing(("user", SPECIFIED, None), strict=strict)
        yield describing(("client-id", SPECIFIED, None), strict=strict)
        yield describing(("user", SPECIFIED, None), ("client-id", SPECIFIED, None), strict=strict)
        yield describing(("user", EXACT, "bob"), ("client-id", EXACT, "c"), strict=strict)
        yield describing(("ip", SPECIFIED, None), strict=strict)
        yield describing(("ip", EXACT, "10.0.0.1"), strict=strict)
    yield describing(("", EXACT, "a"))
    yield describing(("nope", EXACT, "a"))
    yield describing(("user", EXACT, "a"), ("user", EXACT, "b"))
    yield describing(("user", EXACT, None))
    yield describing(("user", DEFAULT, "a"))
    yield describing(("user", SPECIFIED, "a"))
    yield describing(("user", 3, None))
    yield describing(("ip", SPECIFIED, None), ("user", SPECIFIED, None))
    yield DescribeClientQuotasRequest([ComponentData("user", EXACT, "alice")], False), 0
    yield altering(quota(alice, *((key, 0.0, True) for key in (PRODUCE, REQUESTS, MUTATIONS))))
    yield describing(("user", EXACT, "alice"))


SHA_256, SHA_512 = 1, 2


def upserting(
    name: str = "alice", mechanism: int = SHA_256, iterations: int = 4096, **settings: bytes
) -> Any:
    length = 32 if mechanism == SHA_256 else 64
    fields = {"salt": b"some salt", "salted_password": b"p" * length} | settings
    return ScramCredentialUpsertion(name, mechanism, iterations, **fields)


def altering_users(*upsertions: Any, deletions: list[tuple[str, int]] | None = None) -> Question:
    removed = [ScramCredentialDeletion(*each) for each in deletions or []]
    return AlterUserScramCredentialsRequest(removed, list(upsertions)), 0


def describing_users(*names: str) -> Question:
    return DescribeUserScramCredentialsRequest([UserName(name) for name in names]), 0


def users() -> Iterator[Question]:
    yield altering_users(upserting("frank", salt=b""), upserting("grace", salted_password=b"short"))
    yield describing_users("frank", "grace")
    yield describing_users()
    yield DescribeUserScramCredentialsRequest(None), 0
    yield altering_users(upserting(), upserting("bob", SHA_512, 16384))
    yield altering_users(upserting(mechanism=SHA_512), upserting(iterations=5000))
    yield altering_users(upserting(), upserting(iterations=5000))
    yield altering_users(upserting(iterations=6000), deletions=[("alice", SHA_256)])
    yield altering_users(upserting(iterations=6000), deletions=[("alice", SHA_512)])
    yield altering_users(
        upserting(""), upserting("carol", 0), upserting("dave", 3), upserting("eve", SHA_256, 4095)
    )
    yield altering_users(
        upserting("frank", SHA_256, 16385), upserting("grace", SHA_512, 0), upserting("hans")
    )
    yield altering_users(upserting("ann b,=", SHA_256))
    yield altering_users(upserting("mixed", SHA_256, 1), upserting("mixed", SHA_512))
    yield altering_users(deletions=[("nobody", SHA_256), ("", SHA_256), ("bob", SHA_256), ("bob", 7)])
    yield altering_users(deletions=[("bob", SHA_512)])
    yield altering_users(deletions=[("hans", SHA_256), ("hans", SHA_256)])
    yield altering_users()
    yield describing_users()
    yield describing_users("alice")
    yield describing_users("alice", "nobody", "alice", "")
