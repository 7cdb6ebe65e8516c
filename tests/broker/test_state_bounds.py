"""Limits of client-created state, for all clients together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.state_bounds import StateUsage, state_usages
from barnabas.client.cluster import Client
from barnabas.common.errors import ErrorCode
from barnabas.metrics.text import render
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
)
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.share import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatTopology
from barnabas.protocol.schema import Message
from barnabas.testing import EmbeddedBroker

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "barnabas.groups.max": "6",
    "barnabas.groups.max.members": "4",
    "barnabas.groups.max.bytes": "20000",
    "barnabas.fetch.session.max.partitions": "10",
    "barnabas.configs.max.resources": "2",
}
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


class Talk:
    """A broker with narrow bounds, and requests to it."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker

    def ask(self, message: Message, version: int) -> Any:
        thread = self.broker._thread
        assert thread is not None
        return thread.run(self._ask(message, version), 20.0)

    async def _ask(self, message: Message, version: int) -> Any:
        async with Client(self.broker.bootstrap_servers, client_id="bounds") as client:
            return await (await client.any_connection()).send(message, version)

    def growth(self, what: str) -> StateUsage:
        return next(each for each in state_usages(self.broker.broker) if each.what == what)

    def join(self, group: str, *, metadata: bytes = b"") -> int:
        """Add a classic member that gets an id and does not return; return the error code."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        response = self.ask(request, 5)
        self.member_id = response.member_id
        return int(response.error_code)

    def commit(self, group: str, *, metadata: str = "", partition: int = 0) -> int:
        place = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata=metadata
        )
        topic = OffsetCommitRequestTopic(name="known", partitions=[place])
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
        return int(self.ask(request, 8).topics[0].partitions[0].error_code)


@pytest.fixture
def talk() -> Iterator[Talk]:
    with EmbeddedBroker(SETTINGS) as broker:
        broker.create_topic("known", 20)
        talk = Talk(broker)
        talk.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]), 4)
        yield talk


def test_members_that_were_given_an_id_and_never_come_back_are_counted_over_all_groups(talk: Talk) -> None:
    codes = [talk.join(f"group-{number % 2}") for number in range(6)]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 4 + [FULL] * 2
    assert talk.growth("group-members")[1:] == (4, 4, 2)


def test_leaving_member_frees_its_slot(talk: Talk) -> None:
    assert [talk.join("one") for _ in range(5)][-1] == FULL
    talk.join("one")
    assert talk.growth("group-members").present == 4
    (pending,) = [shard.groups["one"] for _, shard in talk.broker.broker.coordinators.groups.runtime.shards()]
    member_id = next(iter(pending.pending_joins))  # type: ignore[attr-defined]
    talk.ask(LeaveGroupRequest(group_id="one", members=[MemberIdentity(member_id=member_id)]), 4)
    assert talk.join("two") == ErrorCode.MEMBER_ID_REQUIRED


def test_members_of_all_protocols_share_one_bound(talk: Talk) -> None:
    for number in range(4):
        talk.join(f"group-{number % 3}")
    consumer = ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["known"],
        topic_partitions=[],
    )
    share = ShareGroupHeartbeatRequest(group_id="s", member_id="m", subscribed_topic_names=["known"])
    streams = StreamsGroupHeartbeatRequest(
        group_id="t",
        member_id="m",
        rebalance_timeout_ms=1000,
        topology=StreamsGroupHeartbeatTopology(epoch=1),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    answers = [talk.ask(message, version) for message, version in ((consumer, 1), (share, 1), (streams, 0))]
    assert [answer.error_code for answer in answers] == [FULL] * 3
    assert "barnabas.groups.max.members" in answers[0].error_message


def test_member_of_a_full_broker_continues(talk: Talk) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["known"],
        topic_partitions=[],
    )
    joined = talk.ask(request, 1)
    assert [talk.join("other") for _ in range(4)][-1] == FULL
    beat = talk.ask(
        ConsumerGroupHeartbeatRequest(group_id="c", member_id="m", member_epoch=joined.member_epoch), 1
    )
    assert (joined.error_code, beat.error_code) == (0, 0)


def test_groups_are_bounded_also_those_that_only_have_offsets(talk: Talk) -> None:
    codes = [talk.commit(f"group-{number}") for number in range(8)]
    assert codes == [0] * 6 + [FULL] * 2
    assert talk.commit("group-0", partition=1) == 0
    assert talk.join("group-9") == FULL


def test_member_metadata_is_bounded_by_bytes(talk: Talk) -> None:
    assert talk.join("loud", metadata=bytes(25_000)) == FULL
    assert talk.growth("group-bytes").refused == 1
    assert talk.join("quiet", metadata=bytes(1_000)) == ErrorCode.MEMBER_ID_REQUIRED


def test_offsets_are_bounded_by_the_bytes_of_their_metadata_and_may_be_replaced(talk: Talk) -> None:
    codes = [talk.commit("group", metadata="x" * 4000, partition=number) for number in range(6)]
    assert codes == [0] * 4 + [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 2
    assert talk.commit("group", metadata="y" * 4000, partition=0) == 0
    assert talk.commit("group", partition=0) == 0
    assert talk.commit("group", metadata="x" * 3000, partition=5) == 0
    assert talk.growth("offset-bytes").refused == 2


def test_restored_entries_count(talk: Talk) -> None:
    for number in range(3):
        talk.commit("group", metadata="x" * 4000, partition=number)
    before = talk.growth("offset-bytes").present
    talk.broker.restart()
    talk.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]), 4)
    assert talk.commit("group", partition=10) == 0
    assert talk.growth("offset-bytes").present == before + 350
    assert talk.growth("groups").present == 1


def test_partitions_that_do_not_exist_do_not_fill_fetch_sessions(talk: Talk) -> None:
    def fetch(count: int) -> Any:
        wanted = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(count)]
        topic = FetchTopic(topic="nowhere", partitions=wanted)
        return talk.ask(FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic]), 11)

    assert fetch(8).session_id > 0
    refused = fetch(8)
    assert (refused.session_id, refused.error_code, len(refused.responses[0].partitions)) == (0, 0, 8)
    assert talk.growth("fetch-session-partitions")[1:] == (8, 10, 1)


def test_groups_that_do_not_exist_are_not_given_settings_without_end(talk: Talk) -> None:
    def change(group: str, value: str | None) -> int:
        config = IncrementalAlterConfigsAlterableConfig(
            name="consumer.session.timeout.ms", config_operation=0 if value else 1, value=value
        )
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=32, resource_name=group, configs=[config]
        )
        response = talk.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return int(response.responses[0].error_code)

    assert [change(f"group-{number}", "50000") for number in range(3)] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert change("group-0", "55000") == 0
    assert talk.growth("config-resources")[1:] == (2, 2, 1)
    assert change("group-0", None) == 0
    assert change("group-2", "50000") == 0


def test_bounds_and_their_usage_are_metrics(talk: Talk) -> None:
    talk.join("one")
    text = render(talk.broker.broker.metrics)
    assert 'barnabas_bounded_state{what="group-members"} 1' in text
    assert 'barnabas_bounded_state_limit{what="group-members"} 4' in text
    assert 'barnabas_bounded_state_refused_total{what="groups"} 0' in text
