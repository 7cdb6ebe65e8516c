from __future__ import annotations

import asyncio

from barnabas.client.access.acls import create_acls
from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets
from barnabas.client.producer import Producer
from barnabas.client.security.parsing import parse_security
from barnabas.common.types import TopicPartition
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.users import needed_acls
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import async_eventually

USERS = {"admin": "admin's", "console": "console's"}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def client_of(broker: EmbeddedBroker, user: str) -> Client:
    return Client(broker.bootstrap_servers, security=parse_security(broker.clients_of(user).java))


def test_the_rights_that_a_console_is_given_are_enough_and_without_them_it_sees_nothing() -> None:
    async def scenario(broker: EmbeddedBroker, topic: str) -> None:
        async with client_of(broker, "admin") as admin, client_of(broker, "console") as client:
            async with Producer(admin) as producer:
                await producer.send(topic, b"x")
            await commit_offsets(admin, "readers", {TopicPartition(topic, 0): 0})
            sampler = Sampler(client)
            before = await sampler.refresh()
            assert (before.topics, before.groups) == ({}, {})
            await create_acls(admin, needed_acls("console"))
            after = await async_eventually(
                sampler.refresh, lambda sample: not sample.error and topic in sample.topics
            )
        assert after.topics[topic].ends == (1,)
        assert after.topics[topic].size > 0
        assert after.groups["readers"].lag == 1
        assert after.groups["readers"].lag_seconds is None  # that would need READ on the topic

    with EmbeddedBroker(SETTINGS, security="SASL_PLAINTEXT", users=USERS) as broker:
        asyncio.run(scenario(broker, broker.create_topic(partitions=1)))
