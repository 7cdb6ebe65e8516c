"""Share groups with real clients: confluent-kafka's ShareConsumer, and Kafka's own share consumer and tools."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from barnabas import Admin
from barnabas.testing import EmbeddedBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka.tools import run_tool
from tests.support.waiting import until

TIMEOUT_S = 60.0
SETTINGS = {"group.share.min.record.lock.duration.ms": "1000"}
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic(partitions=2)


def set_group(bootstrap: str, group: str, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)


def publish(
    bootstrap: str,
    topic: str,
    values: list[str],
    headers: dict[str, str | bytes | None] | None = None,
    *,
    batch: int = 10_000,
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": batch})
    for value in values:
        producer.produce(topic, value, headers=headers or {})
    assert producer.flush(TIMEOUT_S) == 0


def share_consumer(bootstrap: str, group: str, topic: str, mode: str = "explicit") -> ShareConsumer:
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode}
    )
    consumer.subscribe([topic])
    return consumer


def take(consumer: ShareConsumer, count: int, output: Callable[[Message], AcknowledgeType]) -> list[Message]:
    """Poll until this number of records arrived, each acknowledged by the callback."""
    taken: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(taken) < count and time.monotonic() < deadline:
        messages = list(consumer.poll(0.5))
        for message in messages:
            assert message.error() is None
            consumer.acknowledge(message, output(message))
        if messages:
            consumer.commit_sync(TIMEOUT_S)
        taken += messages
    return taken


def _extended(found: list[Message], more: Iterable[Message]) -> list[Message]:
    found.extend(more)
    return found


def read_all(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Records of a normal consumer."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    until(lambda: len(_extended(found, consumer.consume(count, 0.5))) >= count)
    consumer.close()
    return found


def _headers(message: Message) -> dict[str, Any]:
    return dict(message.headers() or ())


def accept(message: Message) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT


def test_two_members_share_the_records_of_a_partition(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=1)
    set_group(broker.bootstrap_servers, f"{topic}-crew", share_auto_offset_reset="earliest")
    values = [f"job {number}" for number in range(400)]
    publish(broker.bootstrap_servers, topic, values)
    taken: list[list[str]] = [[], []]

    def work(own: list[str]) -> None:
        consumer = share_consumer(broker.bootstrap_servers, f"{topic}-crew", topic, "implicit")
        deadline = time.monotonic() + TIMEOUT_S
        while sum(map(len, taken)) < len(values) and time.monotonic() < deadline:
            own += [(message.value() or b"").decode() for message in consumer.poll(0.2)]
            consumer.commit_sync(TIMEOUT_S)
        consumer.close()

    workers = [threading.Thread(target=work, args=(own,)) for own in taken]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(taken[0] + taken[1]) == sorted(values)


def test_released_records_are_redelivered_and_rejected_ones_become_dead_letters(
    broker: EmbeddedBroker, topic: str
) -> None:
    bootstrap, group = broker.bootstrap_servers, f"{topic}-crew"
    broker.create_topic(f"dlq.{topic}", configs={"errors.deadletterqueue.group.enable": "true"})
    set_group(
        bootstrap,
        group,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name=f"dlq.{topic}",
        errors_deadletterqueue_copy_record_enable="true",
    )
    publish(bootstrap, topic, ["accept", "release", "reject"], {"color": "green"})
    outcomes = {
        b"accept": AcknowledgeType.ACCEPT,
        b"release": AcknowledgeType.RELEASE,
        b"reject": AcknowledgeType.REJECT,
    }
    consumer = share_consumer(bootstrap, group, topic)
    taken = take(consumer, 4, lambda message: outcomes[message.value() or b""])
    assert sorted(message.value() or b"" for message in taken) == [
        b"accept",
        b"reject",
        b"release",
        b"release",
    ]
    letters = read_all(bootstrap, f"dlq.{topic}", 2)
    consumer.close()
    facts = {letter.value(): _headers(letter) for letter in letters}
    assert facts.keys() == {b"release", b"reject"}
    for value, deliveries, reason in ((b"reject", b"1", b"rejected"), (b"release", b"2", b"count exceeded")):
        headers = facts[value]
        assert headers["color"] == b"green"
        assert headers["__dlq.errors.topic"] == topic.encode()
        assert headers["__dlq.errors.group"] == group.encode()
        assert headers["__dlq.errors.delivery.count"] == deliveries
        assert reason in headers["__dlq.errors.message"]


def test_dead_letters_that_could_not_be_written_before_a_restart_are_written_after_it(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic("jobs")
        settings = {"share_auto_offset_reset": "earliest", "errors_deadletterqueue_topic_name": "dlq.jobs"}
        set_group(broker.bootstrap_servers, "crew", **settings)
        publish(broker.bootstrap_servers, "jobs", ["bad", "worse"])
        consumer = share_consumer(broker.bootstrap_servers, "crew", "jobs")
        assert len(take(consumer, 2, lambda message: AcknowledgeType.REJECT)) == 2
        consumer.close()
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic("dlq.jobs", configs={"errors.deadletterqueue.group.enable": "true"})
        consumer = share_consumer(broker.bootstrap_servers, "crew", "jobs")
        publish(broker.bootstrap_servers, "jobs", ["good"])
        assert [message.value() for message in take(consumer, 1, accept)] == [b"good"]
        letters = read_all(broker.bootstrap_servers, "dlq.jobs", 2)
        assert {_headers(letter)["__dlq.errors.offset"] for letter in letters} == {b"0", b"1"}
        consumer.close()


def test_dead_letter_settings_change_while_broker_and_group_run() -> None:
    with EmbeddedBroker() as broker, Admin(broker.bootstrap_servers) as admin:
        bootstrap = broker.bootstrap_servers
        broker.create_topic("jobs")
        set_group(bootstrap, "crew", share_auto_offset_reset="earliest")
        consumer = share_consumer(bootstrap, "crew", "jobs")
        publish(bootstrap, "jobs", ["dropped"])
        take(consumer, 1, lambda message: AcknowledgeType.REJECT)
        with pytest.raises(KafkaException, match=r"must begin with 'dlq\.'"):
            set_group(bootstrap, "crew", errors_deadletterqueue_topic_name="dead.jobs")
        admin.alter_broker_configs(
            None,
            {
                "errors.deadletterqueue.topic.name.prefix": "dead.",
                "errors.deadletterqueue.auto.create.topics.enable": "true",
            },
        )
        set_group(
            bootstrap,
            "crew",
            errors_deadletterqueue_topic_name="dead.jobs",
            errors_deadletterqueue_copy_record_enable="true",
        )
        publish(bootstrap, "jobs", ["bad"])
        take(consumer, 1, lambda message: AcknowledgeType.REJECT)
        assert [letter.value() for letter in read_all(bootstrap, "dead.jobs", 1)] == [b"bad"]
        consumer.close()


def test_record_with_an_expired_lock_is_acquired_by_another_member(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()  # of one partition, which both members read
    bootstrap, group = broker.bootstrap_servers, f"{topic}-crew"
    set_group(bootstrap, group, share_auto_offset_reset="earliest", share_record_lock_duration_ms="1000")
    publish(bootstrap, topic, ["job"])
    slow = share_consumer(bootstrap, group, topic)
    held: list[Message] = []
    until(lambda: _extended(held, slow.poll(0.5)))
    quick = share_consumer(bootstrap, group, topic)
    (again,) = take(quick, 1, accept)
    assert again.value() == b"job"
    quick.close()
    slow.close()


def test_a_group_that_reads_committed_records_sees_no_others(broker: EmbeddedBroker) -> None:
    bootstrap, topic = broker.bootstrap_servers, broker.create_topic()
    set_group(
        bootstrap, f"{topic}-crew", share_auto_offset_reset="earliest", share_isolation_level="read_committed"
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(topic, f"{number}")
        assert producer.flush(TIMEOUT_S) == 0
        if number % 2:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = share_consumer(bootstrap, f"{topic}-crew", topic)
    taken = take(consumer, 60, accept)
    assert [message.value() for message in taken] == [b"1"] * 20 + [b"3"] * 20 + [b"5"] * 20
    producer.commit_transaction(TIMEOUT_S)
    assert [message.value() for message in take(consumer, 1, accept)] == [b"open"]
    consumer.close()


def test_a_group_that_began_at_the_end_misses_nothing_while_it_has_no_members(broker: EmbeddedBroker) -> None:
    bootstrap, topic = broker.bootstrap_servers, broker.create_topic()
    publish(bootstrap, topic, ["before"])
    consumer = share_consumer(bootstrap, f"{topic}-crew", topic)
    shares = broker.broker.coordinators.share_partitions
    until(lambda: list(consumer.poll(0.2)) == [] and any(led.share for led in shares))
    consumer.close()
    publish(bootstrap, topic, ["meanwhile"])
    consumer = share_consumer(bootstrap, f"{topic}-crew", topic)
    assert [message.value() for message in take(consumer, 1, accept)] == [b"meanwhile"]
    consumer.close()


def test_group_continues_after_deleted_records(broker: EmbeddedBroker) -> None:
    bootstrap, topic = broker.bootstrap_servers, broker.create_topic()
    set_group(bootstrap, f"{topic}-crew", share_auto_offset_reset="earliest")
    publish(bootstrap, topic, [str(number) for number in range(20)])
    consumer = share_consumer(bootstrap, f"{topic}-crew", topic)
    first = take(consumer, 20, lambda message: AcknowledgeType.RELEASE)
    assert len(first) >= 20
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        done.result(TIMEOUT_S)
    again = take(consumer, 5, accept)
    assert {message.value() for message in again} >= {b"15", b"16", b"17", b"18", b"19"}
    consumer.close()


def test_a_delayed_record_waits_for_its_time_in_share_groups_only(tmp_path: Path) -> None:
    # A machine that is too slow to see anything within the first delay gets a second, longer one.
    deliver_at = take_what_is_not_delayed(tmp_path / "quick", 4000)
    folder = tmp_path / "quick"
    if not deliver_at:
        folder = tmp_path / "slow"
        deliver_at = take_what_is_not_delayed(folder, 40_000)
    assert deliver_at
    with EmbeddedBroker(data_dir=folder) as broker:
        consumer = share_consumer(broker.bootstrap_servers, "crew", "later")
        taken = take(consumer, 2, accept)
        assert time.time() * 1000 >= deliver_at
        assert sorted(message.value() or b"" for message in taken) == [b"at", b"slow"]
        consumer.close()


def take_what_is_not_delayed(folder: Path, delay_ms: int) -> int:
    """Due time of the other two records; 0 if it had passed before they were checked."""
    with EmbeddedBroker(data_dir=folder) as broker:
        topic = broker.create_topic("later", configs={"barnabas.delay.enable": "true"})
        set_group(broker.bootstrap_servers, "crew", share_auto_offset_reset="earliest")
        deliver_at = int(time.time() * 1000) + delay_ms
        publish(broker.bootstrap_servers, topic, ["at"], {"barnabas-deliver-at": str(deliver_at)})
        publish(broker.bootstrap_servers, topic, ["slow"], {"barnabas-delay-ms": str(delay_ms)})
        publish(broker.bootstrap_servers, topic, ["quick"])
        consumer = share_consumer(broker.bootstrap_servers, "crew", topic)
        taken = [message.value() for message in take(consumer, 1, accept)]
        seen_at = time.time() * 1000
        consumer.close()
        if seen_at >= deliver_at:
            return 0
        assert taken == [b"quick"]
        in_order = [message.value() for message in read_all(broker.bootstrap_servers, topic, 3)]
        assert in_order == [b"at", b"slow", b"quick"]
        return deliver_at


@pytest.mark.parametrize(
    "headers",
    [{"barnabas-delay-ms": "90000"}, {"barnabas-deliver-at": "soon"}],
    ids=["too late", "no number"],
)
def test_a_delay_that_cannot_be_kept_is_refused(
    broker: EmbeddedBroker, headers: dict[str, str | bytes | None]
) -> None:
    topic = broker.create_topic(configs={"barnabas.delay.enable": "true", "retention.ms": "60000"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    errors: list[object] = []
    producer.produce(topic, "job", headers=headers, callback=lambda error, message: errors.append(error))
    producer.flush(TIMEOUT_S)
    (error,) = errors
    assert error is not None
    assert error.name() == "INVALID_RECORD"  # type: ignore[attr-defined]


class WorkerProcess:
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        command = [sys.executable, "-m", "tests.share.worker", bootstrap, group, topic]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.got: set[str] = set()
        self.done: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                word, _, value = line.strip().partition(" ")
                if word == "got":
                    self.got.add(value)
                elif word == "done":
                    self.done.append(value)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


def test_nothing_is_lost_when_workers_and_the_broker_are_killed(tmp_path: Path) -> None:
    values = [f"{number}" for number in range(1200)]

    def bring(part: list[str]) -> None:
        # Small batches: a worker gets complete ones, and must not get all.
        publish(bootstrap, "jobs", part, batch=10)

    with BrokerProcess(tmp_path, "share.coordinator.state.topic.num.partitions=1") as broker:
        bootstrap = broker.bootstrap_servers
        set_group(bootstrap, "crew", share_auto_offset_reset="earliest")
        workers = [WorkerProcess(bootstrap, "crew", "jobs") for _ in range(2)]
        try:
            bring(values[:400])
            until(lambda: sum(len(worker.done) for worker in workers) > 100)
            workers[0].kill()
            bring(values[400:800])
            until(lambda: len(workers[1].done) > 150)
            broker.kill()
            # Work of a killed worker or broker may be done without an acknowledgement.
            unsure = workers[0].got | workers[1].got
            broker.start()
            workers.append(WorkerProcess(bootstrap, "crew", "jobs"))
            bring(values[800:])
            until(lambda: {value for each in workers for value in each.done} | unsure >= set(values))
        finally:
            for worker in workers:
                worker.kill()
    assert set().union(*(worker.got for worker in workers)) == set(values)


@pytest.mark.java
def test_kafkas_own_share_consumer_and_tools(broker: EmbeddedBroker, topic: str) -> None:
    bootstrap, group = broker.bootstrap_servers, f"{topic}-java"
    server = ("--bootstrap-server", bootstrap)
    set_group(bootstrap, group, share_auto_offset_reset="earliest")
    publish(bootstrap, topic, [f"job {number}" for number in range(60)])

    consumed = run_tool(CONSOLE, *server, "--topic", topic, "--group", group, "--max-messages", "60").check()
    assert sorted(consumed.stdout.split("\n")[:-1]) == sorted(f"job {number}" for number in range(60))
    described = run_tool(GROUPS, *server, "--describe", "--group", group, "--offsets").check().stdout
    rows = [line.split() for line in described.splitlines() if topic in line]
    assert sorted(row[2] for row in rows) == ["0", "1"]
    assert sum(int(row[3]) for row in rows) == 60  # start offsets
    assert [row[4] for row in rows] == ["0", "0"]  # lag

    reset = ("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    run_tool(GROUPS, *server, "--group", group, *reset).check()
    verified = run_tool(
        VERIFIABLE, *server, "--topic", topic, "--group-id", group, "--max-messages", "60"
    ).check()
    assert '"name":"records_consumed"' in verified.stdout
    deleted = run_tool(GROUPS, *server, "--delete-offsets", "--group", group, "--topic", topic).check()
    assert topic in deleted.stdout
    run_tool(GROUPS, *server, "--delete", "--group", group).check()
    assert group not in run_tool(GROUPS, *server, "--list").check().stdout
