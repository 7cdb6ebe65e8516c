from collections.abc import Callable

from tests.support.cli import Cli

NewName = Callable[[], str]


def test_a_topic_is_created_shown_and_deleted(cli: Cli, new_name: NewName) -> None:
    name = new_name()
    assert f"Topic {name} created." in cli.ok("topics", "create", name, "-p", "3").err
    (listed,) = (row for row in cli.ok("topics", "list", "-o", "json").json if row["name"] == name)
    assert listed == {
        "name": name,
        "id": listed["id"],
        "partitions": 3,
        "replication_factor": 1,
        "internal": False,
    }
    assert name in cli.ok("topics", "list").out
    assert cli.ok("topics", "delete", name, "--yes").err == f"Deleted {name}.\n"
    assert name not in cli.ok("topics", "list").out


def test_a_topic_with_settings_is_described(cli: Cli, new_name: NewName) -> None:
    name = new_name()
    cli.ok("topics", "create", name, "-X", "retention.ms=1000", "-X", "cleanup.policy=compact")
    cli.ok("produce", name, "-v", "x", "-k", "k")
    (described,) = cli.ok("topics", "describe", name, "-o", "json").json
    assert described["configs"] == {"cleanup.policy": "compact", "retention.ms": "1000"}
    assert described["partitions"] == [
        {
            "partition": 0,
            "leader": 1,
            "epoch": 0,
            "replicas": [1],
            "isr": [1],
            "offline": [],
            "begin": 0,
            "end": 1,
        }
    ]
    table = cli.ok("topics", "describe", name).out
    assert "settings: cleanup.policy=compact retention.ms=1000" in table
    assert "PARTITION" in table


def test_creating_a_topic_twice_fails_unless_that_is_fine(cli: Cli, topic: str) -> None:
    failed = cli("topics", "create", topic)
    assert failed.code == 1
    assert "TOPIC_ALREADY_EXISTS" in failed.err
    assert "exists already" in cli.ok("topics", "create", topic, "--if-not-exists").err


def test_a_dry_run_creates_nothing(cli: Cli, new_name: NewName) -> None:
    name = new_name()
    assert "could be created" in cli.ok("topics", "create", name, "--dry-run").err
    assert name not in cli.ok("topics", "list").out


def test_a_wrong_setting_is_named(cli: Cli, new_name: NewName) -> None:
    failed = cli("topics", "create", new_name(), "-X", "retension.ms=1")
    assert failed.code == 1
    assert "retension.ms" in failed.err
    assert cli("topics", "create", new_name(), "-X", "retention.ms").code == 2


def test_a_topic_gets_more_partitions_but_not_fewer(cli: Cli, topic: str) -> None:
    assert "has 5 partitions now" in cli.ok("topics", "alter", topic, "-p", "5").err
    assert len(cli.ok("topics", "describe", topic, "-o", "json").json[0]["partitions"]) == 5
    failed = cli("topics", "alter", topic, "-p", "2")
    assert failed.code == 1
    assert "INVALID_PARTITIONS" in failed.err


def test_purging_removes_records_and_keeps_offsets(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-v", "a", "-v", "b", "-v", "c", "-p", "1")
    assert cli.ok("topics", "purge", topic, "-p", "1", "--before", "2", "--yes", "-o", "json").json == [
        {"partition": 1, "begin": 2}
    ]
    assert cli.ok("consume", topic, "--from", "beginning", "-e").out == "c\n"
    assert cli.ok("topics", "purge", topic, "--yes", "-o", "json").json == [
        {"partition": 0, "begin": 0},
        {"partition": 1, "begin": 3},
    ]


def test_destruction_asks_first(cli: Cli, topic: str) -> None:
    refused = cli("topics", "delete", topic, stdin="n\n")
    assert refused.code == 1
    assert f"Delete {topic} with all records?" in refused.err
    assert topic in cli.ok("topics", "list").out
    cli.ok("topics", "delete", topic, stdin="y\n")
    assert topic not in cli.ok("topics", "list").out


def test_missing_topic_is_reported_with_a_remedy(cli: Cli) -> None:
    failed = cli("topics", "describe", "nowhere")
    assert failed.code == 1
    assert "barnabas topics create nowhere" in failed.err
