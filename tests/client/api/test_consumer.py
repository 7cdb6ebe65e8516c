"""The public consumer, blocking and for asyncio, with both group protocols, against Barnabas and Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

from barnabas import (
    Admin,
    AsyncConsumer,
    CommitFailedError,
    Consumer,
    ConsumerRecord,
    NoOffsetError,
    Producer,
    SerializationError,
    TopicPartition,
)
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until

NewName = Callable[[], str]
Protocol = Literal["classic", "consumer"]


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return "classic" if request.param == "classic" else "consumer"


def filled(bootstrap: str, topic: str, count: int, partitions: int = 2) -> str:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions)
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)
    return topic


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: Iterator[ConsumerRecord] = iter(consumer)
    return [next(records) for _ in range(count)]


def numbers(records: list[ConsumerRecord]) -> list[int]:
    return sorted(int(record.value) for record in records)


def test_a_group_continues_after_the_records_that_were_iterated_over(
    everywhere: str, new_name: NewName, protocol: Protocol
) -> None:
    topic, group = filled(everywhere, new_name(), 20), new_name()

    def consumer() -> Consumer:
        return Consumer(
            everywhere, topics=topic, group_id=group, group_protocol=protocol, auto_offset_reset="earliest"
        )

    with consumer() as first:
        seen = take(first, 7)
    with consumer() as second:
        seen += take(second, 13)
        assert second.lag() == dict.fromkeys(second.assignment, 0)
    assert numbers(seen) == list(range(20))


def test_a_record_whose_processing_failed_is_read_again(embedded: EmbeddedBroker) -> None:
    servers = embedded.bootstrap_servers
    topic = filled(servers, "failing", 10, 1)

    def consumer() -> Consumer:
        return Consumer(servers, topics=topic, group_id="failing", auto_offset_reset="earliest")

    with pytest.raises(ZeroDivisionError), consumer() as first:  # noqa: PT012  # leaves the block
        for record in first:
            if record.offset == 4:
                raise ZeroDivisionError
    with consumer() as second:
        assert take(second, 1)[0].offset == 4
    with pytest.raises(ZeroDivisionError), consumer() as third:  # noqa: PT012
        assert third.poll(30, max_records=3)
        raise ZeroDivisionError
    with consumer() as fourth:
        assert take(fourth, 1)[0].offset == 5


def test_an_explicit_commit_contains_the_record_in_hand(bootstrap: str, new_name: NewName) -> None:
    topic, group = filled(bootstrap, new_name(), 10, 1), new_name()
    tp = TopicPartition(topic, 0)
    with Consumer(
        bootstrap, topics=topic, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        assert take(consumer, 3)[-1].offset == 2
        consumer.commit()
        assert consumer.committed(tp)[tp].offset == 3
        assert consumer.position(tp) == 3
        assert numbers(consumer.poll(30)) == list(range(3, 10))
        consumer.commit_async().result(30)
        assert consumer.committed()[tp].offset == 10
        consumer.commit({tp: 5})
    with Admin(bootstrap) as admin:
        assert admin.group_offsets(group)[tp].offset == 5


class Member:
    """A consumer in a thread, with the arguments of its callbacks."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: Protocol, strategy: str) -> None:
        self.seen: list[int] = []
        self.events: list[tuple[str, int]] = []
        self.assignment: frozenset[TopicPartition] = frozenset()
        self._stop = threading.Event()
        self._consumer = Consumer(
            bootstrap,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            partition_assignment_strategy=strategy,
            heartbeat_interval_ms=300,
            session_timeout_ms=10_000,
        )
        self._topic = topic
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe(
                self._topic,
                on_assigned=lambda tps: self.events.append(("assigned", len(tps))),
                on_revoked=lambda tps: self.events.append(("revoked", len(tps))),
            )
            while not self._stop.is_set():
                self.seen += [int(record.value) for record in consumer.poll(0.1)]
                self.assignment = consumer.assignment

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize(
    ("protocol", "strategy"), [("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", "range")]
)
def test_members_share_partitions_and_take_over(
    bootstrap: str, new_name: NewName, protocol: Protocol, strategy: str
) -> None:
    topic, group = filled(bootstrap, new_name(), 40, 4), new_name()
    first = Member(bootstrap, topic, group, protocol, strategy)
    until(lambda: len(first.seen) == 40)
    second = Member(bootstrap, topic, group, protocol, strategy)
    until(lambda: len(first.assignment) == len(second.assignment) == 2)
    assert not first.assignment & second.assignment
    revoked = [count for event, count in first.events if event == "revoked"]
    assert revoked == ([4] if strategy == "range" and protocol == "classic" else [2])
    first.stop()
    until(lambda: len(second.assignment) == 4)
    with Producer(bootstrap) as producer:
        for number in range(40, 48):
            producer.send(topic, b"%d" % number, partition=number % 4)
    until(lambda: len(second.seen) == 8)
    second.stop()
    assert Counter(first.seen + second.seen) == Counter(range(48))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluents_members_share_a_group_with_barnabas_members(
    bootstrap: str, new_name: NewName, protocol: Protocol
) -> None:
    topic, group = filled(bootstrap, new_name(), 0, 4), new_name()
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    if protocol == "classic":
        settings |= {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": "300"}
    remote = ConfluentConsumer(settings)
    remote.subscribe([topic])

    def theirs_has(count: int) -> bool:
        remote.poll(0.1)
        return len(remote.assignment()) == count

    until(lambda: theirs_has(4))
    ours = Member(bootstrap, topic, group, protocol, "cooperative-sticky")
    until(lambda: theirs_has(2) and len(ours.assignment) == 2)
    remote.close()
    until(lambda: len(ours.assignment) == 4)
    ours.stop()


def test_seek_pause_and_positions(bootstrap: str, new_name: NewName) -> None:
    topic = filled(bootstrap, new_name(), 20)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(bootstrap) as consumer:
        consumer.assign([first, second])
        assert consumer.seek_to_end() == {first: 10, second: 10}
        consumer.seek(first, 8)
        assert numbers(consumer.poll(30)) == [16, 18]
        assert consumer.seek_to_beginning(second) == {second: 0}
        consumer.pause(second)
        assert consumer.paused == {second}
        assert consumer.poll(0.5) == []
        consumer.resume()
        assert numbers(consumer.poll(30)) == list(range(1, 20, 2))
        assert consumer.seek_to_timestamp(0) == {first: 0, second: 0}
        late = int(time.time() * 1000) + 60_000
        assert consumer.seek_to_timestamp(late, first) == {first: 10}
        assert consumer.lag() == {first: 0, second: 10}
        with pytest.raises(ValueError, match="is not assigned"):
            consumer.seek(TopicPartition(topic, 9), 0)
        with pytest.raises(ValueError, match="commits need a group"):
            consumer.commit()


def test_a_pattern_selects_topics(bootstrap: str, new_name: NewName) -> None:
    prefix = new_name()
    for ending in ("a", "b"):
        filled(bootstrap, f"{prefix}.{ending}", 3, 1)
    with Consumer(bootstrap, group_id=prefix, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(pattern=rf"^{prefix}\.")
        found = {record.topic for record in take(consumer, 6)}
    assert found == {f"{prefix}.a", f"{prefix}.b"}


def test_arrow_batches_move_positions_too(bootstrap: str, new_name: NewName) -> None:
    topic, group = filled(bootstrap, new_name(), 100), new_name()
    with Consumer(bootstrap, topics=topic, group_id=group, auto_offset_reset="earliest") as consumer:
        take(consumer, 10)
        rows = sum(batch.num_rows for batch in consumer.batches(["value"], timeout=2))
        assert rows == 90
        assert sum(consumer.positions().values()) == 100
    with Admin(bootstrap) as admin:
        assert sum(commit.offset for commit in admin.group_offsets(group).values()) == 100
    with Consumer(bootstrap, topics=topic, auto_offset_reset="earliest") as consumer:
        batch = next(consumer.batches())
        assert batch.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
        assert batch.column("topic")[0].as_py() == topic


def test_asyncio_iterates_polls_and_calls_coroutines(bootstrap: str, new_name: NewName) -> None:
    topic, group = filled(bootstrap, new_name(), 30), new_name()

    async def main() -> None:
        assigned: list[int] = []

        async def on_assigned(partitions: set[TopicPartition]) -> None:
            await asyncio.sleep(0)
            assigned.append(len(partitions))

        async with AsyncConsumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic], on_assigned=on_assigned)
            seen = []
            async for record in consumer:
                seen.append(record)
                if len(seen) == 10:
                    break
            await consumer.commit()
            while len(seen) < 20:
                seen += await consumer.poll(30, max_records=20 - len(seen))
            async for rows in consumer.batches(timeout=2):
                seen += [None] * rows.num_rows  # type: ignore[list-item]  # counted only
            assert len(seen) == 30
            assert sum(assigned) == 2
            assert await consumer.lag() == dict.fromkeys(consumer.assignment, 0)

    asyncio.run(main())


def test_only_committed_records_are_read_if_wanted(bootstrap: str, new_name: NewName) -> None:
    topic = filled(bootstrap, new_name(), 1, 1)
    remote = ConfluentProducer({"bootstrap.servers": bootstrap, "transactional.id": new_name()})
    remote.init_transactions()
    for end in (remote.abort_transaction, remote.commit_transaction):
        remote.begin_transaction()
        remote.produce(topic, b"1")
        remote.flush()
        end()
    with Consumer(
        bootstrap, topics=topic, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        assert [record.offset for record in take(consumer, 2)] == [0, 3]
        batches = Consumer(
            bootstrap, topics=topic, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        offsets = [at for batch in batches.batches(timeout=1) for at in batch.column("offset").to_pylist()]
        assert offsets == [0, 3]
        batches.close()


def test_without_an_offset_and_a_reset_the_caller_decides(embedded: EmbeddedBroker) -> None:
    servers = embedded.bootstrap_servers
    topic = filled(servers, "no-reset", 3, 1)
    with Consumer(servers, group_id="no-reset", auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(NoOffsetError, match=r"call seek\(\)"):
            consumer.poll(1)
        consumer.seek(TopicPartition(topic, 0), 1)
        assert numbers(consumer.poll(30)) == [1, 2]


def test_a_member_that_does_not_poll_leaves_its_partitions(embedded: EmbeddedBroker) -> None:
    servers = embedded.bootstrap_servers
    topic = filled(servers, "slow", 4, 2)
    lost: list[int] = []
    with (
        Consumer(servers, group_id="slow", auto_offset_reset="earliest", max_poll_interval_ms=300) as slow,
        Admin(servers) as admin,
    ):
        slow.subscribe(topic, on_lost=lambda partitions: lost.append(len(partitions)))
        take(slow, 1)
        until(lambda: admin.describe_group("slow").state.lower() == "empty")
        with pytest.raises(CommitFailedError, match="poll again"):
            slow.commit()
        assert lost == []
        until(lambda: bool(slow.poll(0.1)))  # joins again
        assert lost == [2]


def test_values_are_deserialized_and_errors_name_the_record(embedded: EmbeddedBroker) -> None:
    servers = embedded.bootstrap_servers
    topic = filled(servers, "numbers", 3, 1)
    with Producer(servers, value_serializer=lambda value: str(value).encode()) as producer:
        producer.send(topic, "none").result(30)
        producer.send(topic, 4).result(30)
    with Consumer(servers, topics=topic, auto_offset_reset="earliest", value_deserializer=int) as consumer:
        assert [record.value for record in take(consumer, 3)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(SerializationError, match=r"the value of the record at offset 3 of numbers-0"):
                consumer.poll(30)
        consumer.seek(TopicPartition(topic, 3 - 3), 4)
        assert take(consumer, 1)[0].value == 4


def test_subscribe_and_assign_exclude_each_other(embedded: EmbeddedBroker) -> None:
    with Consumer(embedded.bootstrap_servers, group_id="either") as consumer:
        with pytest.raises(ValueError, match=r"call subscribe\(\) or assign\(\) first"):
            consumer.poll(1)
        with pytest.raises(ValueError, match="either topics or a pattern"):
            consumer.subscribe()
        consumer.subscribe(filled(embedded.bootstrap_servers, "either", 1))
        with pytest.raises(ValueError, match="are mutually exclusive"):
            consumer.assign([TopicPartition("either", 0)])
