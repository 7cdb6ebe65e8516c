"""`barnabas tier status` requires Describe on the topic, and for brokers Describe on the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.broker.security.test_acls_decide import EVERYBODY, STANDARD, change
from tests.support.cli import Cli


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    (folder / "bucket").mkdir()
    settings = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin",
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{folder}/bucket",
    }
    with EmbeddedBroker(settings, data_dir=folder / "data") as running:
        yield running


def allow(kind: ResourceType, name: str, operation: Operation) -> AclBinding:
    return AclBinding(kind, name, PatternType.LITERAL, EVERYBODY, "*", operation, Permission.ALLOW)


def test_topic_and_brokers_are_shown_to_users_who_may_describe_them(broker: EmbeddedBroker) -> None:
    cli = Cli(broker.bootstrap_servers)
    creating = [
        allow(ResourceType.TOPIC, "clicks", operation) for operation in (Operation.CREATE, Operation.DESCRIBE)
    ]
    change(broker, *creating)
    broker.create_topic("clicks", configs={"remote.storage.enable": "true"})
    change(broker, removed=tuple(creating))
    refused = cli("tier", "status", "clicks")
    assert refused.code == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.err or "authoriz" in refused.err.lower()

    change(broker, allow(ResourceType.TOPIC, "clicks", Operation.DESCRIBE))
    facts = cli.ok("tier", "status", "clicks", "-o", "json").json
    assert facts["partitions"][0]["copying"]["state"]
    assert facts["brokers"] is None
    assert "need Describe on the cluster" in cli.ok("tier", "status", "clicks").out

    change(broker, allow(ResourceType.CLUSTER, "kafka-cluster", Operation.DESCRIBE))
    (status,) = cli.ok("tier", "status", "clicks", "-o", "json").json["brokers"]
    assert status["cache_limit_bytes"] == 1 << 30
