"""A broker whose ZooKeeper session is lost while it starts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from barnabas.cluster.zookeeper import kazoo_client
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import SessionLostError, ZooKeeperUnusableError
from barnabas.testing import EmbeddedBroker
from tests.cluster.zookeepers import expire, member, settings

CREATE_ROOT, CHECK_FORMAT, CHECK_CLUSTER_ID, READ_HEAD = 1, 4, 13, 17
"""Requests to ZooKeeper of a start, by number."""


def lose_session_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """End the session before request `number`, as the watchdog does if the loop hangs."""
    call, count = ZooKeeper._call, 0

    async def count_calls(self: ZooKeeper, send: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            await asyncio.to_thread(kazoo_client.end, self._client)
        return await call(self, send)

    monkeypatch.setattr(ZooKeeper, "_call", count_calls)


@pytest.mark.parametrize("number", [CREATE_ROOT, CHECK_FORMAT, CHECK_CLUSTER_ID, READ_HEAD])
def test_a_broker_starts_with_a_new_session(root: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_session_at(monkeypatch, number)
    with EmbeddedBroker({"zookeeper.connect": root, "zookeeper.session.timeout.ms": "3000"}) as broker:
        broker.create_topic("orders")
        assert not broker.broker.is_fenced


def test_metadata_are_loaded_in_a_new_session(root: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            loads = [asyncio.create_task(one.store.load()) for _ in range(20)]
            await expire(one.zk)
            assert {image.offset for image in await asyncio.gather(*loads)} == {0}
            await asyncio.to_thread(kazoo_client.end, one.zk._client)
            assert (await one.store.load()).offset == 0
            assert "retrying" in caplog.text

    asyncio.run(scenario())


def test_retries_end_with_the_connection_timeout(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: ZooKeeper, send: Any) -> Any:
        self.settings = replace(self.settings, connection_timeout=0.2)
        raise SessionLostError("session expired")

    async def scenario() -> None:
        zk = ZooKeeper(settings(root))
        monkeypatch.setattr(ZooKeeper, "_call", lost)
        with pytest.raises(ZooKeeperUnusableError, match=r"session expired.*zookeeper\.connect"):
            await zk.start()

    asyncio.run(scenario())
