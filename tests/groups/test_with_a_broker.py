"""Groups in a complete broker: metadata changes and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from barnabas.protocol.messages.share import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.testing import EmbeddedBroker
from tests.groups.consumer.talks import ConsumerTalk, joining
from tests.groups.test_same_answers_as_kafka import commits
from tests.support.groups.conversations import Talk

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


async def committed(talk: Talk, group: str) -> dict[str, list[int]]:
    answer = await talk.ask(OffsetFetchRequest(group, None), 7)
    return {topic.name: [one.committed_offset for one in topic.partitions] for topic in answer.topics}


def test_offsets_go_with_their_topic() -> None:
    async def scenario(address: str) -> None:
        talk = Talk(address)
        await talk.begin("group")
        topics = [commits("orders", (0, 5), (1, 6)), commits("bills", (0, 7))]
        await talk.ask(OffsetCommitRequest("group", topics=topics), 8)
        assert await committed(talk, "group") == {"orders": [5, 6], "bills": [7]}
        await talk.ask(DeleteTopicsRequest([DeleteTopicState("orders")], timeout_ms=30_000), 6)
        assert await committed(talk, "group") == {"bills": [7]}
        talk.close()

    with EmbeddedBroker() as broker:
        asyncio.run(scenario(broker.bootstrap_servers))


def test_groups_and_offsets_outlive_a_restart() -> None:
    async def before(address: str) -> str:
        talk = Talk(address)
        await talk.begin("group")
        joined = await talk.settle("group", session=60_000)
        request = OffsetCommitRequest(
            "group", joined.generation_id, joined.member_id, topics=[commits("orders", (0, 5))]
        )
        answer = await talk.ask(request, 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        talk.close()
        return joined.member_id

    async def after(address: str, member_id: str) -> None:
        talk = Talk(address)
        await talk.begin("group")
        assert await committed(talk, "group") == {"orders": [5]}
        answer = await talk.ask(DescribeGroupsRequest(["group"]), 5)
        (member,) = answer.groups[0].members
        assert (answer.groups[0].group_state, member.member_id) == ("Stable", member_id)
        assert member.member_assignment == b"all"
        talk.close()

    with EmbeddedBroker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        member_id = asyncio.run(before(broker.bootstrap_servers))
        broker.restart()
        asyncio.run(after(broker.bootstrap_servers, member_id))


def test_the_first_question_for_a_coordinator_creates_its_topic_and_is_answered() -> None:
    async def scenario(address: str, port: int) -> None:
        talk = Talk(address)
        connection = await talk.open()
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
            answer = await connection.send(request, 4)
            assert [(one.error_code, one.node_id, one.port) for one in answer.coordinators] == [
                (0, 1, port)
            ] * 2
        assert (await connection.send(ListGroupsRequest(), 5)).groups == []
        talk.close()

    with EmbeddedBroker(settings={"offsets.topic.num.partitions": "50"}) as broker:
        asyncio.run(scenario(broker.bootstrap_servers, broker.port))
        image = broker.broker.image
        assert len(image.topics["__consumer_offsets"].partitions) == 50
        assert image.topic_configs("__consumer_offsets")["cleanup.policy"] == "compact"


def test_failed_group_deletion_returns_a_reason() -> None:
    async def scenario(address: str) -> None:
        talk = Talk(address)
        await talk.begin("busy")
        await talk.settle("busy", session=60_000)
        await talk.ask(OffsetCommitRequest("idle", topics=[commits("orders", (0, 5))]), 8)
        request = DeleteGroupsRequest(["busy", "idle", "nobody"])
        for version in (2, 3):
            answer = await talk.ask(request, version)
            codes = {one.group_id: one.error_code for one in answer.results}
            assert codes["busy"] == ErrorCode.NON_EMPTY_GROUP
            assert codes["nobody"] == ErrorCode.GROUP_ID_NOT_FOUND
            assert codes["idle"] == (ErrorCode.NONE if version == 2 else ErrorCode.GROUP_ID_NOT_FOUND)
        reason = {one.group_id: one.error_message for one in answer.results}
        assert reason["nobody"] == "Group nobody not found."
        assert reason["busy"] == "Group busy has members. Stop them first."
        talk.close()

    with EmbeddedBroker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        asyncio.run(scenario(broker.bootstrap_servers))


@pytest.mark.parametrize("settings", [{}, AUTHORIZED], ids=["without an authorizer", "with one"])
def test_heartbeats_of_an_unchanged_member_write_no_records(settings: dict[str, str]) -> None:
    async def scenario(address: str, log_ends: Callable[[], dict[int, int]]) -> None:
        talk = ConsumerTalk(address)
        await talk.begin("group")
        await talk.say(joining("group", "a", "orders"))
        await talk.stay("group", "a")
        share: dict[str, Any] = {"group_id": "shared", "member_id": "b", "subscribed_topic_names": ["orders"]}
        epoch = 0
        for _ in range(3):
            answer = await talk.ask(ShareGroupHeartbeatRequest(member_epoch=epoch, **share), 1)
            epoch = answer.member_epoch
        before = log_ends()
        for _ in range(3):
            await talk.nod("group", "a")
            await talk.stay("group", "a")
            await talk.ask(ShareGroupHeartbeatRequest(member_epoch=epoch, **share), 1)
        assert log_ends() == before
        talk.close()

    with EmbeddedBroker(settings=settings) as broker:

        def log_ends() -> dict[int, int]:
            partitions = broker.broker.replicas.by_name["__consumer_offsets"]
            return {index: partition.log.log_end_offset for index, partition in partitions.items()}

        broker.create_topic("orders")
        asyncio.run(scenario(broker.bootstrap_servers, log_ends))
