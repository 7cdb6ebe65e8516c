"""franz-go, sarama, kafka-go, kafkajs and rskafka against a broker, reading each other's records: `make peers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from barnabas.testing import EmbeddedBroker
from tests.peers import peer
from tests.peers.peer import ALL, WITH_GROUPS, WITH_TRANSACTIONS, PeerRecord
from tests.support.topics import CommittedOffsets, produce, values_to_end

pytestmark = pytest.mark.extended

COUNT = 200
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Pretended broker versions: the oldest that Kafka 4 serves, the last without KRaft, and newer ones.
VERSIONS = ("2.1.0", "2.8.0", "3.3.0", "4.0.0")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def values(records: set[PeerRecord]) -> list[str]:
    return sorted(record.value for record in records)


def numbered(prefix: str, count: int, first: int = 0) -> list[str]:
    return sorted(f"{prefix}-{number}" for number in range(first, first + count))


def written_by_all(broker: EmbeddedBroker, topic: str, count: int, **task: object) -> list[str]:
    for name in ALL:
        peer.run(
            name,
            "produce",
            broker.bootstrap_servers,
            topic=topic,
            count=count,
            partitions=PARTITIONS,
            prefix=name,
            **task,
        )
    return sorted(value for name in ALL for value in numbered(name, count))


def read_by_all(broker: EmbeddedBroker, topic: str, expected: list[str]) -> set[PeerRecord]:
    """Every client sees the same records at the same offsets."""
    servers = broker.bootstrap_servers
    found = {name: peer.read(name, servers, topic, len(expected), PARTITIONS) for name in ALL}
    for records in found.values():
        assert values(records) == expected
    first, *others = found.values()
    assert all(records == first for records in others)
    assert all(record.writer == record.value.split("-")[0] for record in first)
    return first


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_records_of_every_client(broker: EmbeddedBroker, codec: str) -> None:
    peer.require(*ALL)
    topic = broker.create_topic(f"written-{codec}", PARTITIONS)

    expected = written_by_all(broker, topic, COUNT, codec=codec)
    records = read_by_all(broker, topic, expected)

    for partition in range(PARTITIONS):
        offsets = sorted(record.offset for record in records if record.partition == partition)
        assert offsets == list(range(len(offsets)))


def test_records_of_three_megabytes_pass_between_all_clients(broker: EmbeddedBroker) -> None:
    peer.require(*ALL)
    topic = broker.create_topic("large", PARTITIONS, {"max.message.bytes": str(16 << 20)})

    expected = written_by_all(broker, topic, 2, size=3_000_000)
    records = read_by_all(broker, topic, expected)

    assert {record.size for record in records} == {3_000_000}


@pytest.mark.parametrize("name", WITH_GROUPS)
def test_two_members_share_a_topic_and_a_third_resumes_after_them(broker: EmbeddedBroker, name: str) -> None:
    peer.require(name)
    servers, group = broker.bootstrap_servers, f"group-of-{name}"
    topic = broker.create_topic(f"shared-{name}", PARTITIONS)
    produce(servers, topic, range(COUNT))
    task = {"topic": topic, "group": group, "partitions": PARTITIONS}

    with peer.start(name, "group", servers, **task) as first:
        first.wait_for(lambda: len(first.records) == COUNT)
        with peer.start(name, "group", servers, **task) as second:
            sent = COUNT
            while not second.records:  # the assignment takes a moment: write until both have a part
                sent = produce_more(servers, topic, sent)
                second.wait_for(lambda sent=sent: sent <= len(set(keys(first, second))))  # type: ignore[misc]
    assert sorted(set(keys(first, second))) == list(range(sent))

    with closing(CommittedOffsets(servers, group, topic, PARTITIONS)) as committed:
        before = committed.now()
        sent = produce_more(servers, topic, sent)
        with peer.start(name, "group", servers, **task) as third:
            third.wait_for(lambda: sum(committed.now()) == sent)
            third.wait_for(lambda: sent - 1 in keys(third))
    assert sum(before) >= COUNT
    assert all(record.offset >= before[record.partition] for record in third.records)


def produce_more(servers: str, topic: str, sent: int) -> int:
    produce(servers, topic, range(sent, sent + 30))
    return sent + 30


def keys(*members: peer.RunningPeer) -> list[int]:
    return [int(record.key) for member in members for record in member.records]


@pytest.mark.parametrize("name", WITH_TRANSACTIONS)
def test_aborted_transactions_are_read_by_no_client(broker: EmbeddedBroker, name: str) -> None:
    peer.require(*WITH_TRANSACTIONS)
    servers, topic = broker.bootstrap_servers, broker.create_topic(f"transacted-{name}", PARTITIONS)
    outcomes = ["commit", "abort", "commit", "abort", "commit"]

    peer.run(
        name,
        "transact",
        servers,
        topic=topic,
        count=20,
        prefix=name,
        transactional_id=f"id-{name}",
        transactions=outcomes,
    )

    expected = sorted(value for first in (0, 40, 80) for value in numbered(name, 20, first))
    for reader in WITH_TRANSACTIONS:
        assert values(peer.read(reader, servers, topic, 60)) == expected
    assert values_to_end(servers, topic, PARTITIONS) == expected


@pytest.mark.parametrize("name", WITH_TRANSACTIONS)
def test_records_are_transformed_exactly_once_though_the_client_is_killed(
    broker: EmbeddedBroker, name: str
) -> None:
    peer.require(name)
    servers = broker.bootstrap_servers
    source, target = (broker.create_topic(f"{what}-{name}", PARTITIONS) for what in ("source", "target"))
    produce(servers, source, range(COUNT))
    task = {
        "topic": source,
        "target": target,
        "group": f"transformers-{name}",
        "transactional_id": f"transform-{name}",
        "count": COUNT,
    }

    kills = 0
    with closing(CommittedOffsets(servers, f"transformers-{name}", source, PARTITIONS)) as committed:
        while sum(committed.now()) < COUNT:
            with peer.start(name, "transform", servers, **task) as running:
                wanted = COUNT // 4 * (kills + 1)
                running.wait_for(lambda wanted=wanted: sum(committed.now()) >= wanted)  # type: ignore[misc]
            kills += 1

    assert kills >= 3
    assert values_to_end(servers, target, PARTITIONS) == numbered("confluent", COUNT)


@pytest.mark.parametrize("name", ALL)
def test_topics_are_created_described_and_deleted(broker: EmbeddedBroker, name: str) -> None:
    peer.require(name)

    events = peer.run(
        name, "admin", broker.bootstrap_servers, topic=f"managed-{name}", partitions=5, prefix=name
    ).events

    middle = "first offset 4" if name == "rskafka" else "retention 3600000"
    assert [event for event in events if event != "assigned"] == ["partitions 5", middle, "deleted"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["franz", "sarama"])
def test_older_requests_are_answered(broker: EmbeddedBroker, name: str, version: str) -> None:
    """These two can be limited to the requests of a Kafka version."""
    peer.require(name)
    servers = broker.bootstrap_servers
    topic = broker.create_topic(f"{name}-{version}", PARTITIONS)
    common = {"topic": topic, "version": version, "prefix": name}

    peer.run(name, "produce", servers, count=COUNT, codec="gzip", **common)
    assert values(peer.read(name, servers, topic, COUNT, version=version)) == numbered(name, COUNT)
    with peer.start(name, "group", servers, group=topic, **common) as member:
        member.wait_for(lambda: len(member.records) == COUNT)
    peer.run(
        name,
        "transact",
        servers,
        count=10,
        first=COUNT,
        transactions=["abort", "commit"],
        transactional_id=topic,
        **common,
    )
    found = values(peer.read(name, servers, topic, COUNT + 10, version=version))
    assert found == sorted(numbered(name, COUNT) + numbered(name, 10, COUNT + 10))
    managed = {**common, "topic": f"managed-{topic}", "partitions": 5}
    assert peer.run(name, "admin", servers, **managed).events[-1] == "deleted"


def test_all_clients_authenticate_over_tls() -> None:
    """PLAIN with sarama, SCRAM-SHA-256 with kafka-go and kafkajs, SCRAM-SHA-512 with franz-go and rskafka."""
    peer.require(*ALL)
    with EmbeddedBroker(security="SASL_SSL", users={"alice": "secret"}) as broker:
        topic = broker.create_topic("secured", PARTITIONS)
        login = {"authority": str(broker.ca_file), "user": "alice", "password": "secret"}
        expected = written_by_all(broker, topic, COUNT, **login)
        for name in ALL:
            found = peer.read(name, broker.bootstrap_servers, topic, len(expected), PARTITIONS, **login)
            assert values(found) == expected
        wrong = {**login, "password": "wrong", "topic": topic, "prefix": "wrong", "count": 1, "partitions": 1}
        with pytest.raises(AssertionError, match="failed"):
            peer.run("sarama", "produce", broker.bootstrap_servers, **wrong)
