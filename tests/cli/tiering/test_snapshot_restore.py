"""`barnabas snapshot restore`: a snapshot as a new topic with the same offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.testing import EmbeddedBroker
from tests.cli.tiering.conftest import TIERED, TIMEOUT, Tiered
from tests.support.cli import Cli
from tests.support.tiering.lost_cluster import produce, read
from tests.support.waiting import until


@pytest.fixture(scope="module")
def topic(tiered: Tiered) -> str:
    return tiered.topic(partitions=2)


def store_of(tiered: Tiered) -> tuple[str, str]:
    return ("--store", tiered.url)


def test_a_clone_has_the_same_records_and_outlives_its_source(cli: Cli, tiered: Tiered) -> None:
    topic = tiered.topic(partitions=2)
    cli.ok("snapshot", "create", "first", "--topics", topic, *store_of(tiered))
    clone = f"{topic}-again"
    command = ("snapshot", "restore", "first", "--to", clone, "--set", "segment.bytes=1048576")
    made = cli.ok(*command, *store_of(tiered), "-o", "json").json
    (facts,) = made["topics"]
    assert (facts["topic"], facts["source"], facts["partitions"]) == (clone, topic, 2)
    for index in range(2):
        end = facts["ends"][str(index)]
        complete = read(tiered.broker, topic, index)
        assert read(tiered.broker, clone, index) == complete[:end]
        produce(tiered.broker, clone, range(end, end + 1500), index)  # enough for a separate segment
    until(lambda: tiered.segments(clone), "the clone is copied, too")
    cli.ok("topics", "delete", topic, "--yes")
    cli.ok("snapshot", "delete", "first", *store_of(tiered), "--yes")
    until(lambda: b'"deleted"' in tiered.manifest(topic).read_bytes(), "the topic is deleted in the store")
    tiered.broker.restart()
    end = facts["ends"]["0"]
    assert read(tiered.broker, clone) == [(offset, offset) for offset in range(end + 1500)]
    cli.ok("topics", "delete", clone, "--yes")
    until(lambda: not tiered.segments(topic), "what nobody keeps any more is deleted")


def test_deleting_a_clone_leaves_its_source_whole(cli: Cli, tiered: Tiered, topic: str) -> None:
    cli.ok("snapshot", "create", "second", "--topics", topic, *store_of(tiered))
    cli.ok("snapshot", "restore", "second", "--rename", f"{topic}=short-lived", *store_of(tiered))
    cli.ok("topics", "delete", "short-lived", "--yes")
    until(lambda: not list(tiered.bucket.glob("*/topics/short-lived.*/*/manifest")), "the clone is gone")
    assert tiered.read(topic) == list(range(3000))
    cli.ok("snapshot", "delete", "second", *store_of(tiered), "--yes")
    assert tiered.read(topic) == list(range(3000))


def test_readers_of_committed_records_see_the_same_in_a_clone(cli: Cli, tiered: Tiered) -> None:
    topic = tiered.broker.create_topic(configs=TIERED)
    producer = Producer({"bootstrap.servers": tiered.broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    for number in range(8):  # the last one begins below the tiered end
        producer.begin_transaction()
        for record in range(1000 * number, 1000 * number + (2500 if number == 7 else 300)):
            producer.produce(topic, f"{record} ".encode() + bytes(1000))
            producer.poll(0)
        assert producer.flush(TIMEOUT) == 0
        if number % 3 == 2:
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
    until(lambda: len(tiered.local_segments(topic)) == 1, "segments leave the disk")
    cli.ok("snapshot", "create", "paid", "--topics", topic, *store_of(tiered))
    made = cli.ok("snapshot", "restore", "paid", "--to", "paid", *store_of(tiered), "-o", "json").json
    end = made["topics"][0]["ends"]["0"]
    complete = read(tiered.broker, topic, isolation_level="read_committed")
    assert read(tiered.broker, "paid", isolation_level="read_committed") == [
        r for r in complete if r[0] < end
    ]
    # The last stable offset advances: new records are read.
    produce(tiered.broker, "paid", range(3))
    assert [r[1] for r in read(tiered.broker, "paid", isolation_level="read_committed")[-3:]] == [0, 1, 2]


def test_interrupted_restore_continues(
    cli: Cli, tiered: Tiered, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.cli.tiering import cloning

    cli.ok("snapshot", "create", "third", "--topics", topic, *store_of(tiered))
    command = ("snapshot", "restore", "third", "--to", "resumed", *store_of(tiered))

    class Died(BaseException):
        pass

    write, count = cloning._write_manifest, 0

    async def dying(*arguments: object) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise Died
        await write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cloning, "_write_manifest", dying)
    with pytest.raises(Died):
        cli(*command)
    monkeypatch.undo()
    cli.ok(*command)
    for index in range(2):
        assert len(read(tiered.broker, "resumed", index)) > 1000
    cli.ok("snapshot", "delete", "third", *store_of(tiered), "--yes")


def test_impossible_requests_are_reported(cli: Cli, tiered: Tiered, topic: str, tmp_path: Path) -> None:
    cli.ok("snapshot", "create", "fourth", "--topics", topic, *store_of(tiered))
    restore = ("snapshot", "restore", "fourth")
    refusals = {
        "snapshot never does not exist": ("snapshot", "restore", "never", "--to", "x", *store_of(tiered)),
        f"Topic {topic} already exists": (*restore, "--to", topic, *store_of(tiered)),
        "has no topic nothing": (*restore, "--topics", "nothing", "--to", "x", *store_of(tiered)),
        "not in file://": (*restore, "--to", "x", "--store", f"file://{tmp_path}"),
        "name them with --rename": (*restore, "--rename", "other=x", *store_of(tiered)),
        "INVALID_TOPIC": (*restore, "--to", "not/a/name", *store_of(tiered)),
    }
    for output, arguments in refusals.items():
        ended = cli(*arguments)
        assert (ended.code, output in ended.err) == (1, True), ended
    assert cli(*restore, *store_of(tiered)).code == 2
    with EmbeddedBroker() as untiered:
        ended = Cli(untiered.bootstrap_servers)(*restore, "--to", "x", *store_of(tiered))
        assert (ended.code, "has no tiered storage" in ended.err) == (1, True), ended
    cli.ok("snapshot", "delete", "fourth", *store_of(tiered), "--yes")
