"""The same consumer group requests to Apache Kafka and Barnabas must get the same responses.

Topic ids are random and left out; the partitions of a topic are not. Error messages are compared too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from barnabas.protocol.coordinator_records import GROUP_RECORDS, decode_key, decode_value
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatTopicPartitions
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.groups.consumer.talks import ConsumerScenario, ConsumerTalk, beat, joining
from tests.groups.test_same_answers_as_kafka import commits
from tests.groups.test_same_records_as_kafka import records_of_groups
from tests.support.groups.comparing import Addresses, assert_same_answers, kafka_and_barnabas
from tests.support.groups.conversations import join_request

pytestmark = pytest.mark.java

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
}


async def bad_heartbeats(talk: ConsumerTalk) -> None:
    await talk.begin("bad")
    for version in (0, 1):
        await talk.say(
            joining("bad", "", "orders", instance_id="x" if version else None, rack_id=""), version
        )
        await talk.say(joining("", "m", "orders"), version)
        await talk.say(joining("bad", "m", "orders", instance_id=""), version)
        await talk.say(joining("bad", "m", "orders", rack_id=" "), version)
        await talk.say(joining("bad", "m", "orders", rebalance_timeout_ms=-1), version)
        await talk.say(joining("bad", "m", "orders", topic_partitions=None), version)
        owned = [ConsumerGroupHeartbeatTopicPartitions(topic_id=bytes(16), partitions=[0])]
        await talk.say(joining("bad", "m", "orders", topic_partitions=owned), version)
        await talk.say(joining("bad", "m", subscribed_topic_names=None), version)
        await talk.say(joining("bad", "m", "orders", server_assignor="best"), version)
        await talk.say(beat("bad", "", 1), version)
        await talk.say(beat("bad", "", -1), version)
        await talk.say(beat("bad", "m", -2), version)
        await talk.say(beat("bad", "m", -3), version)
        await talk.say(beat("bad", "m", 5), version)
        await talk.say(beat("bad", "m", -1), version)
        await talk.say(beat("bad", "m", -2, instance_id="i"), version)
    await talk.describe("bad", "", "absent")


async def lone_member(talk: ConsumerTalk) -> None:
    await talk.begin("lone")
    await talk.say(joining("lone", "m", "orders", "absent"))
    await talk.nod("lone", "m")
    await talk.stay("lone", "m")
    await talk.describe("lone")
    for epoch in (1, 2, 9):
        await talk.say(beat("lone", "m", epoch))
        await talk.say(beat("lone", "stranger", epoch))
    await talk.stay("lone", "m", subscribed_topic_names=["orders", "bills"])
    await talk.stay("lone", "m")
    await talk.describe("lone")
    await talk.stay("lone", "m", subscribed_topic_names=["bills"])
    await talk.stay("lone", "m")
    await talk.describe("lone")
    await talk.say(beat("lone", "m", 2))
    await talk.say(joining("lone", "m", "bills", server_assignor="range"))
    await talk.describe("lone")
    await talk.say(beat("lone", "stranger", -1))
    await talk.say(beat("lone", "m", -1))
    await talk.describe("lone")
    await talk.say(beat("lone", "m", 3))


async def handing_over(talk: ConsumerTalk) -> None:
    await talk.begin("two", topics=("orders", "bills"))
    await talk.say(joining("two", "a", "orders", "bills"))
    await talk.say(joining("two", "b", "orders", "bills"))
    await talk.describe_shares("two")
    await talk.nod("two", "b")
    await talk.nod("two", "a")  # must revoke half
    await talk.nod("two", "b")
    await talk.describe_shares("two")
    await talk.stay("two", "a")  # has given it up
    await talk.nod("two", "b")
    await talk.describe_shares("two")
    await talk.nod("two", "a")
    await talk.say(beat("two", "a", 1))
    await talk.say(joining("two", "c", "orders", "bills"))
    await talk.say(joining("two", "d", "orders", "bills"))  # one too many
    await talk.say(beat("two", "b", -1))
    await talk.stay("two", "a")
    await talk.stay("two", "a")
    await talk.nod("two", "c")
    await talk.describe_shares("two")


async def static_members(talk: ConsumerTalk) -> None:
    await talk.begin("static")
    await talk.say(joining("static", "a", "orders", instance_id="one"))
    await talk.say(joining("static", "b", "orders", instance_id="one"))
    await talk.say(beat("static", "b", 1, instance_id="one"))
    await talk.say(beat("static", "a", 1, instance_id="two"))
    await talk.say(beat("static", "a", 1))
    await talk.say(beat("static", "b", -2, instance_id="one"))
    await talk.say(beat("static", "a", -2, instance_id="one"))
    await talk.describe("static")
    await talk.say(beat("static", "a", 1, instance_id="one"))
    await talk.say(joining("static", "b", "orders", instance_id="one"))
    await talk.describe("static")
    await talk.say(beat("static", "a", 1, instance_id="one"))
    await talk.say(beat("static", "b", 1, instance_id="one"))
    await talk.say(beat("static", "b", -2, instance_id="one"))
    await talk.say(joining("static", "c", "bills", instance_id="one"))
    await talk.stay("static", "c", instance_id="one")
    await talk.describe("static")
    await talk.say(beat("static", "c", -1, instance_id="one"))
    await talk.describe("static")


async def offsets_with_epochs(talk: ConsumerTalk) -> None:
    await talk.begin("offsets")
    topic_id = await talk.topic_id("orders")

    async def commit(member: str, epoch: int, version: int, partition: int = 0) -> None:
        topic = commits("orders", (partition, 7))
        topic.topic_id = topic_id
        await talk.ask(OffsetCommitRequest("offsets", epoch, member, topics=[topic]), version)

    async def fetch(member: str | None, epoch: int) -> None:
        topic = OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0, 1])
        group = OffsetFetchRequestGroup("offsets", member, epoch, topics=[topic])
        for version in (9, 10):
            await talk.ask(OffsetFetchRequest(groups=[group]), version)

    await talk.say(joining("offsets", "a", "orders"))
    for version in (8, 9, 10):
        await commit("a", 1, version)
    for member, epoch in (("a", 0), ("a", 2), ("a", -1), ("", -1), ("b", 1)):
        await commit(member, epoch, 9)
        await fetch(member, epoch)
    await fetch(None, -1)
    await fetch("a", 1)
    await talk.say(joining("offsets", "b", "orders"))
    await talk.nod("offsets", "a")
    await talk.stay("offsets", "a")
    for partition in range(3):
        await commit("a", 1, 9, partition)  # an old epoch, for partitions owned since then
        await commit("a", 2, 9, partition)
    await fetch("a", 1)
    delete = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(0)])
    await talk.ask(OffsetDeleteRequest("offsets", [delete]), 0)
    await talk.say(beat("offsets", "a", -1))
    await talk.say(beat("offsets", "b", -1))
    await commit("", -1, 9)
    await commit("a", 2, 9)
    await talk.ask(OffsetDeleteRequest("offsets", [delete]), 0)


async def administration(talk: ConsumerTalk) -> None:
    await talk.begin("admin", "plain")
    await talk.say(joining("admin", "a", "orders"))
    await talk.settle("plain")
    for types in ([], ["consumer"], ["Consumer", "classic"], ["share"], ["x"]):
        listed = await talk._connections[0].send(ListGroupsRequest(types_filter=types), 5)
        listed.groups = [one for one in listed.groups if one.group_id in ("admin", "plain")]
        talk.heard.append((f"list of {types}", talk._comparable(listed)))
    await talk.ask(DescribeGroupsRequest(groups=["admin", "plain"]), 6)
    await talk.ask(DescribeGroupsRequest(groups=["admin"]), 5)
    await talk.describe("plain")
    await talk.ask(DeleteGroupsRequest(groups_names=["admin"]), 2)
    await talk.say(beat("admin", "a", -1))
    await talk.ask(DeleteGroupsRequest(groups_names=["admin"]), 2)
    await talk.describe("admin")
    await talk.say(joining("admin", "b", "orders"))


async def patterns(talk: ConsumerTalk) -> None:
    await talk.begin("patterns", topics=("pattern-a", "pattern-b"))
    regex = {"subscribed_topic_names": None, "subscribed_topic_regex": "pattern-(a|b)"}
    bad = await talk._connections[0].send(
        joining("patterns", "m", **{**regex, "subscribed_topic_regex": "[a"}), 1
    )
    bad.error_message = bad.error_message.rpartition(":")[0]  # the last part is the library's own
    talk.heard.append(("no pattern", talk._comparable(bad)))
    await talk.say(joining("patterns", "m", **regex))
    await talk.quietly_until("patterns", "m", lambda answer: answer.assignment is not None)
    await talk.describe("patterns")
    await talk.stay("patterns", "m", subscribed_topic_names=["orders"], subscribed_topic_regex="")
    await talk.stay("patterns", "m")
    await talk.describe("patterns")


async def settings_of_a_group(talk: ConsumerTalk) -> None:
    await talk.begin("tuned")

    async def tune(name: str, value: str) -> None:
        config = IncrementalAlterConfigsAlterableConfig(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=32, resource_name="tuned", configs=[config]
        )
        await talk.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    await talk.say(joining("tuned", "m", "orders"))
    for name, value in (
        ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.nonsense", "1"),
        ("consumer.heartbeat.interval.ms", "7000"),
    ):
        await tune(name, value)
    await talk.quietly_until("tuned", "m", lambda answer: answer.heartbeat_interval_ms == 7000)


async def moving_to_the_new_protocol(talk: ConsumerTalk) -> None:
    await talk.begin("moving")
    old = await talk.join("moving")
    assignment = b"\0\0\0\0\0\1\0\6orders\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\2\xff\xff\xff\xff"
    await talk.sync("moving", old, {old.member_id: assignment})
    await talk.say(joining("moving", "new", "orders"))
    await talk.describe("moving")
    await talk.ask(DescribeGroupsRequest(groups=["moving"]), 6)
    await talk.heartbeat("moving", old)
    await talk.heartbeat("moving", old, generation_id=7)
    await talk.heartbeat("moving", old, member_id="new")
    await talk.nod("moving", "new")
    again = await talk.ask(join_request("moving", old.member_id), 7)
    sync = SyncGroupRequest("moving", again.generation_id, again.member_id, None, "consumer", "range")
    await talk.ask(sync, 5)
    await talk.nod("moving", "new")
    await talk.heartbeat("moving", again)
    await talk.describe("moving")
    again = await talk.ask(join_request("moving", old.member_id), 7)
    sync = SyncGroupRequest("moving", again.generation_id, again.member_id, None, "consumer", "range")
    await talk.ask(sync, 5)
    sync.protocol_name = "other"
    await talk.ask(sync, 5)
    await talk.nod("moving", "new")
    await talk.heartbeat("moving", again)
    await talk.ask(join_request("moving", protocols={"x": b"\0\0"}, protocol_type="connect"), 7)
    await talk.say(beat("moving", "new", -1))  # the last of the new protocol: back to the old
    await talk.describe("moving")
    await talk.ask(DescribeGroupsRequest(groups=["moving"]), 6)
    await talk.heartbeat("moving", again)
    leave = LeaveGroupRequest("moving", members=[MemberIdentity(again.member_id), MemberIdentity("x")])
    await talk.ask(leave, 5)


async def classic_members_of_consumer_groups(talk: ConsumerTalk) -> None:
    await talk.begin("mixed")
    await talk.say(joining("mixed", "new", "orders"))
    old = await talk.join("mixed")
    await talk.sync("mixed", old, {})
    await talk.heartbeat("mixed", old)
    await talk.nod("mixed", "new")
    await talk.stay("mixed", "new")
    await talk.heartbeat("mixed", old)
    again = await talk.ask(join_request("mixed", old.member_id), 7)
    sync = SyncGroupRequest("mixed", again.generation_id, again.member_id, None, "consumer", "range")
    await talk.ask(sync, 5)
    await talk.heartbeat("mixed", again)
    await talk.describe("mixed")
    topic = commits("orders", (0, 7))
    for generation in (again.generation_id, 0, 99):
        request = OffsetCommitRequest("mixed", generation, again.member_id, topics=[topic])
        await talk.ask(request, 8)
    leave = LeaveGroupRequest("mixed", members=[MemberIdentity(again.member_id), MemberIdentity("x")])
    await talk.ask(leave, 5)
    await talk.nod("mixed", "new")
    await talk.say(beat("mixed", "new", -1))
    await talk.describe("mixed")
    await talk.join("mixed")  # an empty group takes any protocol
    await talk.ask(DescribeGroupsRequest(groups=["mixed"]), 6)


SCENARIOS: list[ConsumerScenario] = [
    bad_heartbeats,
    lone_member,
    handing_over,
    static_members,
    offsets_with_epochs,
    administration,
    patterns,
    settings_of_a_group,
    moving_to_the_new_protocol,
    classic_members_of_consumer_groups,
]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with kafka_and_barnabas(tmp_path_factory.mktemp("kafka"), SETTINGS) as both:
        yield both


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_barnabas_answers_as_apache_kafka_does(addresses: Addresses, scenario: ConsumerScenario) -> None:
    assert_same_answers(addresses, ConsumerTalk, scenario)


# -- what they leave in the log -------------------------------------------------------------------------

WRITTEN = "written"
TIMES = re.compile(r"(timestamp|metadata_hash|version)=-?\d+")


async def everything_that_writes(talk: ConsumerTalk) -> None:
    await talk.begin(WRITTEN)
    old = await talk.join(WRITTEN)
    assignment = b"\0\0\0\0\0\1\0\6orders\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\2\xff\xff\xff\xff"
    await talk.sync(WRITTEN, old, {old.member_id: assignment})
    await talk.say(
        joining(WRITTEN, "a", "orders", instance_id="one", rack_id="here", server_assignor="range")
    )
    await talk.ask(LeaveGroupRequest(WRITTEN, members=[MemberIdentity(old.member_id)]), 5)
    await talk.say(beat(WRITTEN, "a", 2, instance_id="one"))
    await talk.say(beat(WRITTEN, "a", -2, instance_id="one"))
    await talk.say(joining(WRITTEN, "b", "orders", "bills", instance_id="one"))
    await talk.stay(WRITTEN, "b", instance_id="one")
    regex = {"subscribed_topic_names": [], "subscribed_topic_regex": "bil.*"}
    await talk.say(joining(WRITTEN, "c", **regex))
    await talk.quietly_until(WRITTEN, "c", lambda answer: answer.member_epoch > 4)
    await talk.stay(WRITTEN, "b", instance_id="one")
    await talk.stay(WRITTEN, "b", instance_id="one")
    await talk.nod(WRITTEN, "c")
    await talk.say(beat(WRITTEN, "c", -1))


async def written(address: str) -> list[str]:
    """The records of one group, in the order of the log; those of one step have none of their own in Kafka."""
    talk = ConsumerTalk(address)
    await everything_that_writes(talk)
    names = {await talk.topic_id(name): name.encode() for name in ("orders", "bills")}
    found = []
    for record in await records_of_groups(address):
        key = decode_key(GROUP_RECORDS, record.key)
        if WRITTEN not in (getattr(key, "group", None), getattr(key, "group_id", None)):
            continue
        value = None if record.value is None else decode_value(GROUP_RECORDS, key, record.value)
        for field in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
            getattr(value, field, []).sort(key=lambda topic: names[topic.topic_id])
        text = TIMES.sub(r"\1=?", f"{key} -> {value}")
        for topic_id, name in names.items():
            text = text.replace(repr(topic_id), repr(name))
        found.append(talk._plain(text))
    talk.close()
    return found


def test_the_records_are_the_same(addresses: tuple[str, str]) -> None:
    expected, ours = (asyncio.run(written(address)) for address in addresses)
    # Kafka writes an empty generation for a new group.
    expected = [record for record in expected if "generation=0" not in record]
    assert sorted(ours) == sorted(expected)
    assert len(ours) > 30
