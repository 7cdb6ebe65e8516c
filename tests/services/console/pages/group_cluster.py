"""A cluster with a group of each type, on either broker: for tests that compare with Kafka's own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets
from barnabas.common.types import TopicPartition
from tests.groups.streams.test_same_answers_as_kafka import StreamsTalk, commit
from tests.share.test_with_clients import set_group, share_consumer, take
from tests.support.builders.streams import sent_topology, subtopology
from tests.support.kafka.tools import run_tool
from tests.support.waiting import eventually

TIMEOUT = 60.0
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"

Rows = dict[tuple[str, int], tuple[int, int | None]]
"""(committed, lag), by topic and partition."""


def fill(bootstrap: str) -> None:
    """`orders` has ten records in each of three partitions; `billing` has committed in two of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic("orders", 3, 1), NewTopic("empty", 1, 1)]).values():
        done.result(TIMEOUT)
    produce(bootstrap, 30)
    commit_as("billing", bootstrap, {0: 4, 1: 10})
    commit_as("other", bootstrap, {0: 1, 2: 2})


def produce(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce("orders", str(number).encode(), partition=number % 3)
    assert producer.flush(TIMEOUT) == 0


def commit_as(group: str, bootstrap: str, offsets: dict[int, int]) -> None:
    async def send() -> None:
        async with Client(bootstrap) as client:
            wanted = {TopicPartition("orders", partition): offset for partition, offset in offsets.items()}
            await commit_offsets(client, group, wanted)

    asyncio.run(send())


@contextmanager
def member_of(group: str, bootstrap: str) -> Iterator[None]:
    """Of the consumer protocol; it has committed one record."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    member = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe(["orders"])
    record = eventually(lambda: member.poll(0.2), lambda polled: polled is not None, every=0)
    assert record is not None
    member.commit(message=record, asynchronous=False)
    try:
        yield
    finally:
        member.close()


def share(group: str, bootstrap: str) -> None:
    """Earlier records are done, six new ones exist, and the group is empty."""
    set_group(bootstrap, group, share_auto_offset_reset="earliest")
    consumer = share_consumer(bootstrap, group, "orders")
    assert len(take(consumer, 30, lambda record: AcknowledgeType.ACCEPT)) == 30
    consumer.close()
    produce(bootstrap, 6)


def stream(group: str, bootstrap: str) -> None:
    """A member with three tasks, which has committed offset 7 of partition 0."""

    async def join() -> None:
        talk = StreamsTalk(bootstrap)
        await talk.begin(group, topics=())
        await talk.configure(group, streams_initial_rebalance_delay_ms="0")
        joined = await talk.join(group, topology=sent_topology(subtopology("0", "orders")))
        await talk.ask(commit(group, "a", joined.member_epoch, "orders"), 9)
        talk.close()

    asyncio.run(join())


def told_by_kafka(tool: str, bootstrap: str, group: str, *columns: str) -> Rows:
    """Output of a Kafka tool for a group; `columns` are those of the offset and the lag."""
    done = run_tool(tool, "--bootstrap-server", bootstrap, "--describe", "--group", group).check()
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    head = next(line for line in lines if "TOPIC" in line)
    columns = columns or ("CURRENT-OFFSET", "LAG")
    at = {name: head.index(name) for name in ("TOPIC", "PARTITION", *columns)}
    rows = [line for line in lines if line[0] == group]
    return {
        (row[at["TOPIC"]], int(row[at["PARTITION"]])): (int(row[at[columns[0]]]), int(row[at[columns[1]]]))
        for row in rows
        if row[at[columns[0]]] != "-"
    }
