"""Sessions, memberships and stores on the ZooKeeper of the tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from kazoo.client import KazooClient

from barnabas.cluster.image import Endpoint
from barnabas.cluster.membership import BrokerInfo
from barnabas.cluster.zookeeper.membership import ZooKeeperMembership
from barnabas.cluster.zookeeper.registration import ClusterIdentity
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.settings import ZooKeeperSettings, parse_connect
from barnabas.cluster.zookeeper.store import ZooKeeperMetadataStore
from tests.support.waiting import async_until

SHORT_TIMEOUT = 1.5
DEADLINE = 60.0


def settings(connect: str, session_timeout: float = SHORT_TIMEOUT, **more: Any) -> ZooKeeperSettings:
    hosts, root = parse_connect(connect)
    return ZooKeeperSettings(
        hosts, root, session_timeout=session_timeout, connection_timeout=DEADLINE, **more
    )


@contextlib.asynccontextmanager
async def session(
    connect: str, session_timeout: float = SHORT_TIMEOUT, **more: Any
) -> AsyncIterator[ZooKeeper]:
    zk = ZooKeeper(settings(connect, session_timeout, **more))
    await zk.start()
    try:
        yield zk
    finally:
        await zk.close()


class Member:
    """One broker's part in the cluster, without the broker."""

    def __init__(
        self, zk: ZooKeeper, node_id: int, cluster: str | None = None, owner: str | None = None
    ) -> None:
        self.zk = zk
        self.info = BrokerInfo(
            node_id,
            host="machine",
            rack="r1",
            endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9091 + node_id),),
        )
        self.identity = ClusterIdentity(zk, cluster)
        self.membership = ZooKeeperMembership(zk, node_id, self.identity, owner=owner)
        self.store = ZooKeeperMetadataStore(zk, self.identity)
        self.epochs: list[int] = []
        self.resigned = 0
        self.fenced = 0
        self.brokers: dict[int, BrokerInfo] = {}
        self.entries: list[tuple[int, list[Any]]] = []
        self.membership.on_fenced(self._fenced)

    def _fenced(self) -> None:
        self.fenced += 1

    def _resigned(self) -> None:
        self.resigned += 1

    @property
    def is_controller(self) -> bool:
        return len(self.epochs) > self.resigned

    def watch(self) -> None:
        self.membership.on_brokers_changed(lambda brokers: setattr(self, "brokers", brokers))

    def follow(self) -> None:
        self.store.follow(lambda offset, deltas: self.entries.append((offset, deltas)))

    async def join(self) -> int:
        return await self.membership.join(self.info)

    async def be_elected(self) -> int:
        if not self.entries:
            await self.store.load()
        self.campaign()
        await async_until(lambda: self.is_controller)
        return self.epochs[-1]

    def campaign(self) -> None:
        self.membership.campaign(self.epochs.append, self._resigned)


@contextlib.asynccontextmanager
async def member(
    connect: str, node_id: int, *, cluster: str | None = None, owner: str | None = None, **more: Any
) -> AsyncIterator[Member]:
    zk = ZooKeeper(settings(connect, **more))
    await zk.start()
    one = Member(zk, node_id, cluster, owner)
    try:
        yield one
    finally:
        await one.store.close()
        await one.membership.leave()


async def time_for_a_wrong_move(zk: ZooKeeper) -> None:
    """Time for several ZooKeeper responses and watches, to detect unwanted changes."""
    for _ in range(5):
        await zk.sync()


async def expire(zk: ZooKeeper) -> None:
    """End its session, as the ensemble does after a timeout."""
    _, password = zk._client.client_id
    second = KazooClient(zk.settings.hosts, client_id=(zk.session_id, password))
    await asyncio.to_thread(second.start)
    await asyncio.to_thread(second.stop)
    second.close()
