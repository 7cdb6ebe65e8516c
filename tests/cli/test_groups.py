from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from tests.support.cli import Cli
from tests.support.consumers import ConfluentWorker, ConsumerProtocolWorker, Processed
from tests.support.waiting import until


@contextmanager
def consuming(
    cli: Cli, topic: str, group: str, records: int, worker_class: type[ConfluentWorker] = ConfluentWorker
) -> Iterator[ConfluentWorker]:
    """A member that has processed and committed everything."""
    processed = Processed()
    worker = worker_class(cli.bootstrap, topic, group, processed, client_id="cli-test")
    until(lambda: len(processed) == records, "the records are processed")
    until(lambda: lag(cli, group) == 0, "they are committed")
    try:
        yield worker
    finally:
        worker.leave()


def lag(cli: Cli, group: str) -> int | None:
    (described,) = cli.ok("groups", "describe", group, "-o", "json").json
    if not all(row["committed"] is not None for row in described["offsets"]):
        return None
    return int(described["lag"])


def commit(cli: Cli, topic: str, group: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": cli.bootstrap, "group.id": group})
    partitions = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def committed(cli: Cli, group: str) -> list[int]:
    (described,) = cli.ok("groups", "describe", group, "-o", "json").json
    return [row["committed"] for row in described["offsets"]]


def fill(cli: Cli, topic: str, count: int = 5) -> None:
    for partition in "01":
        cli.ok("produce", topic, "-p", partition, stdin="x\n" * count)


def test_a_group_with_members_is_listed_and_described(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    group = f"group-of-{topic}"
    with consuming(cli, topic, group, 10):
        (listed,) = [row for row in cli.ok("groups", "list", "-o", "json").json if row["group"] == group]
        assert listed == {
            "group": group,
            "state": "Stable",
            "type": "classic",
            "protocol": "consumer",
            "coordinator": 1,
        }
        (described,) = cli.ok("groups", "describe", group, "-o", "json").json
        (member,) = described["members"]
        assert member["client"] == "cli-test"
        assert member["partitions"] == [f"{topic}-0", f"{topic}-1"]
        assert [row["committed"] for row in described["offsets"]] == [5, 5]
        assert {row["member"] for row in described["offsets"]} == {member["member"]}
        table = cli.ok("groups", "describe", group).out
        assert f"{group}  Stable  classic  assignor: range" in table
        assert "/127.0.0.1" in table


def test_a_consumer_group_is_listed_and_described_with_its_reasons(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    group = f"consumer-group-of-{topic}"
    with consuming(cli, topic, group, 10, ConsumerProtocolWorker):
        (listed,) = [row for row in cli.ok("groups", "list", "-o", "json").json if row["group"] == group]
        assert (listed["state"], listed["type"], listed["protocol"]) == ("Stable", "consumer", "consumer")
        (described,) = cli.ok("groups", "describe", group, "-o", "json").json
        assert (described["type"], described["assignor"]) == ("consumer", "uniform")
        assert described["members"][0]["partitions"] == [f"{topic}-0", f"{topic}-1"]
    joined, left = cli.ok("groups", "history", group, "-o", "json").json
    assert "joined from /127.0.0.1" in joined["why"]
    assert "left" in left["why"]
    assert joined["generation"] < left["generation"]


def test_lag_counts_unread_records(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    commit(cli, topic, f"lagging-{topic}", 2, 4)
    (described,) = cli.ok("groups", "describe", f"lagging-{topic}", "-o", "json").json
    assert [row["lag"] for row in described["offsets"]] == [3, 1]
    assert described["lag"] == 4


def test_a_group_is_reset_to_any_place(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    group = f"reset-{topic}"
    commit(cli, topic, group, 3, 3)
    shown = cli.ok("groups", "reset", group, "--to", "beginning", "--dry-run", "-o", "json")
    assert [(row["before"], row["after"]) for row in shown.json] == [(3, 0), (3, 0)]
    assert committed(cli, group) == [3, 3]
    for to, expected in (("end", 5), ("4", 4), ("-2", 3), ("beginning", 0), ("2100-01-01", 5)):
        cli.ok("groups", "reset", group, f"--to={to}")
        assert committed(cli, group) == [expected, expected], to


def test_a_group_that_has_committed_nothing_is_reset_by_topic(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    refused = cli("groups", "reset", f"new-{topic}", "--to", "end")
    assert refused.code == 2
    assert "--topic" in refused.err
    cli.ok("groups", "reset", f"new-{topic}", "--to", "end", "--topic", topic)
    assert committed(cli, f"new-{topic}") == [5, 5]


def test_a_group_with_members_is_neither_reset_nor_deleted(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    group = f"busy-{topic}"
    with consuming(cli, topic, group, 10):
        reset = cli("groups", "reset", group, "--to", "beginning")
        assert reset.code == 1
        assert "Stop its consumers" in reset.err
        deleted = cli("groups", "delete", group, "--yes")
        assert deleted.code == 1
        assert "NON_EMPTY_GROUP" in deleted.err
    cli.ok("groups", "delete", group, "--yes")
    assert cli("groups", "describe", group).code == 1


def test_history_has_the_reason_of_each_rebalance(cli: Cli, topic: str) -> None:
    fill(cli, topic)
    group = f"history-{topic}"
    with consuming(cli, topic, group, 10):
        pass
    cli.ok("groups", "delete", group, "--yes")
    first, second, third = cli.ok("groups", "history", group, "-o", "json").json
    assert (first["generation"], first["members"]) == (1, 1)
    assert "cli-test-" in first["why"]
    assert "joined from /127.0.0.1" in first["why"]
    assert (second["generation"], second["members"]) == (2, 0)
    assert "left" in second["why"]
    assert third["why"] == "the group was deleted or changed its type"
    assert "WHY" in cli.ok("groups", "history", group).out
    assert "was not rebalanced" in cli.ok("groups", "history", "nobody").err


def test_a_place_that_cannot_be_understood_is_explained(cli: Cli) -> None:
    failed = cli("groups", "reset", "any", "--to", "somewhere")
    assert failed.code == 2
    assert "is not a valid start position" in failed.err
