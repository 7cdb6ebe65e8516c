"""The same share group requests to Apache Kafka and Barnabas must get the same responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from barnabas.protocol.messages.groups import DeleteGroupsRequest
from barnabas.protocol.messages.share import ShareGroupDescribeRequest
from tests.share.talks import A_MOMENT_MS, TIMEOUT_MS, ShareTalk
from tests.support.groups.comparing import Addresses, assert_same_answers, kafka_and_barnabas

pytestmark = pytest.mark.java

SETTINGS = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}
MAX_DELIVERIES = 5  # by default
Scenario = Callable[[ShareTalk], Awaitable[None]]


async def stored_state(talk: ShareTalk) -> None:
    """Stored state is returned newest first; stale leaders and resets are detected."""
    await talk.set_up("stored", "keeper")
    await talk.read("keeper", 0)
    await talk.summary("keeper", 0)
    await talk.write("keeper", (0, 0), 0, (0, 9, 2, 1))
    await talk.delete("keeper")
    await talk.initialize("keeper", 1, -1)
    await talk.summary("keeper", 0)
    await talk.read("keeper", 3)
    await talk.summary("keeper", 3)
    await talk.read("keeper", 2)
    await talk.summary("keeper", 2)
    await talk.write("keeper", (1, 2), 0, (0, 9, 2, 1))
    await talk.write("keeper", (0, 3), 0, (0, 9, 2, 1))
    await talk.write("keeper", (1, 3), 0, (0, 9, 2, 1), (10, 19, 0, 2))
    await talk.read("keeper", 3)
    await talk.write("keeper", (1, 3), 0, (5, 14, 0, 2))
    await talk.read("keeper", 3)
    await talk.write("keeper", (1, 3), 0, (10, 14, 2, 3), (15, 19, 4, 3))
    await talk.read("keeper", -1)
    await talk.write("keeper", (1, 4), 12)
    await talk.read("keeper", 3)
    await talk.read("keeper", 4)
    await talk.write("keeper", (2, 4), -1, (30, 39, 2, 1))
    await talk.read("keeper", 4)
    await talk.initialize("keeper", 0, 5)
    await talk.initialize("keeper", 3, 7)
    await talk.read("keeper", 4)
    await talk.delete("keeper")
    await talk.delete("keeper")
    await talk.read("keeper", 4)


async def bad_state_requests(talk: ShareTalk) -> None:
    await talk.set_up("bad-state", "nobody")
    for group in ("", "nobody"):
        for partition in (-1, 0, 7):
            await talk.initialize(group, 0, 0, partition)
            await talk.read(group, 0, partition)
            await talk.summary(group, 0, partition)
            await talk.delete(group, partition)
    known, talk.topic_id = talk.topic_id, bytes(15) + b"\x07"
    await talk.initialize("nobody", 0, 0)
    await talk.read("nobody", 0)
    await talk.write("nobody", (0, 0), 0)
    talk.topic_id = known


async def accept_release_reject(talk: ShareTalk) -> None:
    await talk.set_up("work", "crew")
    await talk.start_group("crew")
    await talk.produce(*[b"job"] * 10)
    await talk.produce(*[b"job"] * 5)
    await talk.fetch("crew", 0)
    await talk.acknowledge("crew", 1, (0, 3, [1]), (4, 5, [2, 3]))
    await talk.fetch("crew", 2)
    await talk.fetch("crew", 3, (4, 4, [1]), (6, 8, [1, 2, 0]))
    await talk.fetch("crew", 4, (9, 14, [1]), max_wait_ms=A_MOMENT_MS)
    await talk.fetch("crew", 5, (7, 7, [1]), max_wait_ms=A_MOMENT_MS)
    await talk.fetch("crew", 6, max_wait_ms=A_MOMENT_MS)
    await talk.fetch("crew", -1, partitions=())


async def bad_acknowledgements(talk: ShareTalk) -> None:
    await talk.set_up("bad-acks", "liars")
    await talk.start_group("liars")
    await talk.produce(*[b"job"] * 10)
    await talk.fetch("liars", 0, max_records=10)
    acknowledgements: list[tuple[int, int, list[int]]] = [
        (0, 12, [1]),
        (20, 21, [1]),
        (5, 3, [1]),
        (0, 3, []),
        (0, 3, [1, 1]),
        (0, 3, [5]),
        (0, 3, [-1]),
        (0, 3, [4]),
    ]
    epoch = 1
    for version in (1, 2):
        for each in acknowledgements:
            await talk.acknowledge("liars", epoch, each, version=version)
            epoch += 1
    await talk.acknowledge("liars", epoch, (0, 3, [1]), (3, 4, [1]))
    await talk.acknowledge("liars", epoch + 1, (4, 5, [1]), (0, 3, [1]))
    await talk.acknowledge("liars", epoch + 2, (0, 3, [1]), (4, 4, [1]))
    await talk.acknowledge("liars", epoch + 3, (0, 3, [1]))
    await talk.acknowledge("liars", epoch + 4, (4, 6, [1]))
    await talk.acknowledge("liars", epoch + 5, (5, 6, [1]), partition=3)
    known, talk.topic_id = talk.topic_id, bytes(15) + b"\x07"
    await talk.acknowledge("liars", epoch + 6, (5, 6, [1]))
    talk.topic_id = known
    await talk.acknowledge("liars", epoch + 7, (5, 6, [4]), is_renew_ack=True)
    await talk.fetch("liars", epoch + 8, (7, 7, [1]), is_renew_ack=True)
    await talk.fetch(
        "liars",
        epoch + 8,
        (7, 8, [1, 4]),
        is_renew_ack=True,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        max_records=0,
    )
    await talk.acknowledge("liars", epoch + 9, (9, 9, [1]), member="somebody")
    await talk.fetch("liars", 0, member="somebody", max_wait_ms=A_MOMENT_MS)
    await talk.acknowledge("liars", 1, (9, 9, [1]), member="somebody")


async def sessions(talk: ShareTalk) -> None:
    await talk.set_up("sessions", "club")
    await talk.start_group("club")
    await talk.produce(b"job")
    for member in (None, "", "m" * 37):
        await talk.fetch("club", 0, member=member)
        await talk.acknowledge("club", 1, (0, 0, [1]), member=member)
    await talk.fetch("club", 1)
    await talk.fetch("club", -1, partitions=())
    await talk.fetch("club", 0, (0, 0, [1]))
    await talk.acknowledge("club", 0, (0, 0, [1]))
    await talk.acknowledge("club", 1, (0, 0, [1]))
    await talk.acknowledge("club", -1, (0, 0, [1]))
    await talk.fetch("club", 0)
    await talk.fetch("club", 2)
    await talk.fetch("club", 7)
    await talk.acknowledge("club", 7, (0, 0, [1]))
    await talk.acknowledge("club", 1, (0, 0, [2]))
    await talk.fetch("club", 2, forgotten=(0,), partitions=())
    await talk.fetch("club", 3)
    await talk.acknowledge("club", -1, (0, 0, [1]))
    await talk.acknowledge("club", -1, (0, 0, [1]))
    await talk.fetch("club", 0, partitions=(5,))
    await talk.fetch("club", 0, partitions=(0,), max_records=0)


async def deliveries(talk: ShareTalk) -> None:
    """Repeatedly delivered records are split into smaller parts, and finally alone."""
    await talk.set_up("deliveries", "clumsy")
    await talk.start_group("clumsy")
    await talk.produce(*[b"job"] * 8)
    answer, epoch, deliveries_left = await talk.fetch("clumsy", 0), 1, 8 * MAX_DELIVERIES
    while deliveries_left:
        taken = [
            (each.first_offset, each.last_offset)
            for topic in answer.responses
            for part in topic.partitions
            for each in part.acquired_records
        ]
        assert taken
        deliveries_left -= sum(last - first + 1 for first, last in taken)
        # In a separate request: a waiting Kafka fetch is not woken by its own release.
        await talk.acknowledge("clumsy", epoch, *((*offsets, [2]) for offsets in taken))
        patience = TIMEOUT_MS if deliveries_left else A_MOMENT_MS
        answer = await talk.fetch("clumsy", epoch + 1, max_wait_ms=patience)
        epoch += 2


async def limits(talk: ShareTalk) -> None:
    await talk.set_up("limits", "modest")
    await talk.start_group("modest")
    for size in (3, 4, 1, 6):
        await talk.produce(*[b"job"] * size)
    await talk.fetch("modest", 0, max_records=5)
    await talk.fetch("modest", 1, (0, 1, [2]), max_records=2, share_acquire_mode=1)
    await talk.fetch("modest", 2, max_records=4, share_acquire_mode=1)
    await talk.fetch("modest", 3, max_records=100, batch_size=2)
    await talk.fetch("modest", -1, partitions=())


async def bad_heartbeats(talk: ShareTalk) -> None:
    await talk.set_up("beats", "hearts")
    fields: dict[str, Any]
    for fields in (
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
        {"member_epoch": -1},
        {"member_epoch": 3},
    ):
        await talk.beat("hearts", **fields)
    joined = await talk.beat("hearts")
    await talk.beat("hearts", member_epoch=joined.member_epoch + 7, subscribed_topic_names=None)
    await talk.beat("hearts", "somebody", member_epoch=2, subscribed_topic_names=None)
    await talk.beat("hearts", "somebody", member_epoch=-1)
    await talk.beat("hearts", member_epoch=-1, subscribed_topic_names=None)
    await talk.beat("hearts", member_epoch=-1, subscribed_topic_names=None)


async def offsets(talk: ShareTalk) -> None:
    """Offset operations of administrators."""
    await talk.set_up("offsets", "admins", partitions=2)
    await talk.produce(*[b"job"] * 10)
    await talk.describe_offsets("admins", {talk.topic: [0, 1], "unknown": [0]})
    await talk.describe_offsets("admins", None)
    await talk.alter_offsets("", {talk.topic: {0: 4}})
    await talk.alter_offsets("admins", {talk.topic: {0: 4, 7: 1}, "unknown": {0: 3}})
    await talk.describe_offsets("admins", {talk.topic: [0, 1]})
    await talk.describe_offsets("admins", None)
    await talk.fetch("admins", 0, max_records=3, share_acquire_mode=1)
    await talk.fetch("admins", -1, (4, 6, [1]))
    await talk.delete_offsets("admins", "unknown", talk.topic)
    await talk.delete_offsets("admins", talk.topic)
    await talk.describe_offsets("admins", None)
    await talk.delete_offsets("", talk.topic)
    await talk.delete_offsets("nobody", talk.topic)
    await talk.alter_offsets("admins", {talk.topic: {1: 0}})
    await talk.beat("admins")
    await talk.alter_offsets("admins", {talk.topic: {0: 1}})
    await talk.delete_offsets("admins", talk.topic)
    await talk.ask(DeleteGroupsRequest(["admins", "nobody"]), 2)
    await talk.beat("admins", member_epoch=-1, subscribed_topic_names=None)
    await talk.ask(DeleteGroupsRequest(["admins"]), 2)
    await talk.ask(ShareGroupDescribeRequest(["admins", ""]), 1)


SCENARIOS: list[Scenario] = [
    stored_state,
    bad_state_requests,
    accept_release_reject,
    bad_acknowledgements,
    sessions,
    deliveries,
    limits,
    bad_heartbeats,
    offsets,
]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with kafka_and_barnabas(tmp_path_factory.mktemp("kafka"), SETTINGS) as both:
        yield both


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_barnabas_answers_as_apache_kafka_does(addresses: Addresses, scenario: Scenario) -> None:
    assert_same_answers(addresses, ShareTalk, scenario)
