"""confluent-kafka's AdminClient and kafka-python's admin manage ACLs, users and quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ACLOperation as PythonOperation
from kafka.admin import ResourceType as PythonResourceType

from barnabas.cluster.image import ScramUser
from barnabas.security.authn import scram
from barnabas.security.authn.credentials import ScramMechanism as Mechanism
from barnabas.testing import EmbeddedBroker

TIMEOUT = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def admin(broker: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def settled(futures: Any) -> list[Any]:
    return [future.result(TIMEOUT) for future in futures.values()]


def test_confluent_kafka_creates_describes_and_deletes_acls(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            f"orders-{number}",
            ResourcePatternType.LITERAL,
            "User:alice",
            "10.0.0.0/8",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for number in range(3)
    ]
    settled(admin.create_acls(rules))
    assert len(broker.broker.image.acls) == 3
    any_text: Any = None  # the stub declares `str`; None matches any name, principal and host
    everything = AclBindingFilter(
        ResourceType.ANY,
        any_text,
        ResourcePatternType.ANY,
        any_text,
        any_text,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert sorted(admin.describe_acls(everything).result(TIMEOUT)) == sorted(rules)
    (deleted,) = settled(admin.delete_acls([everything]))
    assert sorted(deleted) == sorted(rules)
    assert not broker.broker.image.acls


def test_confluent_kafka_manages_scram_users(broker: EmbeddedBroker, admin: AdminClient) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
    settled(
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", info, b"secret", b"salt")])
    )
    kept = broker.broker.image.scram_credentials[ScramUser("alice", Mechanism.SHA_512)]
    assert scram.matches(kept, Mechanism.SHA_512, "secret")
    (shown,) = settled(admin.describe_user_scram_credentials(["alice"]))
    assert [(each.mechanism, each.iterations) for each in shown.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_512, 5000)
    ]
    settled(
        admin.alter_user_scram_credentials(
            [UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_512)]
        )
    )
    assert not broker.broker.image.scram_credentials
    with pytest.raises(KafkaException, match="does not exist"):
        settled(admin.describe_user_scram_credentials(["alice"]))


def test_kafka_python_creates_describes_and_deletes_acls(broker: EmbeddedBroker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        rule = ACL(
            principal="User:bob",
            host="*",
            operation=PythonOperation.WRITE,
            permission_type=ACLPermissionType.DENY,
            resource_pattern=ResourcePattern(PythonResourceType.GROUP, "payments"),
        )
        created = admin.create_acls([rule])
        assert created["succeeded"] == [rule]
        wanted = ACLFilter(
            principal="User:bob",
            host=None,
            operation=PythonOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePatternFilter(PythonResourceType.ANY, None, ACLResourcePatternType.ANY),
        )
        found, error = admin.describe_acls(wanted)
        assert found == [rule]
        assert error.errno == 0
        ((_, matched, _),) = admin.delete_acls([wanted])
        assert matched == [rule]
        assert not broker.broker.image.acls
    finally:
        admin.close()
