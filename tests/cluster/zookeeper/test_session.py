"""The ZooKeeper session: requests, watches, lost links, lost sessions, a blocked loop."""

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import (
    BadVersionError,
    CheckVersion,
    Create,
    NodeExistsError,
    NoNodeError,
    OutcomeUnknownError,
    SessionState,
    SetData,
    ZooKeeperUnusableError,
)
from tests.cluster.zookeepers import expire, session, settings
from tests.support.proxies import Proxy
from tests.support.waiting import async_until


def root_behind(proxy: Proxy, root: str) -> str:
    return f"{proxy.address}/{root.partition('/')[2]}"


def test_nodes_are_made_read_changed_and_deleted(root: str) -> None:
    async def scenario() -> None:
        async with session(root) as zk:
            made = await zk.create("/a", b"one")
            assert (await zk.get("/a")).data == b"one"
            changed = await zk.set("/a", b"two", made.version)
            assert changed.version == 1
            assert changed.czxid == made.czxid > 0
            with pytest.raises(BadVersionError):
                await zk.set("/a", b"three", made.version)
            with pytest.raises(NodeExistsError):
                await zk.create("/a", b"")
            assert await zk.children("/") == ["a"]
            await zk.delete("/a")
            assert await zk.exists("/a") is None
            with pytest.raises(NoNodeError):
                await zk.get("/a")

    asyncio.run(scenario())


def test_a_multi_happens_as_a_whole_or_not_at_all(root: str) -> None:
    async def scenario() -> None:
        async with session(root) as zk:
            await zk.create("/guard", b"")
            await zk.multi([CheckVersion("/guard", 0), Create("/a", b"1"), SetData("/guard", b"x", 0)])
            with pytest.raises(BadVersionError):
                await zk.multi([Create("/b", b"2"), CheckVersion("/guard", 0)])
            assert await zk.exists("/b") is None
            assert (await zk.get("/a")).data == b"1"

    asyncio.run(scenario())


def test_a_watch_wakes_up_on_the_loop(root: str) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with session(root) as one, session(root) as other:
            woken: list[asyncio.AbstractEventLoop] = []
            await one.exists("/a", lambda: woken.append(asyncio.get_running_loop()))
            await other.create("/a", b"")
            await async_until(lambda: woken)
            assert woken == [loop]

    asyncio.run(scenario())


def test_ephemeral_nodes_go_with_their_session_at_once(root: str) -> None:
    async def scenario() -> None:
        async with session(root, 10) as watching:
            async with session(root, 10) as zk:
                stat = await zk.create("/mine", b"", ephemeral=True)
                assert stat.owner == zk.session_id
            assert await watching.exists("/mine") is None

    asyncio.run(scenario())


def test_timeout_is_the_one_granted_by_the_server(root: str) -> None:
    async def scenario() -> None:
        async with session(root, 60) as zk:
            assert await zk.exists("/nothing") is None
            assert zk.session_timeout == 10  # 20 ticks of 500 ms

    asyncio.run(scenario())


def test_fast_path_keeps_the_session_and_wakes_waiters(zookeeper: ZooKeeperProcess, root: str) -> None:
    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with session(root_behind(proxy, root), 5) as zk:
                links: list[SessionState] = []
                zk.on_link.append(links.append)
                before = zk.session_id
                proxy.cut()
                await async_until(lambda: links == [SessionState.SUSPENDED])
                proxy.heal()
                await async_until(lambda: links[-1] is SessionState.CONNECTED)
                assert zk.session_id == before
                await async_until(lambda: not zk.is_cut_off)

    asyncio.run(scenario())


def test_requests_have_a_time_limit_while_there_is_no_link(zookeeper: ZooKeeperProcess, root: str) -> None:
    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with session(root_behind(proxy, root)) as zk:
                proxy.cut()
                await async_until(lambda: zk.link is SessionState.SUSPENDED)
                with pytest.raises(OutcomeUnknownError):
                    await zk.get("/")

    asyncio.run(scenario())


def test_time_counts_while_the_machine_is_suspended(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """time.monotonic does not advance meanwhile, and ZooKeeper ends the session."""
    boot_clock = time.clock_gettime

    async def scenario() -> None:
        async with session(root) as zk:
            await async_until(lambda: not zk.is_cut_off)
            monkeypatch.setattr(time, "clock_gettime", lambda which: boot_clock(which) + 3600)
            assert zk.is_cut_off

    asyncio.run(scenario())


def test_isolated_broker_expires_by_its_own_clock(zookeeper: ZooKeeperProcess, root: str) -> None:
    """kazoo reports a lost session only after a server's response, which a frozen link never delivers."""

    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with session(root_behind(proxy, root)) as zk:
                notified: list[bool] = []
                zk.on_cut_off.append(notified.append)
                proxy.freeze()
                await async_until(lambda: notified)
                assert notified == [True]
                assert zk.is_cut_off
                assert zk.link is not SessionState.LOST
                proxy.heal()
                await async_until(lambda: notified[-1] is False)

    asyncio.run(scenario())


def test_an_expired_session_is_followed_by_a_new_one(root: str) -> None:
    async def scenario() -> None:
        async with session(root) as zk:
            links: list[SessionState] = []
            zk.on_link.append(links.append)
            before = zk.session_id
            await zk.create("/mine", b"", ephemeral=True)
            await expire(zk)
            await async_until(lambda: SessionState.LOST in links and links[-1] is SessionState.CONNECTED)
            assert zk.session_id != before
            assert await zk.exists("/mine") is None

    asyncio.run(scenario())


def test_a_loop_that_hangs_loses_its_session_although_kazoo_pings(root: str) -> None:
    async def scenario() -> None:
        async with session(root) as zk:
            before = zk.session_id
            await zk.create("/mine", b"", ephemeral=True)
            time.sleep(zk.session_timeout * 0.9)  # noqa: ASYNC251 - the loop is to hang
            assert zk.is_cut_off  # at once, before anything else gets its turn
            await async_until(lambda: zk.link is SessionState.CONNECTED and zk.session_id != before)
            assert await zk.exists("/mine") is None

    asyncio.run(scenario())


def test_sessions_survive_a_restart_of_zookeeper(own_zookeeper: ZooKeeperProcess) -> None:
    async def scenario() -> None:
        # An attempt to connect that a starting ZooKeeper does not answer takes as long as the session.
        async with session(f"{own_zookeeper.start().address}/root", 25) as zk:
            before = zk.session_id
            await zk.create("/mine", b"", ephemeral=True)
            await asyncio.to_thread(own_zookeeper.stop)
            await async_until(lambda: zk.link is SessionState.SUSPENDED)
            await asyncio.to_thread(own_zookeeper.start)
            await async_until(lambda: zk.link is SessionState.CONNECTED)
            assert zk.session_id == before
            assert await zk.exists("/mine") is not None

    asyncio.run(scenario())


def test_silent_server_does_not_cost_the_session(root: str) -> None:
    """kazoo would wait for its answer as long as the session lasts. Seen once when ZooKeeper restarted."""

    async def scenario() -> None:
        accepting: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: accepting.append(writer), "127.0.0.1", 0)
        host, port = silent.sockets[0].getsockname()
        async with session(root, 6) as zk:
            zk._client.set_hosts(f"{host}:{port}")
            await async_until(lambda: zk.link is SessionState.CONNECTED)
            before = zk.session_id
            zk._client._connection._socket.shutdown(socket.SHUT_RDWR)
            await async_until(lambda: accepting)
            zk._client.set_hosts(root.partition("/")[0])
            await async_until(lambda: zk.link is SessionState.CONNECTED)
            assert (await zk.exists("/")) is not None
            assert zk.session_id == before
        silent.close()
        for writer in accepting:
            writer.close()

    asyncio.run(scenario())


def test_an_unreachable_zookeeper_is_named_in_the_error() -> None:
    async def scenario() -> None:
        zk = ZooKeeper(replace(settings("127.0.0.1:1/path"), connection_timeout=0.5))
        with pytest.raises(ZooKeeperUnusableError, match=r"127\.0\.0\.1:1/path.*zookeeper\.connect"):
            await zk.start()

    asyncio.run(scenario())


def test_closed_session_does_not_respond(root: str) -> None:
    async def scenario() -> None:
        async with session(root) as zk:
            pass
        with pytest.raises(OutcomeUnknownError):
            await zk.get("/")

    asyncio.run(scenario())
