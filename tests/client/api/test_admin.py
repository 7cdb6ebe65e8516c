"""The public administration client, blocking and for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas import Acl, Admin, AsyncAdmin, ErrorCode, KafkaError, Producer, TopicPartition
from barnabas.testing import EmbeddedBroker

NewName = Callable[[], str]


def test_topics_and_their_configs(bootstrap: str, new_name: NewName) -> None:
    name = new_name()
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=2, configs={"retention.ms": "1000"})
        assert name in admin.list_topics()
        admin.create_partitions(name, 3)
        assert len(admin.describe_topics(name)[name].partitions) == 3
        assert admin.topic_configs(name)["retention.ms"].value == "1000"
        admin.alter_topic_configs(name, {"retention.ms": None, "cleanup.policy": "compact"})
        configs = admin.topic_configs(name)
        assert configs["retention.ms"].is_default
        assert configs["cleanup.policy"].value == "compact"
        with pytest.raises(KafkaError) as caught:
            admin.create_topic(name)
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert admin.describe_cluster().brokers
        assert admin.broker_configs(next(iter(admin.describe_cluster().brokers)))
        admin.delete_topics(name)
        assert name not in admin.list_topics()


def test_offsets_records_and_groups(bootstrap: str, new_name: NewName) -> None:
    name, group = new_name(), new_name()
    tp = TopicPartition(name, 0)
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(name, partitions=1)
        producer.send_batch(name, [b"x"] * 5)
        assert admin.delete_records({tp: 2}) == {tp: 2}
        assert (admin.beginning_offsets(tp)[tp], admin.end_offsets(tp)[tp]) == (2, 5)
        assert admin.offsets_for_time(0, tp)[tp] == 2
        admin.alter_group_offsets(group, {tp: 3})
        assert admin.group_offsets(group)[tp].offset == 3
        assert group in [listed.group for listed in admin.list_groups()]
        assert admin.describe_group(group).lag == 2
        admin.delete_groups(group)
        assert group not in [listed.group for listed in admin.list_groups()]


def test_acls_are_readable_values() -> None:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    settings["super.users"] = "User:ANONYMOUS"
    acl = Acl("User:alice", "read", "topic", "orders.*")
    with EmbeddedBroker(settings) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_acls(acl, Acl("User:bob", "all", "group"))
        assert admin.list_acls("User:alice") == [acl]
        assert len(admin.list_acls()) == 2
        assert admin.delete_acls(acl) == [acl]
        assert admin.list_acls("User:alice") == []
        with pytest.raises(ValueError, match="'reed' is not a valid operation of an ACL"):
            admin.create_acls(Acl("User:alice", "reed"))


def test_asyncio_has_the_same_operations(embedded: EmbeddedBroker) -> None:
    async def main() -> None:
        async with AsyncAdmin(embedded.bootstrap_servers) as admin:
            await admin.create_topic("async-admin", partitions=1)
            assert "async-admin" in await admin.list_topics()

    asyncio.run(main())
