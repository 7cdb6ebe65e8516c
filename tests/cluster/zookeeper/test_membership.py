"""Broker membership and controller election over a real ZooKeeper."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from barnabas.cluster.zookeeper.membership import DuplicateBrokerError
from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from barnabas.cluster.zookeeper.types import OutcomeUnknownError, ZooKeeperUnusableError
from tests.cluster.zookeepers import expire, member, time_for_a_wrong_move
from tests.support.proxies import Proxy
from tests.support.waiting import async_until


def behind(proxy: Proxy, root: str) -> str:
    return f"{proxy.address}/{root.partition('/')[2]}"


def test_brokers_see_each_other_come_and_go(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            one.watch()
            first = await one.join()
            await async_until(lambda: set(one.brokers) == {1})
            async with member(root, 2) as two:
                second = await two.join()
                await async_until(lambda: set(one.brokers) == {1, 2})
                assert one.brokers[2].endpoints == two.info.endpoints
                assert one.brokers[2].epoch == second > first
            await async_until(lambda: set(one.brokers) == {1})

    asyncio.run(scenario())


def test_a_registration_reads_like_one_of_kafka(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            epoch = await one.join()
            node = await one.zk.get("/brokers/ids/1")
            found = json.loads(node.data)
            assert found["version"] == 5
            assert (found["host"], found["port"]) == ("127.0.0.1", 9092)
            assert found["endpoints"] == ["PLAINTEXT://127.0.0.1:9092"]
            assert found["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT"}
            assert node.stat.czxid == epoch

    asyncio.run(scenario())


def test_a_restart_that_is_faster_than_the_old_session_takes_over_its_node(root: str) -> None:
    """After kill -9 the old session lasts for its timeout. The owner of the data folder knows that it is dead."""

    async def scenario() -> None:
        async with (
            member(root, 1, owner="folder", session_timeout=10) as dead,
            member(root, 1, owner="folder", session_timeout=10) as restarted,
        ):
            before = await dead.join()
            async with asyncio.timeout(5):
                assert await restarted.join() > before
            await async_until(lambda: restarted.zk.session_id != dead.zk.session_id)
            assert (await dead.zk.get("/brokers/ids/1")).stat.owner == restarted.zk.session_id

    asyncio.run(scenario())


def test_broker_waits_until_its_previous_session_has_ended(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as other:
            async with member(root, 1) as former:
                before = await former.join()
                joining = asyncio.ensure_future(other.join())
                await time_for_a_wrong_move(other.zk)
                assert not joining.done()
            assert await joining > before

    asyncio.run(scenario())


def test_two_brokers_with_one_id_are_refused_with_the_address_of_the_other(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 1) as other:
            await one.join()
            with pytest.raises(DuplicateBrokerError, match=r"node\.id 1 .*127\.0\.0\.1:9092"):
                await other.join()

    asyncio.run(scenario())


def test_a_registration_whose_answer_was_lost_does_not_lock_the_broker_out(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.join()
            await expire(one.zk)
            await async_until(lambda: one.fenced == 1)
            create = one.zk.create

            async def create_without_answer(*arguments: Any, **options: Any) -> Any:
                one.zk.create = create  # type: ignore[method-assign]
                await create(*arguments, **options)
                raise OutcomeUnknownError("no answer")

            one.zk.create = create_without_answer  # type: ignore[method-assign]
            async with asyncio.timeout(2):
                epoch = await one.join()
            assert (await one.zk.get("/brokers/ids/1")).stat.czxid == epoch

    asyncio.run(scenario())


def test_two_brokers_at_one_address_are_refused(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two:
            await one.join()
            two.info = replace(two.info, endpoints=one.info.endpoints)
            with pytest.raises(ZooKeeperUnusableError, match=r"broker 1 .*127\.0\.0\.1:9092.*--listen"):
                await two.join()

    asyncio.run(scenario())


def test_an_expired_session_fences_and_joining_again_gives_a_new_epoch(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            first = await one.join()
            before = one.membership.is_fenced
            assert not before
            await expire(one.zk)
            await async_until(lambda: one.fenced == 1)
            expired = one.membership.is_fenced
            assert expired
            assert await one.join() > first
            assert not one.membership.is_fenced
            assert one.fenced == 1

    asyncio.run(scenario())


def test_a_broker_whose_node_was_deleted_is_fenced_and_may_join_again(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            first = await one.join()
            await one.zk.delete("/brokers/ids/1")
            await async_until(lambda: one.fenced == 1)
            assert await one.join() > first
            assert not one.membership.is_fenced

    asyncio.run(scenario())


def test_a_copy_of_a_data_folder_does_not_fight_for_the_node_forever(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1, owner="folder") as original, member(root, 1, owner="folder") as copy:
            await original.join()
            await copy.join()
            await async_until(lambda: original.fenced == 1)
            with pytest.raises(DuplicateBrokerError):
                await original.join()
            assert not copy.membership.is_fenced

    asyncio.run(scenario())


def test_isolated_broker_is_fenced_before_others_take_over(zookeeper: ZooKeeperProcess, root: str) -> None:
    async def scenario() -> None:
        with Proxy(zookeeper.host, zookeeper.port) as proxy:
            async with member(behind(proxy, root), 1) as cut_off, member(root, 2) as two:
                two.watch()
                await cut_off.join()
                await cut_off.be_elected()
                two.campaign()
                await async_until(lambda: set(two.brokers) == {1})
                proxy.freeze()
                fenced_when_removed: list[bool] = []
                await async_until(lambda: set(two.brokers) == set())
                fenced_when_removed.append(cut_off.membership.is_fenced)
                await async_until(lambda: two.is_controller)
                assert fenced_when_removed == [True]
                assert cut_off.fenced == 1
                assert not cut_off.is_controller
                proxy.heal()
                await cut_off.join()
                await async_until(lambda: set(two.brokers) == {1})
                assert two.is_controller

    asyncio.run(scenario())


def test_one_is_elected_and_another_takes_over_with_the_next_epoch(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 2) as two:
            async with member(root, 1) as one:
                first = await one.be_elected()
                two.campaign()
                await time_for_a_wrong_move(two.zk)
                assert not two.is_controller
                assert json.loads((await two.zk.get("/controller")).data)["brokerid"] == 1
            await async_until(lambda: two.is_controller)
            assert two.epochs == [first + 1]
            assert (await two.zk.get("/controller_epoch")).data == str(first + 1).encode()

    asyncio.run(scenario())


def test_of_many_candidates_one_is_elected(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one, member(root, 2) as two, member(root, 3) as three:
            candidates = (one, two, three)
            await one.store.load()
            for candidate in candidates:
                candidate.campaign()
            await async_until(lambda: any(candidate.is_controller for candidate in candidates))
            await time_for_a_wrong_move(three.zk)
            assert sum(candidate.is_controller for candidate in candidates) == 1
            assert sum(len(candidate.epochs) for candidate in candidates) == 1

    asyncio.run(scenario())


def test_deleting_the_controller_node_makes_for_another_election(root: str) -> None:
    """The usual way to move Kafka's controller."""

    async def scenario() -> None:
        async with member(root, 1) as one:
            first = await one.be_elected()
            await one.zk.delete("/controller")
            await async_until(lambda: len(one.epochs) == 2)
            assert one.resigned == 1
            assert one.epochs == [first, first + 1]

    asyncio.run(scenario())


def test_resigning_controller_lets_others_try_first_and_becomes_a_candidate_again(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            first = await one.be_elected()
            async with member(root, 2) as two:
                await two.store.load()
                two.campaign()
                one.membership.step_down()
                assert one.resigned == 1
                await async_until(lambda: two.is_controller)
                assert (one.epochs, two.epochs) == ([first], [first + 1])
            await async_until(lambda: len(one.epochs) == 2)

    asyncio.run(scenario())


def test_controller_with_an_expired_session_resigns_and_becomes_a_candidate_again(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.join()
            await one.be_elected()
            await expire(one.zk)
            await async_until(lambda: one.resigned == 1)
            await async_until(lambda: len(one.epochs) == 2)
            assert one.epochs[1] > one.epochs[0]

    asyncio.run(scenario())


def test_a_claim_whose_answer_was_lost_leads_to_a_term_all_the_same(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1) as one:
            await one.store.load()
            # As if our own claim had been carried out and its answer had not reached us.
            await one.zk.create("/controller", b'{"brokerid":1,"timestamp":"0"}', ephemeral=True)
            one.campaign()
            await async_until(lambda: one.is_controller)
            assert len(one.epochs) == 1

    asyncio.run(scenario())


def test_a_restarted_controller_does_not_wait_for_its_dead_session(root: str) -> None:
    async def scenario() -> None:
        async with (
            member(root, 1, owner="folder", session_timeout=10) as dead,
            member(root, 1, owner="folder", session_timeout=10) as restarted,
        ):
            before = await dead.be_elected()
            dead.membership._candidacy.poller.stop()  # type: ignore[union-attr]
            restarted.campaign()
            await async_until(lambda: restarted.is_controller, seconds=5)
            assert restarted.epochs[0] > before

    asyncio.run(scenario())


def test_members_survive_a_restart_of_zookeeper(own_zookeeper: ZooKeeperProcess) -> None:
    async def scenario() -> None:
        connect = f"{own_zookeeper.start().address}/root"
        async with (
            member(connect, 1, session_timeout=60) as one,
            member(connect, 2, session_timeout=60) as two,
        ):
            two.watch()
            await one.join()
            await two.join()
            epoch = await one.be_elected()
            await async_until(lambda: set(two.brokers) == {1, 2})
            await asyncio.to_thread(own_zookeeper.stop)
            await asyncio.to_thread(own_zookeeper.start)
            await one.store.append(0, epoch, [])
            assert (one.fenced, two.fenced, one.resigned) == (0, 0, 0)
            assert set(two.brokers) == {1, 2}

    asyncio.run(scenario())
