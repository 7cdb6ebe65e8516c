"""Settings that a running broker applies."""

import asyncio
from pathlib import Path

from barnabas.broker.broker import Broker
from barnabas.cluster.deltas import ConfigsChanged
from barnabas.cluster.image import ConfigResourceType
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.controller.topics import NewTopic, create_topics


async def started(folder: Path, **settings: str) -> Broker:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
    broker = Broker(BrokerConfig.load({**listeners, **properties}))
    await broker.start()
    return broker


async def change(
    broker: Broker, resource_type: ConfigResourceType, resource: str, **settings: str | None
) -> None:
    changes = {name.replace("_", "."): value for name, value in settings.items()}
    delta = ConfigsChanged(resource_type, resource, changes)
    await broker.controller.submit(lambda image: ([delta], None))


def test_limits_follow_the_settings_of_one_broker_and_of_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = await started(tmp_path, max_connections="50")
        assert broker.sockets.limits.connections == 50
        await change(
            broker, ConfigResourceType.BROKER, "", max_connections="40", barnabas_slow_request_ms="0"
        )
        assert broker.sockets.limits.connections == 40
        assert broker.dispatcher.slow_request_seconds == float("inf")
        await change(broker, ConfigResourceType.BROKER, "1", max_connections="30")
        assert broker.sockets.limits.connections == 30
        await change(broker, ConfigResourceType.BROKER, "1", max_connections=None)
        assert broker.sockets.limits.connections == 40
        await broker.stop()

    asyncio.run(scenario())


def test_a_log_follows_its_topics_settings_and_the_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = await started(tmp_path)
        await broker.controller.submit(lambda image: create_topics(image, [NewTopic("t")], broker.policy))
        log = broker.logs.get(TopicPartition("t", 0))
        assert log is not None
        assert log.config.retention_ms == 604_800_000
        await change(broker, ConfigResourceType.BROKER, "", log_retention_ms="5000")
        assert log.config.retention_ms == 5000
        await change(broker, ConfigResourceType.TOPIC, "t", retention_ms="7000")
        assert log.config.retention_ms == 7000
        await change(broker, ConfigResourceType.TOPIC, "t", retention_ms=None)
        assert log.config.retention_ms == 5000
        await broker.stop()

    asyncio.run(scenario())


def test_changes_are_still_in_force_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = await started(tmp_path)
        await change(broker, ConfigResourceType.BROKER, "", max_connections="40", no_longer_known="1")
        await broker.stop()
        again = await started(tmp_path)
        assert again.sockets.limits.connections == 40
        await again.stop()

    asyncio.run(scenario())


def test_folders_that_are_cordoned_get_no_new_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        one, two = str(tmp_path / "one"), str(tmp_path / "two")
        broker = await started(tmp_path, log_dirs=f"{one},{two}")
        await change(broker, ConfigResourceType.BROKER, "1", cordoned_log_dirs=one)
        await broker.controller.submit(
            lambda image: create_topics(image, [NewTopic("t", partitions=4)], broker.policy)
        )
        assert [len(broker.logs.in_folder(folder)) for folder in (one, two)] == [0, 4]
        await change(broker, ConfigResourceType.BROKER, "1", cordoned_log_dirs=f"{one},{two}")
        await broker.controller.submit(
            lambda image: create_topics(image, [NewTopic("u", partitions=2)], broker.policy)
        )
        assert len(broker.logs) == 6
        await broker.stop()

    asyncio.run(scenario())
