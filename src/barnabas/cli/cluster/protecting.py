"""`barnabas cluster secure`: set the ACLs of new nodes on existing ZooKeeper nodes."""

from __future__ import annotations

import asyncio

from barnabas.cluster.zookeeper import ZooKeeper, check_hides_secrets, zookeeper_settings
from barnabas.cluster.zookeeper import protect as protect_nodes
from barnabas.config.broker import BrokerConfig


def protect(config: BrokerConfig) -> int:
    """Set the ACLs and return the number of nodes. Raises KafkaError if the settings do not enable ACLs."""
    check_hides_secrets(config)
    return asyncio.run(_protect(config))


async def _protect(config: BrokerConfig) -> int:
    zk = ZooKeeper(zookeeper_settings(config))
    await zk.start()
    try:
        return await protect_nodes(zk)
    finally:
        await zk.close()
