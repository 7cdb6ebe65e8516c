"""The nodes `/cluster/id` and `/brokers/ids/N`: Kafka's JSON, with additional fields of Barnabas."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from barnabas.cluster.image import Endpoint
from barnabas.cluster.membership import BrokerInfo
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, NoNodeError, WipedZooKeeperError, ZNode

# -- Cluster id: checks that ZooKeeper has the cluster of this broker ----------------------------------

CLUSTER_ID = "/cluster/id"
"""Same path as in Kafka."""


class _Id(msgspec.Struct):
    id: str
    version: str = "1"


class ClusterIdentity:
    """`expected` is the cluster id of the broker's log dirs; None if they are new."""

    def __init__(self, zk: ZooKeeper, expected: str | None = None) -> None:
        self._zk = zk
        self.expected = expected

    async def check(self) -> str | None:
        """Return the cluster id in ZooKeeper; None if the cluster is not created yet.

        Raise WipedZooKeeperError if it is another one: a write would mix two clusters.
        """
        actual = await self._read()
        if self.expected is None:
            self.expected = actual
        elif actual is None:
            raise WipedZooKeeperError(
                f"ZooKeeper at {self._zk.settings} holds no cluster, but this broker belongs to cluster "
                f"{self.expected}. Was ZooKeeper wiped, or does zookeeper.connect have a wrong address or path? "
                "Restore its data, or correct the setting. If this broker was a single node until now, move its "
                "metadata into ZooKeeper with `barnabas cluster adopt`."
            )
        elif actual != self.expected:
            raise WipedZooKeeperError(
                f"ZooKeeper at {self._zk.settings} holds cluster {actual}, but this broker belongs to cluster "
                f"{self.expected}. Correct zookeeper.connect, or use another data folder."
            )
        return actual

    async def _read(self) -> str | None:
        try:
            node = await self._zk.get(CLUSTER_ID)
        except NoNodeError:
            return None
        return msgspec.json.decode(node.data, type=_Id).id


def create_cluster_id(cluster_id: str) -> Create:
    return Create(CLUSTER_ID, msgspec.json.encode(_Id(cluster_id)), public=True)


BROKERS = "/brokers/ids"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # index: number on the wire

Features: TypeAlias = dict[str, dict[str, int]]


class _BarnabasFields(msgspec.Struct):
    host: str
    clean: bool
    owner: str
    """Id of the data folder of the writer; only one process can hold the lock of a folder."""
    endpoints: tuple[Endpoint, ...]
    features: dict[str, tuple[int, int]]


class _Registration(msgspec.Struct):
    host: str | None
    port: int
    endpoints: list[str]
    listener_security_protocol_map: dict[str, str]
    features: Features
    rack: str | None
    timestamp: str
    barnabas: _BarnabasFields
    version: int = 5
    jmx_port: int = -1


def path_of(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def encode_registration(info: BrokerInfo, owner: str, now_ms: int) -> bytes:
    first = info.endpoints[0] if info.endpoints else None
    return msgspec.json.encode(
        _Registration(
            host=first.host if first else None,
            port=first.port if first else -1,
            endpoints=[f"{end.name}://{end.host}:{end.port}" for end in info.endpoints],
            listener_security_protocol_map={
                end.name: _PROTOCOLS[end.security_protocol] for end in info.endpoints
            },
            features={
                name: {"min_version": low, "max_version": high} for name, (low, high) in info.features.items()
            },
            rack=info.rack,
            timestamp=str(now_ms),
            barnabas=_BarnabasFields(info.host, info.clean, owner, info.endpoints, dict(info.features)),
        )
    )


def decode_registration(broker_id: int, node: ZNode) -> BrokerInfo | None:
    """Decode a node; None if it was not written by Barnabas. The epoch is the transaction that created the node."""
    try:
        decoded = msgspec.json.decode(node.data, type=_Registration)
    except msgspec.DecodeError:
        return None
    local = decoded.barnabas
    return BrokerInfo(
        broker_id,
        local.host,
        decoded.rack,
        local.endpoints,
        local.features,
        local.clean,
        epoch=node.stat.czxid,
    )


def owner_of(node: ZNode) -> tuple[str, str]:
    """Return the folder id of the broker that wrote the node, and its address for display."""
    try:
        decoded = msgspec.json.decode(node.data, type=_Registration)
    except msgspec.DecodeError:
        return "", "an unknown address"
    return decoded.barnabas.owner, f"{decoded.host}:{decoded.port}"
