"""What `/brokers/ids/N` says: Kafka's own JSON, so that people who know Kafka can read it, and what we need besides."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from barnabas.cluster.image import Endpoint
from barnabas.cluster.membership import BrokerInfo
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, Node, NoNodeError, WipedZooKeeperError

# -- Whether ZooKeeper still holds the cluster that we belong to ---------------------------------------

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


BROKERS = "/brokers/ids"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # by their numbers on the wire

Features: TypeAlias = dict[str, dict[str, int]]


class _Ours(msgspec.Struct):
    host: str
    clean: bool
    owner: str
    """Who wrote this: a token of the data folder, which only one process can hold."""
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
    barnabas: _Ours
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
            barnabas=_Ours(info.host, info.clean, owner, info.endpoints, dict(info.features)),
        )
    )


def decode_registration(broker_id: int, node: Node) -> BrokerInfo | None:
    """None for what no Barnabas wrote. The epoch is the transaction that made the node."""
    try:
        found = msgspec.json.decode(node.data, type=_Registration)
    except msgspec.DecodeError:
        return None
    ours = found.barnabas
    return BrokerInfo(
        broker_id, ours.host, found.rack, ours.endpoints, ours.features, ours.clean, epoch=node.stat.czxid
    )


def owner_of(node: Node) -> tuple[str, str]:
    """The token of the broker that wrote the node, and its address for people."""
    try:
        found = msgspec.json.decode(node.data, type=_Registration)
    except msgspec.DecodeError:
        return "", "an unknown address"
    return found.barnabas.owner, f"{found.host}:{found.port}"
