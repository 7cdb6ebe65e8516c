"""The same streams group requests to Apache Kafka and Barnabas must get the same responses.

One thing is not asked: Kafka shows the partitions that it has decided on only after the group's next record, and we
at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from barnabas.client.cluster import Client
from barnabas.client.connection import BrokerConnection
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import beginning_offsets, end_offsets
from barnabas.client.opening import ConsumedRecord
from barnabas.cluster.image import ConfigResourceType
from barnabas.common.types import TopicPartition
from barnabas.protocol.coordinator_records import GROUP_RECORDS, decode_key, decode_value
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.streams import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.records.record import Record
from tests.support.builders.streams import internal, sent_topology, subtopology, word_count
from tests.support.groups.comparing import Addresses, assert_same_answers, kafka_and_barnabas, listen
from tests.support.groups.conversations import Talk, join_request
from tests.support.waiting import async_until

pytestmark = pytest.mark.java

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "3",
}
ALL_OF_BOTH = [TaskIds("0", [0, 1, 2]), TaskIds("1", [0, 1, 2])]


class StreamsTalk(Talk):
    """Error messages are compared, too: applications show them to users."""

    async def ask(self, request: Message, version: int, connection: BrokerConnection | None = None) -> Any:
        answer = await super().ask(request, version, connection)
        if isinstance(answer, StreamsGroupHeartbeatResponse):
            self.heard.append((f"the message of {self.heard[-1][0]}", answer.error_message))
        return answer

    async def beat(self, group: str, member: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        answer: StreamsGroupHeartbeatResponse = await self.ask(
            StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields), 0
        )
        return answer

    async def join(  # type: ignore[override]
        self, group: str, member: str = "a", **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        known: dict[str, Any] = {
            "rebalance_timeout_ms": 10_000,
            "topology": word_count(),
            "process_id": f"process-{member}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "client_tags": [],
        }
        return await self.beat(group, member, 0, **{**known, **fields})

    async def owns(
        self, group: str, member: str, epoch: int, active: list[TaskIds], standby: list[TaskIds] | None = None
    ) -> StreamsGroupHeartbeatResponse:
        lists: dict[str, Any] = {"active_tasks": active, "standby_tasks": standby or [], "warmup_tasks": []}
        return await self.beat(group, member, epoch, **lists)

    async def describe(self, *groups: str) -> None:
        await self.ask(StreamsGroupDescribeRequest(list(groups), True), 0)

    async def create(self, **topics: int) -> None:
        """Kafka's coordinator learns of topics later than clients: wait until a new group sees them."""
        connection = await self.open()
        wanted = [CreatableTopic(name, count, 1) for name, count in topics.items()]
        await connection.send(CreateTopicsRequest(wanted), 7)

        async def are_seen() -> bool:
            seen = await self._probe(*topics)
            return not seen.error_code and not seen.status

        await async_until(are_seen)

    async def _probe(self, *topics: str) -> StreamsGroupHeartbeatResponse:
        """Response to a temporary group."""
        connection = self._connections[0]
        probe = StreamsGroupHeartbeatRequest(
            group_id="probe",
            member_id="probe",
            rebalance_timeout_ms=1000,
            topology=sent_topology(subtopology("0", *topics)),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        seen: StreamsGroupHeartbeatResponse = await connection.send(probe, 0)
        await connection.send(StreamsGroupHeartbeatRequest("probe", "probe", -1), 0)
        await connection.send(DeleteGroupsRequest(["probe"]), 2)
        return seen

    async def begin_counting(self, *groups: str) -> None:
        await self.begin(*groups, "probe", topics=())
        await self.create(lines=3, words=3, counts=3)

    async def configure(self, group: str, **settings: str) -> None:
        await self.ask(setting_of_group(group, **settings), 1)
        # Kafka's coordinator learns it later, and a setting visible in responses after that.
        interval = 6000 + len(self.heard)
        shown = setting_of_group("probe", streams_heartbeat_interval_ms=str(interval))
        await self._connections[0].send(shown, 1)

        async def is_seen() -> bool:
            return (await self._probe("lines")).heartbeat_interval_ms == interval

        await async_until(is_seen)


def setting_of_group(group: str, **settings: str) -> IncrementalAlterConfigsRequest:
    configs = [
        IncrementalAlterConfigsAlterableConfig(name.replace("_", "."), 0, value)
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(ConfigResourceType.GROUP, group, configs)
    return IncrementalAlterConfigsRequest([resource])


Scenario = Callable[[StreamsTalk], Awaitable[None]]


async def bad_heartbeats(talk: StreamsTalk) -> None:
    await talk.begin_counting("bad")
    await talk.join("")
    await talk.join(" ")
    await talk.join("bad", "")
    await talk.join("bad", instance_id="static")
    await talk.join("bad", rack_id="")
    await talk.join("bad", task_offsets=[])
    await talk.join("bad", task_end_offsets=[TaskOffset("0", 0, 1)])
    await talk.join("bad", warmup_tasks=[TaskIds("0", [0])])
    await talk.join("bad", active_tasks=[TaskIds("0", [0])])
    await talk.join("bad", standby_tasks=[TaskIds("0", [0])])
    await talk.join("bad", rebalance_timeout_ms=-1)
    await talk.join("bad", topology=None)
    await talk.join("bad", active_tasks=None)
    sized = subtopology("0", "lines")
    sized.state_changelog_topics = [internal("state", 3)]
    await talk.join("bad", topology=sent_topology(sized))
    by_pattern = subtopology("0", "lines")
    by_pattern.source_topic_regex = ["l.*"]
    await talk.join("bad", topology=sent_topology(by_pattern))
    await talk.join("bad", topology=sent_topology(subtopology("0", "__consumer_offsets")))
    await talk.join("bad", topology=sent_topology(subtopology("0", "what?", "lines", "")))
    await talk.beat("bad", "a", -2)
    await talk.beat("bad", "a", -2, instance_id="static")
    await talk.beat("bad", "a", -3)
    await talk.beat("bad", "a", 1, topology=word_count())
    await talk.beat("bad", "a", 1, active_tasks=[])
    await talk.beat("bad", "a", -1)
    await talk.describe("bad", "")


async def unresolvable_topologies(talk: StreamsTalk) -> None:
    await talk.begin_counting("unresolvable")
    loop = sent_topology(
        subtopology("0", reads=[internal("x")], writes=["y"]),
        subtopology("1", reads=[internal("y")], writes=["x"]),
    )
    await talk.join("unresolvable", topology=loop)
    await talk.join("unresolvable", topology=sent_topology(subtopology("0", "lines", reads=[internal("x")])))
    await talk.join("unresolvable", topology=sent_topology(subtopology("0", changelogs=["x"])))
    await talk.describe("unresolvable")


async def life_of_a_member(talk: StreamsTalk) -> None:
    await talk.begin_counting("life")
    await talk.beat("life", "a", 5)
    joined = await talk.join("life", client_tags=[KeyValue("zone", "z1")], rack_id="r1")
    epoch = joined.member_epoch
    await talk.describe("life")
    await talk.beat("life", "a", epoch)
    await talk.owns("life", "a", epoch, ALL_OF_BOTH)
    await talk.beat("life", "nobody", epoch)
    await talk.beat("life", "a", epoch + 1)
    await talk.beat("life", "a", epoch - 1)
    await talk.owns("life", "a", epoch - 1, ALL_OF_BOTH)
    await talk.owns("life", "a", epoch, [TaskIds("9", [0])])
    await talk.owns("life", "a", epoch, [TaskIds("0", [3])])
    await talk.join("life", client_tags=[KeyValue("zone", "z1")], rack_id="r1")  # it lost its answer
    changed = await talk.join("life", client_tags=[], process_id="other")
    await talk.beat("life", "a", changed.member_epoch, rack_id="r2")
    await talk.describe("life", "unheard-of")
    await talk.ask(ListGroupsRequest(types_filter=["streams"]), 5)
    await talk.ask(DescribeGroupsRequest(["life"]), 6)
    await talk.ask(DeleteGroupsRequest(["life"]), 2)
    await talk.beat("life", "a", -1)
    await talk.beat("life", "a", -1)
    await talk.describe("life")
    await talk.ask(ListGroupsRequest(types_filter=["Streams"], states_filter=["Empty"]), 5)
    await talk.join("life")
    await talk.beat("life", "a", -1)
    await talk.ask(DeleteGroupsRequest(["life"]), 2)
    await talk.describe("life")


async def two_members(talk: StreamsTalk) -> None:
    await talk.begin_counting("two")
    first = await talk.join("two", "a")
    second = await talk.join("two", "b")
    await talk.describe("two")
    await talk.beat("two", "b", second.member_epoch)
    response = await talk.owns("two", "a", first.member_epoch, ALL_OF_BOTH)
    await talk.describe("two")
    await talk.beat("two", "a", response.member_epoch)
    kept = [TaskIds("0", [0, 1]), TaskIds("1", [0])]
    await talk.beat("two", "b", second.member_epoch)
    settled = await talk.owns("two", "a", response.member_epoch, kept)
    gained = await talk.beat("two", "b", second.member_epoch)
    await talk.describe("two")
    await talk.owns("two", "b", gained.member_epoch, gained.active_tasks or [])
    await talk.beat("two", "b", -1)
    alone = await talk.beat("two", "a", settled.member_epoch)
    await talk.describe("two")
    await talk.beat("two", "a", alone.member_epoch)
    await talk.beat("two", "a", -1)


async def full_groups(talk: StreamsTalk) -> None:
    await talk.begin_counting("full")
    for member in "abc":
        await talk.join("full", member, process_id="one process")
    await talk.join("full", "d", process_id="one process")


async def standbys(talk: StreamsTalk) -> None:
    await talk.begin_counting("standby")
    await talk.configure("standby", streams_num_standby_replicas="1")
    first = await talk.join("standby", "a")
    second = await talk.join("standby", "b")
    response = await talk.owns("standby", "a", first.member_epoch, ALL_OF_BOTH)
    kept = [TaskIds("0", [0, 1]), TaskIds("1", [0])]
    await talk.owns("standby", "a", response.member_epoch, kept)
    await talk.beat("standby", "b", second.member_epoch)
    await talk.describe("standby")
    await talk.configure("standby", streams_num_standby_replicas="0")
    await talk.beat("standby", "b", second.member_epoch)
    await talk.describe("standby")


async def initial_delays(talk: StreamsTalk) -> None:
    await talk.begin_counting("delayed")
    await talk.configure("delayed", streams_initial_rebalance_delay_ms="20000")
    joined = await talk.join("delayed")
    await talk.beat("delayed", "a", joined.member_epoch)
    await talk.join("delayed", "b")
    await talk.describe("delayed")


async def topics_in_the_way(talk: StreamsTalk) -> None:
    await talk.begin_counting("missing", "odd", "joined", "created", "made")
    await talk.create(three=3, four=4, small=2)
    missing = await talk.join(
        "missing", topology=sent_topology(subtopology("0", "f", "e", "d", "c", "lines"))
    )
    await talk.beat("missing", "a", missing.member_epoch)
    await talk.describe("missing")
    odd = sent_topology(subtopology("0", "three", changelogs=["small"]))
    await talk.join("odd", topology=odd)
    together = [CopartitionGroup(source_topics=[0, 1])]
    await talk.join("joined", topology=sent_topology(subtopology("0", "three", "four", together=together)))
    late = await talk.join("created", topology=sent_topology(subtopology("0", "late")))
    await talk.create(late=2)
    ready = await talk.beat("created", "a", late.member_epoch)
    await talk.beat("created", "a", ready.member_epoch)
    making = sent_topology(subtopology("0", "lines", changelogs=["made-changelog"]))
    first = await talk.join("made", topology=making)

    async def is_made() -> bool:
        request = StreamsGroupHeartbeatRequest("made", "a", first.member_epoch)
        answer = await talk._connections[0].send(request, 0)
        return not answer.status

    await async_until(is_made)
    await talk.describe("made")


async def a_topic_that_cannot_be_created(talk: StreamsTalk) -> None:
    await talk.begin_counting("in-vain")
    requested = subtopology("0", "lines")
    requested.state_changelog_topics = [internal("odd", no_such="setting")]
    first = await talk.join("in-vain", topology=sent_topology(requested))

    async def is_told() -> bool:
        """Compare the first response with the failure: both sides forget it after a while."""
        request = StreamsGroupHeartbeatRequest("in-vain", "a", first.member_epoch)
        answer = await talk._connections[0].send(request, 0)
        response = [(one.status_code, one.status_detail) for one in answer.status or ()]
        if not any("Creation failed" in detail for _, detail in response):
            return False
        talk.heard.append(("what cannot be created", (answer.error_code, response)))
        return True

    await async_until(is_told)


async def topologies(talk: StreamsTalk) -> None:
    await talk.begin_counting("topology")
    await talk.join("topology", topology=word_count(epoch=2))
    await talk.join("topology", "b", topology=word_count(epoch=1))
    await talk.beat("topology", "b", 3)
    await talk.join("topology", "c", topology=word_count(epoch=3))
    await talk.join("topology", "c", topology=sent_topology(subtopology("0", "lines"), epoch=2))
    await talk.describe("topology")


async def endpoints(talk: StreamsTalk) -> None:
    await talk.begin_counting("endpoint")
    here, there = Endpoint("here", 1), Endpoint("there", 65535)
    first = await talk.join("endpoint", "a", user_endpoint=here)
    await talk.beat("endpoint", "a", first.member_epoch)
    second = await talk.join("endpoint", "b", user_endpoint=there)
    response = await talk.owns("endpoint", "a", first.member_epoch, ALL_OF_BOTH)
    await talk.owns("endpoint", "a", response.member_epoch, [TaskIds("0", [0, 1]), TaskIds("1", [0])])
    gained = await talk.beat("endpoint", "b", second.member_epoch)
    epoch = gained.endpoint_information_epoch
    await talk.beat("endpoint", "b", gained.member_epoch, endpoint_information_epoch=epoch)
    await talk.describe("endpoint")


async def shutdowns(talk: StreamsTalk) -> None:
    await talk.begin_counting("shutdown")
    first = await talk.join("shutdown", "a")
    second = await talk.join("shutdown", "b")
    await talk.beat("shutdown", "a", -1, shutdown_application=True)
    await talk.beat("shutdown", "b", second.member_epoch)
    await talk.beat("shutdown", "b", -1)
    again = await talk.join("shutdown", "a")
    assert again.member_epoch > first.member_epoch


def commit(group: str, member: str, epoch: int, topic: str = "lines", index: int = 0) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7)]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def fetch(group: str, member: str | None, epoch: int) -> OffsetFetchRequest:
    wanted = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        topics=[OffsetFetchRequestTopics(name="lines", partition_indexes=[0])],
    )
    return OffsetFetchRequest(groups=[wanted])


async def offsets(talk: StreamsTalk) -> None:
    await talk.begin_counting("offsets")
    first = await talk.join("offsets")
    await talk.ask(commit("offsets", "a", first.member_epoch), 9)
    await talk.ask(commit("offsets", "a", first.member_epoch), 8)
    await talk.ask(commit("offsets", "nobody", first.member_epoch), 9)
    await talk.ask(commit("offsets", "", -1), 9)
    await talk.ask(commit("offsets", "a", first.member_epoch + 1), 9)
    changed = await talk.beat("offsets", "a", first.member_epoch, rack_id="moved")
    await talk.ask(commit("offsets", "a", first.member_epoch), 9)
    await talk.ask(commit("offsets", "a", first.member_epoch - 1), 9)
    await talk.ask(commit("offsets", "a", first.member_epoch, "words", 2), 9)
    await talk.ask(commit("offsets", "a", first.member_epoch, "counts"), 9)
    await talk.ask(fetch("offsets", "a", changed.member_epoch), 9)
    await talk.ask(fetch("offsets", "a", first.member_epoch), 9)
    await talk.ask(fetch("offsets", "nobody", 1), 9)
    await talk.ask(fetch("offsets", None, -1), 9)
    await talk.beat("offsets", "a", -1)
    await talk.ask(commit("offsets", "", -1), 9)


async def other_types(talk: StreamsTalk) -> None:
    await talk.begin_counting("classic", "emptied", "streams-first")
    await Talk.join(talk, "classic")
    await talk.join("classic")
    await talk.describe("classic")
    await talk.ask(commit("emptied", "", -1), 9)
    await talk.join("emptied")
    await talk.ask(fetch("emptied", None, -1), 9)
    await talk.join("streams-first")
    await talk.ask(join_request("streams-first"), 9)
    await talk.beat("streams-first", "a", -1)
    await Talk.join(talk, "streams-first")
    await talk.describe("streams-first")


SCENARIOS: list[Scenario] = [
    bad_heartbeats,
    unresolvable_topologies,
    life_of_a_member,
    two_members,
    full_groups,
    standbys,
    initial_delays,
    topics_in_the_way,
    a_topic_that_cannot_be_created,
    topologies,
    endpoints,
    shutdowns,
    offsets,
    other_types,
]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with kafka_and_barnabas(tmp_path_factory.mktemp("kafka"), SETTINGS) as both:
        yield both


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_barnabas_answers_as_apache_kafka_does(addresses: Addresses, scenario: Scenario) -> None:
    assert_same_answers(addresses, StreamsTalk, scenario)


async def records_of(address: str, scenario: Scenario, group: str) -> list[str]:
    """All that a talk leaves in `__consumer_offsets` about a group, in order; times and hashes are taken out."""
    await listen(StreamsTalk(address), scenario)
    async with Client(address) as client:
        topic = (await client.topics([CONSUMER_OFFSETS]))[CONSUMER_OFFSETS]
        tp = TopicPartition(CONSUMER_OFFSETS, partition_for(group, len(topic.partitions)))
        end = (await end_offsets(client, [tp]))[tp]
        found: list[str] = []
        async with Consumer(client, await beginning_offsets(client, [tp])) as consumer:
            while consumer.position(tp) < end:
                found += [shown(record) for record in await consumer.poll()]
    return [record for record in found if f"'{group}'" in record]


def shown(record: Record | ConsumedRecord) -> str:
    key = decode_key(GROUP_RECORDS, record.key)
    value = None if record.value is None else decode_value(GROUP_RECORDS, key, record.value)
    for field in ("metadata_hash", "assignment_timestamp"):
        if getattr(value, field, 0):
            setattr(value, field, 1)
    return f"{key!r} {value!r}"


async def written_down(talk: StreamsTalk) -> None:
    await talk.begin_counting("written")
    tags = [KeyValue("zone", "z"), KeyValue("area", "a")]
    first = await talk.join("written", "a", user_endpoint=Endpoint("h", 9), client_tags=tags, rack_id="r")
    second = await talk.join("written", "b")
    response = await talk.owns("written", "a", first.member_epoch, ALL_OF_BOTH)
    await talk.owns("written", "a", response.member_epoch, [TaskIds("0", [0, 1]), TaskIds("1", [0])])
    await talk.beat("written", "b", second.member_epoch)
    await talk.beat("written", "a", -1)
    await talk.beat("written", "b", second.member_epoch)
    await talk.beat("written", "b", -1)
    await talk.ask(DeleteGroupsRequest(["written"]), 2)


def test_the_records_are_the_same(addresses: Addresses) -> None:
    expected, ours = (asyncio.run(records_of(address, written_down, "written")) for address in addresses)
    assert len(expected) > 20
    assert ours == expected
