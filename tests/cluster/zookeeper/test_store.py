"""The metadata log in a real ZooKeeper: commits, zombies, missed watches, lost responses, snapshots, wiping."""

import asyncio
import json
import logging

import pytest

from barnabas.cluster.deltas import (
    AclsChanged,
    ClientQuotasChanged,
    ClusterCreated,
    ConfigsChanged,
    ControllerElected,
    DelegationTokenRemoved,
    DelegationTokenStored,
    Delta,
    FeatureFinalized,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    TopicCreated,
    apply,
)
from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL
from barnabas.cluster.image import EMPTY_IMAGE, ConfigResourceType, PartitionState, TopicState
from barnabas.cluster.snapshots import DamagedMetadataError
from barnabas.cluster.store import StaleControllerError
from barnabas.cluster.zookeeper import store as zookeeper_store
from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from barnabas.cluster.zookeeper.store import ZooKeeperMetadataStore
from barnabas.cluster.zookeeper.types import SessionState, WipedZooKeeperError, ZooKeeperUnusableError
from barnabas.common.types import new_uuid
from barnabas.security.authn.credentials import DelegationToken, ScramCredential
from barnabas.security.authz.acls import AclBinding
from barnabas.security.quotas.filters import QuotaEntity
from tests.cluster.zookeepers import expire, member
from tests.support.proxies import Proxy
from tests.support.waiting import async_until


def ids(number: int) -> list[Delta]:
    return [ProducerIdsAllocated(number)]


def behind(proxy: Proxy, root: str) -> str:
    return f"{proxy.address}/{root.partition('/')[2]}"


def test_every_broker_applies_the_entries_of_a_controller_in_order(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            assert (await two.store.load()).offset == 0
            two.follow()
            epoch = await one.be_elected()
            for number in range(1, 251):
                assert await one.store.append(number - 1, epoch, ids(number)) == number
            await async_until(lambda: len(two.entries) == 250)
            assert two.entries == [(number, ids(number)) for number in range(1, 251)]
            image = await two.store.load()
            assert (image.offset, image.next_producer_id) == (250, 250)
            assert await two.store.head() == 250

    asyncio.run(scenario())


def test_controller_sees_its_own_entries_once_and_before_append_returns(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.store.load()
            one.follow()
            epoch = await one.be_elected()
            await one.store.append(0, epoch, ids(1))
            assert one.entries == [(1, ids(1))]
            await one.store.append(1, epoch, ids(2))
            assert [offset for offset, _ in one.entries] == [1, 2]

    asyncio.run(scenario())


def test_a_change_for_another_image_is_refused(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            epoch = await one.be_elected()
            await one.store.append(0, epoch, ids(1))
            for offset in (0, 2):
                with pytest.raises(StaleControllerError, match="at offset 1"):
                    await one.store.append(offset, epoch, ids(7))

    asyncio.run(scenario())


def test_a_zombie_controller_is_refused(root: str) -> None:
    """It has been frozen since before its successor was elected, and knows nothing of that."""

    async def scenario() -> None:
        async with member(root, 1) as zombie, member(root, 2) as successor:
            old = await zombie.be_elected()
            await zombie.store.append(0, old, ids(1))
            # Stopped first: a watch that arrives before the answer to the delete would let it elect itself again.
            zombie.membership._candidacy.poller.stop()  # type: ignore[union-attr]
            await successor.zk.delete("/controller")
            new = await successor.be_elected()
            assert new == old + 1
            with pytest.raises(StaleControllerError, match=f"epoch {old} is stale"):
                await zombie.store.append(1, old, ids(2))
            assert await successor.store.append(1, new, ids(3)) == 2

    asyncio.run(scenario())


def test_reelected_controller_continues(root: str) -> None:
    """Its last conditional write has expired and must not block it."""

    async def scenario() -> None:
        async with member(root, 1) as one:
            old = await one.be_elected()
            await one.store.append(0, old, ids(1))
            await one.zk.delete("/controller")
            await async_until(lambda: one.epochs[-1] == old + 1)
            assert await one.store.append(1, old + 1, ids(2)) == 2

    asyncio.run(scenario())


def test_only_one_of_two_that_take_each_other_for_dead_gets_its_entry_in(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            epoch = await one.be_elected()
            await one.store.append(0, epoch, ids(1))
            results = await asyncio.gather(
                one.store.append(1, epoch, ids(2)), two.store.append(1, epoch, ids(3)), return_exceptions=True
            )
            assert sorted(map(repr, map(type, results))) == sorted(map(repr, (int, StaleControllerError)))
            assert await one.store.head() == 2

    asyncio.run(scenario())


def test_an_entry_whose_answer_was_lost_is_found_and_not_written_twice(
    zookeeper: ZooKeeperProcess, root: str
) -> None:
    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with member(behind(proxy, root), 1, session_timeout=6) as one:
                epoch = await one.be_elected()
                await one.store.append(0, epoch, ids(1))
                multi = one.zk.multi

                async def cut_behind(operations: list) -> None:  # type: ignore[type-arg]
                    one.zk.multi = multi  # type: ignore[method-assign]
                    await multi(operations)
                    proxy.cut()
                    asyncio.get_running_loop().call_later(0.3, proxy.heal)
                    await one.zk.get("/")  # fails as the multi would have

                one.zk.multi = cut_behind  # type: ignore[method-assign]
                assert await one.store.append(1, epoch, ids(2)) == 2
                assert await one.store.append(2, epoch, ids(3)) == 3

    asyncio.run(scenario())


def test_a_controller_that_is_cut_off_gives_up_its_write(zookeeper: ZooKeeperProcess, root: str) -> None:
    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with member(behind(proxy, root), 1) as one:
                epoch = await one.be_elected()
                await one.store.append(0, epoch, ids(1))
                proxy.freeze()
                with pytest.raises(StaleControllerError, match="cut off"):
                    await one.store.append(1, epoch, ids(2))

    asyncio.run(scenario())


def test_records_written_while_a_broker_was_down_are_caught_up(
    zookeeper: ZooKeeperProcess, root: str
) -> None:
    """Watches that fired meanwhile are lost."""

    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with member(root, 1) as one, member(behind(proxy, root), 2, session_timeout=6) as two:
                await two.store.load()
                two.follow()
                epoch = await one.be_elected()
                await one.store.append(0, epoch, ids(1))
                await async_until(lambda: len(two.entries) == 1)
                proxy.cut()
                for number in range(2, 20):
                    await one.store.append(number - 1, epoch, ids(number))
                proxy.heal()
                await async_until(lambda: len(two.entries) == 19)
                assert [offset for offset, _ in two.entries] == list(range(1, 20))

    asyncio.run(scenario())


def test_a_connection_that_breaks_while_the_metadata_are_loaded_is_no_failure(
    zookeeper: ZooKeeperProcess, root: str
) -> None:
    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with member(behind(proxy, root), 1, session_timeout=25) as one:
                proxy.cut()
                await async_until(lambda: one.zk.link is SessionState.SUSPENDED)
                asyncio.get_running_loop().call_later(0.3, proxy.heal)
                assert (await one.store.load()).offset == 0

    asyncio.run(scenario())


def test_following_continues_in_a_new_session(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            await two.store.load()
            two.follow()
            epoch = await one.be_elected()
            await expire(two.zk)
            await one.store.append(0, epoch, ids(1))
            await async_until(lambda: two.entries)
            assert two.entries == [(1, ids(1))]

    asyncio.run(scenario())


def test_an_entry_of_many_megabytes_is_one_entry(root: str) -> None:
    partitions = tuple(PartitionState((1, 2, 3), (1, 2, 3), 1) for _ in range(40_000))
    topic = TopicState("large", new_uuid(), partitions)

    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            await two.store.load()
            two.follow()
            epoch = await one.be_elected()
            await one.store.append(0, epoch, [TopicCreated(topic)])
            await async_until(lambda: two.entries == [(1, [TopicCreated(topic)])])
            assert (await two.store.load()).topics["large"] == topic

    asyncio.run(scenario())


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_store, "SNAPSHOT_AT_ENTRIES", 10)
    monkeypatch.setattr(zookeeper_store, "ENTRIES_KEPT", 5)


@pytest.mark.usefixtures("small_limits")
def test_a_snapshot_replaces_old_entries(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            await one.store.load()
            epoch = await one.be_elected()
            values: dict[str, str | None] = {"retention.ms": "7"}
            configs: list[Delta] = [
                ConfigsChanged(ConfigResourceType.TOPIC, "t", values),
                ControllerElected(1, epoch),
            ]
            await one.store.append(0, epoch, configs)
            for number in range(2, 15):
                await one.store.append(number - 1, epoch, ids(number))
            is_long = one.store.wants_snapshot
            assert is_long
            before = await one.store.load()
            await one.store.save_snapshot(before)
            assert not one.store.wants_snapshot
            await one.store.append(14, epoch, ids(15))
            left = sorted(int(name) for name in await one.zk.children("/barnabas/log"))
            assert left == list(range(10, 16))
            loaded = await two.store.load()
            assert loaded.offset == 15
            assert loaded.configs == before.configs
            assert loaded.next_producer_id == 15

    asyncio.run(scenario())


@pytest.mark.usefixtures("small_limits")
def test_old_snapshots_are_removed(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.store.load()
            epoch = await one.be_elected()
            for number in range(1, 5):
                await one.store.append(number - 1, epoch, ids(number))
                await one.store.save_snapshot(await one.store.load())
            assert len(await one.zk.children("/barnabas/snapshots")) == 2

    asyncio.run(scenario())


@pytest.mark.usefixtures("small_limits")
def test_a_broker_that_fell_behind_a_snapshot_jumps_to_it(zookeeper: ZooKeeperProcess, root: str) -> None:
    topic = TopicState("new", new_uuid(), (PartitionState((1,), (1,), 1),))

    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with member(root, 1) as one, member(behind(proxy, root), 2, session_timeout=6) as two:
                await one.store.load()
                await two.store.load()
                two.follow()
                epoch = await one.be_elected()
                await one.store.append(0, epoch, ids(1))
                await async_until(lambda: len(two.entries) == 1)
                proxy.cut()
                await one.store.append(1, epoch, [TopicCreated(topic)])
                for number in range(3, 30):
                    await one.store.append(number - 1, epoch, ids(number))
                await one.store.save_snapshot(await one.store.load())
                proxy.heal()
                await async_until(lambda: len(two.entries) == 29)
                assert [offset for offset, _ in two.entries] == list(range(1, 30))
                assert TopicCreated(topic) in two.entries[1][1]

    asyncio.run(scenario())


def test_a_log_with_a_hole_is_refused_and_not_followed(root: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two, member(root, 3) as three:
            await two.store.load()
            epoch = await one.be_elected()
            for number in (1, 2, 3):
                await one.store.append(number - 1, epoch, ids(number))
            await one.zk.delete("/barnabas/log/0000000002")
            two.follow()
            await async_until(lambda: "cannot follow the metadata log" in caplog.text)
            with pytest.raises(DamagedMetadataError, match="Restore"):
                await three.store.load()

    asyncio.run(scenario())


def test_cluster_id_is_in_kafkas_node(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.store.load()
            epoch = await one.be_elected()
            await one.store.append(0, epoch, [ClusterCreated("the-id")])
            assert json.loads((await one.zk.get("/cluster/id")).data) == {"version": "1", "id": "the-id"}

    asyncio.run(scenario())


def test_an_empty_zookeeper_is_refused_for_a_folder_of_a_cluster(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1, cluster="the-id") as one:
            with pytest.raises(WipedZooKeeperError, match=r"holds no cluster.*the-id.*cluster adopt"):
                await one.store.load()

    asyncio.run(scenario())


def test_a_zookeeper_of_another_cluster_is_refused(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2, cluster="mine") as two:
            await one.store.load()
            epoch = await one.be_elected()
            await one.store.append(0, epoch, [ClusterCreated("theirs")])
            with pytest.raises(WipedZooKeeperError, match=r"holds cluster theirs.*mine"):
                await two.store.load()

    asyncio.run(scenario())


def test_a_newer_format_is_refused(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.zk.create("/barnabas", b'{"format":99}')
            with pytest.raises(ZooKeeperUnusableError, match=r"format level 99.*upgrade"):
                await one.store.load()

    asyncio.run(scenario())


def test_a_raised_level_keeps_out_brokers_that_do_not_know_it(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as older:
            epoch = await one.be_elected()
            await one.store.append(0, epoch, [FeatureFinalized(METADATA_VERSION, 1)])
            await older.store.load()
            await one.store.append(1, epoch, [FeatureFinalized(METADATA_VERSION, NEWEST_LEVEL + 1)])
            next_level = NEWEST_LEVEL + 1
            assert json.loads((await one.zk.get("/barnabas")).data) == {"format": next_level}
            words = rf"format level {next_level}.*supports {NEWEST_LEVEL}.*upgrade"
            with pytest.raises(ZooKeeperUnusableError, match=words):
                await older.store.load()
            newer = ZooKeeperMetadataStore(older.zk, older.identity, newest_level=NEWEST_LEVEL + 1)
            assert (await newer.load()).features == {METADATA_VERSION: NEWEST_LEVEL + 1}

    asyncio.run(scenario())


def test_a_zookeeper_that_is_wiped_under_running_brokers_gets_nothing_from_them(
    own_zookeeper: ZooKeeperProcess, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        connect = f"{own_zookeeper.start().address}/root"
        async with member(connect, 1) as one:
            await one.store.load()
            one.follow()
            await one.join()
            epoch = await one.be_elected()
            await one.store.append(0, epoch, [ClusterCreated("the-id")])
            one.identity.expected = "the-id"
            await asyncio.to_thread(own_zookeeper.stop)
            for path in (own_zookeeper.folder / "data").rglob("*.*"):
                path.unlink()
            await asyncio.to_thread(own_zookeeper.start)
            await async_until(lambda: one.fenced == 1)
            rejoining = asyncio.ensure_future(one.join())
            await async_until(lambda: "holds no cluster" in caplog.text)
            assert one.resigned == 1
            assert not one.is_controller
            assert one.membership.is_fenced
            assert await one.zk.exists("/controller") is None
            assert await one.zk.exists("/brokers/ids/1") is None
            rejoining.cancel()

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(scenario())


def test_acls_users_tokens_and_quotas_survive_in_the_log_and_in_a_snapshot(root: str) -> None:
    acl = AclBinding(2, "orders", 4, "User:alice", "10.0.0.0/8", 3, 3)
    token = DelegationToken("id", "User:alice", "User:bob", ("User:carol",), 1, 2, 3)
    kept = ScramCredential(b"salt", bytes(range(32)), b"server", 4096)
    deltas: list[Delta] = [
        AclsChanged(added=(acl,)),
        ScramCredentialChanged("alice", 1, kept),
        DelegationTokenStored(token),
        ClientQuotasChanged(QuotaEntity("alice", ""), {"request_percentage": 12.5}),
    ]

    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            epoch = await one.be_elected()
            await one.store.append(0, epoch, deltas)
            expected = apply(EMPTY_IMAGE, deltas)
            from_the_log = await two.store.load()
            assert from_the_log == expected
            await one.store.save_snapshot(from_the_log)
            await one.store.append(1, epoch, [AclsChanged(removed=(acl,)), DelegationTokenRemoved("id")])
            from_a_snapshot = await two.store.load()
            assert (from_a_snapshot.acls, from_a_snapshot.delegation_tokens) == (frozenset(), {})
            assert from_a_snapshot.scram_credentials == expected.scram_credentials
            assert from_a_snapshot.client_quotas == expected.client_quotas

    asyncio.run(scenario())
