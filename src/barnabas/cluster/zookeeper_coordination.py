"""A broker's part in a cluster that ZooKeeper coordinates, put together."""

from __future__ import annotations

from barnabas.cluster.levels import NEWEST_LEVEL
from barnabas.cluster.membership import Coordination
from barnabas.cluster.zookeeper_identity import ClusterIdentity
from barnabas.cluster.zookeeper_membership import ZooKeeperMembership
from barnabas.cluster.zookeeper_session import ZooKeeper
from barnabas.cluster.zookeeper_settings import zookeeper_settings
from barnabas.cluster.zookeeper_store import ZooKeeperMetadataStore
from barnabas.config.broker import BrokerConfig


async def connect(
    config: BrokerConfig, cluster_id: str | None, folder_id: str | None, newest_level: int = NEWEST_LEVEL
) -> Coordination:
    """Begin a session. `cluster_id` and `folder_id` are what the broker's folders say, None for new ones;
    `newest_level` is the level of the metadata that the broker understands.

    ZooKeeperUnusableError says what to change when there is no ZooKeeper, or it does not let us in.
    """
    zk = ZooKeeper(zookeeper_settings(config))
    await zk.start()
    identity = ClusterIdentity(zk, cluster_id)
    membership = ZooKeeperMembership(zk, config.node_id, identity, owner=folder_id)
    return Coordination(ZooKeeperMetadataStore(zk, identity, newest_level), membership)
