"""Whether ZooKeeper still holds the cluster that we belong to."""

from __future__ import annotations

import msgspec

from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, NoNodeError, WipedZooKeeperError

CLUSTER_ID = "/cluster/id"
"""Kafka's own place for it."""


class _Id(msgspec.Struct):
    id: str
    version: str = "1"


class ClusterIdentity:
    """`expected` is the cluster that our folders belong to; None for folders that are new."""

    def __init__(self, zk: ZooKeeper, expected: str | None = None) -> None:
        self._zk = zk
        self.expected = expected

    async def check(self) -> str | None:
        """The id of the cluster in ZooKeeper, None for one that is to be made. WipedZooKeeperError when it is not
        ours: nothing must be written there then, because two clusters would be mixed."""
        found = await self._read()
        if self.expected is None:
            self.expected = found
        elif found is None:
            raise WipedZooKeeperError(
                f"ZooKeeper at {self._zk.settings} holds no cluster, but this broker belongs to cluster "
                f"{self.expected}. Was ZooKeeper wiped, or does zookeeper.connect name the wrong one or the wrong "
                "path? Restore its data, or correct the setting. If this broker ran alone until now, "
                "`barnabas cluster adopt` moves its metadata into ZooKeeper."
            )
        elif found != self.expected:
            raise WipedZooKeeperError(
                f"ZooKeeper at {self._zk.settings} holds cluster {found}, but this broker belongs to cluster "
                f"{self.expected}. Correct zookeeper.connect, or give the broker another data folder."
            )
        return found

    async def _read(self) -> str | None:
        try:
            node = await self._zk.get(CLUSTER_ID)
        except NoNodeError:
            return None
        return msgspec.json.decode(node.data, type=_Id).id


def create_cluster_id(cluster_id: str) -> Create:
    return Create(CLUSTER_ID, msgspec.json.encode(_Id(cluster_id)), public=True)
