"""The same group and offset requests to Apache Kafka and Barnabas must get the same responses.

Member ids are compared by their order of appearance. What differs on purpose is not asked here: FindCoordinator
waits for its topic, where Kafka wants to be asked again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from barnabas.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.support.groups.comparing import Addresses, assert_same_answers, kafka_and_barnabas
from tests.support.groups.conversations import MIN_SESSION_MS, Scenario, Talk, join_request

pytestmark = pytest.mark.java

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.max.size": "3", "offset.metadata.max.bytes": "50"}


async def bad_joins(talk: Talk) -> None:
    await talk.begin("bad")
    for version in range(10):
        await talk.ask(join_request(""), version)
        await talk.ask(join_request("bad", session=MIN_SESSION_MS - 1), version)
        await talk.ask(join_request("bad", session=1_800_001), version)
        await talk.ask(join_request("bad", "nobody"), version)
        await talk.ask(join_request("bad", protocols={}), version)
        await talk.ask(join_request("bad", protocol_type=""), version)
    await talk.ask(join_request("bad", "nobody", instance="i"), 9)


async def lone_members(talk: Talk) -> None:
    groups = [f"lone-{version}" for version in range(10)]
    await talk.begin(*groups)
    for version, group in enumerate(groups):
        joined = await talk.ask(join_request(group), version)
        if joined.error_code:
            joined = await talk.ask(join_request(group, joined.member_id), version)
        await talk.ask(DescribeGroupsRequest(groups=[group]), 5)
        request = SyncGroupRequest(group, joined.generation_id, joined.member_id)
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        await talk.ask(request, min(version, 5))
        await talk.ask(request, min(version, 5))
        await talk.ask(DescribeGroupsRequest(groups=[group]), 5)
        await talk.ask(HeartbeatRequest(group, joined.generation_id, joined.member_id), min(version, 4))
        if version < 3:
            leave = LeaveGroupRequest(group, joined.member_id)
        else:
            leave = LeaveGroupRequest(group, members=[MemberIdentity(joined.member_id)])
        await talk.ask(leave, min(version, 5))
        await talk.ask(leave, min(version, 5))
        await talk.ask(DescribeGroupsRequest(groups=[group]), 5)


async def wrong_members(talk: Talk) -> None:
    await talk.begin("strict", "other")
    joined = await talk.join("strict")
    await talk.heartbeat("strict", joined)
    await talk.heartbeat("other", joined)
    await talk.heartbeat("strict", joined, generation_id=7)
    await talk.heartbeat("strict", joined, member_id="x")
    await talk.heartbeat("strict", joined, group_instance_id="x")
    await talk.ask(HeartbeatRequest(""), 4)
    for protocol_type, name in (("consumer", "range"), ("connect", "range"), ("consumer", "x"), (None, None)):
        for generation, member in ((1, joined.member_id), (2, joined.member_id), (1, "x")):
            request = SyncGroupRequest("other", generation, member, None, protocol_type, name)
            await talk.ask(request, 5)
            if (protocol_type, name, generation, member) != ("consumer", "range", 1, joined.member_id):
                request = SyncGroupRequest("strict", generation, member, None, protocol_type, name)
                await talk.ask(request, 5)
    await talk.ask(SyncGroupRequest(""), 3)
    await talk.ask(join_request("strict", joined.member_id), 7)  # the same again, before the sync
    await talk.sync("strict", joined, {joined.member_id: b"mine", "stranger": b"not mine"})
    await talk.ask(join_request("strict", protocols={"other": b""}), 7)
    await talk.ask(join_request("strict", protocol_type="connect"), 7)
    await talk.ask(join_request("strict", joined.member_id), 7)  # a leader that rejoins gets a new generation
    await talk.heartbeat("strict", joined)


async def pending_members(talk: Talk) -> None:
    await talk.begin("pending")
    first = await talk.ask(join_request("pending"), 4)
    await talk.ask(HeartbeatRequest("pending", 0, first.member_id), 4)
    leave = [MemberIdentity(first.member_id), MemberIdentity(first.member_id), MemberIdentity("x")]
    await talk.ask(LeaveGroupRequest("pending", members=leave), 5)
    await talk.ask(join_request("pending", first.member_id), 4)
    await talk.ask(LeaveGroupRequest("", members=leave), 5)
    await talk.ask(LeaveGroupRequest("pending", members=[]), 5)


async def rebalances(talk: Talk) -> None:
    await talk.begin("two")
    first = await talk.settle("two", protocols={"a": b"1", "b": b"2"})
    second_id = (await talk.ask(join_request("two", protocols={"b": b"3", "c": b"4"}), 7)).member_id
    waiting = await talk.ask_aside(join_request("two", second_id, protocols={"b": b"3", "c": b"4"}), 7)
    await talk.until_described("two", lambda group: group.group_state == "PreparingRebalance")
    await talk.heartbeat("two", first)
    await talk.ask(DescribeGroupsRequest(groups=["two"]), 5)
    await talk.sync("two", first, {})
    again = await talk.ask(join_request("two", first.member_id, protocols={"a": b"1", "b": b"2"}), 7)
    (second,) = await talk.hear(waiting)
    follower = await talk.ask_aside(SyncGroupRequest("two", second.generation_id, second.member_id), 4)
    await talk.heartbeat("two", second)
    await talk.ask(OffsetCommitRequest("two", 2, second.member_id, topics=[commits("orders", (0, 1))]), 8)
    await talk.sync("two", again, {again.member_id: b"A", second.member_id: b"B"})
    await talk.hear(follower)
    await talk.ask(DescribeGroupsRequest(groups=["two"]), 5)
    await talk.ask(join_request("two", second.member_id, protocols={"b": b"3", "c": b"4"}), 7)
    leave = LeaveGroupRequest("two", members=[MemberIdentity(again.member_id, None, "enough")])
    await talk.ask(leave, 5)
    await talk.heartbeat("two", second)
    third = await talk.ask(join_request("two", second.member_id, protocols={"b": b"3", "c": b"4"}), 7)
    await talk.sync("two", third, {third.member_id: b"C"})
    await talk.ask(DescribeGroupsRequest(groups=["two"]), 5)


async def full_groups(talk: Talk) -> None:
    await talk.begin("full")
    # The members wait until the rebalance timeout of the first one.
    await talk.settle("full", rebalance=5000)
    ids = [(await talk.ask(join_request("full", rebalance=5000), 7)).member_id for _ in range(3)]
    waiting = []
    for members, member in enumerate(ids[:2], 2):
        waiting.append(await talk.ask_aside(join_request("full", member, rebalance=5000), 7))
        await talk.until_described("full", lambda group, count=members: len(group.members) == count)  # type: ignore[misc]
    late = await talk.ask_aside(join_request("full", ids[2], rebalance=5000), 7)
    # Which of the joined members leads is up to the order of Java's hash map.
    talk.heard.append(("errors", [(await task).error_code for task in (*waiting, late)]))


async def static_members(talk: Talk) -> None:
    await talk.begin("static")
    joined = await talk.ask(join_request("static", instance="one"), 7)
    await talk.sync("static", joined, {joined.member_id: b"mine"})
    for version in (5, 7, 8, 9):
        back = await talk.ask(join_request("static", instance="one"), version)
        await talk.heartbeat("static", joined, group_instance_id="one")
        await talk.heartbeat("static", joined)
        await talk.sync("static", back, {})
        await talk.heartbeat("static", back, group_instance_id="one")
        await talk.ask(join_request("static", joined.member_id, instance="one"), 9)
        joined = back
    await talk.ask(DescribeGroupsRequest(groups=["static"]), 5)
    await talk.ask(OffsetCommitRequest("static", 1, "old", "one", topics=[commits("orders", (0, 1))]), 8)
    changed = await talk.ask(
        join_request("static", instance="one", protocols={"range": b"", "sticky": b""}), 9
    )
    await talk.ask(join_request("static", instance="one", protocols={"sticky": b""}), 9)
    await talk.ask(join_request("static", changed.member_id, instance="two"), 9)
    strangers = [MemberIdentity("", "nobody"), MemberIdentity("", None), MemberIdentity("x", "one")]
    await talk.ask(LeaveGroupRequest("static", members=strangers), 5)
    await talk.ask(LeaveGroupRequest("static", members=[MemberIdentity("", "one")]), 5)
    await talk.ask(DescribeGroupsRequest(groups=["static"]), 5)


def commits(topic: str, *offsets: tuple[int, int], metadata: str | None = "m") -> OffsetCommitRequestTopic:
    rows = [OffsetCommitRequestPartition(index, offset, 4, metadata) for index, offset in offsets]
    return OffsetCommitRequestTopic(topic, partitions=rows)


async def offsets(talk: Talk) -> None:
    await talk.begin("simple", "unknown", "")
    ids = await topic_ids(talk, "orders", "bills")
    for version in range(2, 11):
        topics = [
            commits("orders", (0, version), (1, 100), (9, 1)),
            commits("nowhere", (0, 1)),
            commits("bills", (0, 5), metadata="x" * 51),
        ]
        topics[2].partitions += [
            OffsetCommitRequestPartition(1, 5, -1, None),
            OffsetCommitRequestPartition(2, 5, -1, "x" * 50),
        ]
        for topic in topics:
            topic.topic_id = ids.get(topic.name, b"x" * 16)
        await talk.ask(OffsetCommitRequest("simple", topics=topics), version)
        await talk.ask(OffsetCommitRequest("simple", 3, "m", topics=topics[:1]), version)
        await talk.ask(OffsetCommitRequest("unknown", 3, "m", topics=topics[:1]), version)
        await talk.ask(OffsetCommitRequest("simple", topics=topics[1:2]), version)
    await talk.ask(OffsetCommitRequest("", topics=[commits("orders", (0, 1))]), 8)
    await talk.ask(OffsetCommitRequest("simple", 0, "", "inst", topics=[commits("orders", (0, 1))]), 8)
    for version in range(1, 8):
        some = [OffsetFetchRequestTopic("orders", [0, 2, 9]), OffsetFetchRequestTopic("nowhere", [0])]
        for group in ("simple", "unknown", ""):
            await talk.ask(OffsetFetchRequest(group, some), version)
            if version >= 2:
                await talk.ask(OffsetFetchRequest(group, None, require_stable=version >= 7), version)
                await talk.ask(OffsetFetchRequest(group, []), version)
    for version in range(8, 11):
        several = [
            OffsetFetchRequestTopics("orders", ids["orders"], [0, 2, 9]),
            OffsetFetchRequestTopics("nowhere", b"x" * 16, [0]),
        ]
        requested = [
            OffsetFetchRequestGroup("simple", topics=several),
            OffsetFetchRequestGroup("unknown", topics=several),
            OffsetFetchRequestGroup("simple", None, -1, None),
            OffsetFetchRequestGroup("simple", "member", 5, None),
            OffsetFetchRequestGroup("unknown", topics=None),
        ]
        for one in requested:
            await talk.ask(OffsetFetchRequest(groups=[one], require_stable=True), version)
        await talk.ask(OffsetFetchRequest(groups=requested[:2]), version)


async def topic_ids(talk: Talk, *names: str) -> dict[str, bytes]:
    connection = await talk.open()
    requested = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    answer = await connection.send(requested, 12)
    return {topic.name: topic.topic_id for topic in answer.topics}


async def members_and_offsets(talk: Talk) -> None:
    await talk.begin("busy")
    joined = await talk.settle("busy")
    generation, member = joined.generation_id, joined.member_id
    topics = [commits("orders", (0, 5)), commits("bills", (0, 6))]
    await talk.ask(OffsetCommitRequest("busy", generation, member, topics=topics), 8)
    await talk.ask(OffsetCommitRequest("busy", topics=topics), 8)
    await talk.ask(OffsetCommitRequest("busy", generation, "x", topics=topics), 8)
    await talk.ask(OffsetCommitRequest("busy", 9, member, topics=topics), 8)
    await talk.ask(OffsetCommitRequest("busy", generation, member, "x", topics=topics), 8)
    delete = OffsetDeleteRequest(
        "busy",
        [
            OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)]),
            OffsetDeleteRequestTopic("bills", [OffsetDeleteRequestPartition(index) for index in (0, 1, 9)]),
            OffsetDeleteRequestTopic("nowhere", [OffsetDeleteRequestPartition(0)]),
        ],
    )
    await talk.ask(delete, 0)
    await talk.ask(OffsetFetchRequest("busy", None), 7)
    await talk.ask(DeleteGroupsRequest(["busy"]), 2)
    await talk.ask(LeaveGroupRequest("busy", members=[MemberIdentity(joined.member_id)]), 5)
    await talk.ask(delete, 0)
    await talk.ask(OffsetFetchRequest("busy", None), 7)
    await talk.ask(OffsetDeleteRequest("nobody", delete.topics), 0)
    await talk.ask(OffsetDeleteRequest("", delete.topics), 0)


async def other_protocols(talk: Talk) -> None:
    await talk.begin("connect")
    joined = await talk.settle("connect", protocol_type="connect", protocols={"sessioned": b"worker"})
    rows = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
    await talk.ask(OffsetDeleteRequest("connect", rows), 0)
    await talk.ask(DescribeGroupsRequest(groups=["connect"], include_authorized_operations=True), 5)
    leave = LeaveGroupRequest("connect", members=[MemberIdentity(joined.member_id)])
    await talk.ask(leave, 3)


async def administration(talk: Talk) -> None:
    await talk.begin("listed", "stable", "none")
    await talk.ask(OffsetCommitRequest("listed", topics=[commits("orders", (0, 5))]), 8)
    joined = await talk.settle("stable")
    own = ("listed", "stable")
    for version in range(6):
        for states, types in (
            ([], []),
            (["stable"], []),
            (["Empty", "Stable"], []),
            (["Dead"], []),
            ([], ["classic"]),
            ([], ["Classic", "consumer"]),
            ([], ["consumer"]),
            (["nonsense"], []),
        ):
            if (states and version < 4) or (types and version < 5):
                continue
            connection = await talk.open()
            listed = await connection.send(ListGroupsRequest(states, types), version)
            listed.groups = [group for group in listed.groups if group.group_id in own]
            talk.heard.append((f"{states} {types} {version}", talk._comparable(listed)))
    for version in range(7):
        groups = ["listed", "stable", "none", ""]
        await talk.ask(DescribeGroupsRequest(groups, include_authorized_operations=version >= 3), version)
    for version in range(3):
        await talk.ask(DeleteGroupsRequest(["none", "stable", "", "none"]), version)
    await talk.ask(DeleteGroupsRequest(["listed"]), 2)
    await talk.ask(DeleteGroupsRequest(["listed"]), 2)
    await talk.ask(OffsetFetchRequest("listed", None), 7)
    await talk.heartbeat("stable", joined)


async def coordinators(talk: Talk) -> None:
    await talk.begin("here")
    for version in range(7):
        keys = ["here", "there", ""]
        if version < 4:
            await talk.ask(FindCoordinatorRequest("here"), version)
        else:
            await talk.ask(FindCoordinatorRequest(coordinator_keys=keys), version)
            await talk.ask(FindCoordinatorRequest(coordinator_keys=[]), version)
            await talk.ask(FindCoordinatorRequest(key_type=7, coordinator_keys=keys), version)
    for version in range(1, 4):
        await talk.ask(FindCoordinatorRequest("here", 7), version)
    await talk.ask(FindCoordinatorRequest("here", 2), 3)
    for version in (5, 6):
        await talk.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["here", "a:b:c"]), version)


SCENARIOS: list[Scenario] = [
    bad_joins,
    lone_members,
    wrong_members,
    pending_members,
    rebalances,
    full_groups,
    static_members,
    offsets,
    members_and_offsets,
    other_protocols,
    administration,
    coordinators,
]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with kafka_and_barnabas(tmp_path_factory.mktemp("kafka"), SETTINGS) as both:
        yield both


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_barnabas_answers_as_apache_kafka_does(addresses: Addresses, scenario: Scenario) -> None:
    assert_same_answers(addresses, Talk, scenario)
