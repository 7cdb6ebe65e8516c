"""`barnabas cluster secure`: nodes in ZooKeeper get the rights that new ones are made with."""

from __future__ import annotations

import asyncio

from barnabas.cluster.zookeeper import ZooKeeper, check_hides_secrets, zookeeper_settings
from barnabas.cluster.zookeeper import protect as protect_nodes
from barnabas.config.broker import BrokerConfig


def protect(config: BrokerConfig) -> int:
    """How many nodes there are; KafkaError where they would stay open, because the settings ask for no protection."""
    check_hides_secrets(config)
    return asyncio.run(_protect(config))


async def _protect(config: BrokerConfig) -> int:
    zk = ZooKeeper(zookeeper_settings(config))
    await zk.start()
    try:
        return await protect_nodes(zk)
    finally:
        await zk.close()
