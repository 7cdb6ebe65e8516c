import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.common.errors import ErrorCode, KafkaError
from tests.support.waiting import async_until

NewName = Callable[[], str]


def run(bootstrap: str, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Client(bootstrap) as client:
            await test(client)

    asyncio.run(main())


def test_a_topic_is_created_grown_and_deleted(bootstrap: str, new_name: NewName) -> None:
    async def test(client: Client) -> None:
        name = new_name()
        created = await admin.create_topic(client, name, partitions=2)
        assert (created.num_partitions, created.replication_factor) == (2, 1)
        topic = (await client.topics([name]))[name]
        assert (topic.id, list(topic.partitions)) == (created.topic_id, [0, 1])

        async def has_three_partitions() -> bool:
            return len((await client.topics([name]))[name].partitions) == 3

        async def is_gone() -> bool:
            return name not in await client.all_topics()

        await admin.create_partitions(client, name, 3)
        await async_until(has_three_partitions)
        await admin.delete_topics(client, [name])
        await async_until(is_gone)

    run(bootstrap, test)


def test_a_topic_that_exists_is_refused_with_its_name(bootstrap: str, new_name: NewName) -> None:
    async def test(client: Client) -> None:
        name = new_name()
        await admin.create_topic(client, name)
        with pytest.raises(KafkaError, match=name) as raised:
            await admin.create_topic(client, name)
        assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS

    run(bootstrap, test)


def test_checking_a_topic_does_not_create_it(bootstrap: str, new_name: NewName) -> None:
    async def test(client: Client) -> None:
        name = new_name()
        await admin.create_topic(client, name, validate_only=True)
        assert name not in await client.all_topics()

    run(bootstrap, test)


def test_a_missing_topic_is_named(bootstrap: str) -> None:
    async def test(client: Client) -> None:
        with pytest.raises(KafkaError, match="'nowhere' does not exist"):
            await client.topics(["nowhere"])

    run(bootstrap, test)


def test_settings_of_a_topic_are_changed_and_taken_back(bootstrap: str, new_name: NewName) -> None:
    async def test(client: Client) -> None:
        name = new_name()
        await admin.create_topic(client, name)

        def retention_is(value: str, source: int) -> Callable[[], Awaitable[bool]]:
            async def holds() -> bool:
                configs = await admin.describe_configs(client, admin.TOPIC, name)
                (found,) = (config for config in configs if config.name == "retention.ms")
                return (found.value, found.config_source) == (value, source)

            return holds

        await async_until(retention_is("604800000", 5))
        await admin.alter_configs(client, admin.TOPIC, name, [admin.ConfigChange("retention.ms", "1000")])
        await async_until(retention_is("1000", 1))
        change = admin.ConfigChange("retention.ms", operation=admin.DELETE)
        await admin.alter_configs(client, admin.TOPIC, name, [change])
        await async_until(retention_is("604800000", 5))

    run(bootstrap, test)


def test_an_unknown_setting_is_refused(bootstrap: str, new_name: NewName) -> None:
    async def test(client: Client) -> None:
        name = new_name()
        await admin.create_topic(client, name)
        with pytest.raises(KafkaError, match=r"retention\.mss") as raised:
            await admin.alter_configs(client, admin.TOPIC, name, [admin.ConfigChange("retention.mss", "1")])
        assert raised.value.code == ErrorCode.INVALID_CONFIG

    run(bootstrap, test)


def test_the_cluster_and_its_folders_are_described(bootstrap: str, new_name: NewName) -> None:
    async def test(client: Client) -> None:
        name = new_name()
        await admin.create_topic(client, name)
        answer = await admin.describe_cluster(client)
        (broker,) = answer.brokers
        assert answer.controller_id == broker.broker_id
        async with asyncio.timeout(60):  # Apache Kafka makes the folders a moment after it has answered
            while True:
                (folder,) = await admin.describe_log_dirs(client, broker.broker_id)
                if name in {topic.name for topic in folder.topics}:
                    break

    run(bootstrap, test)
