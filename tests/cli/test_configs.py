from tests.support.cli import Cli


def test_a_topics_setting_is_set_shown_and_taken_back(cli: Cli, topic: str) -> None:
    assert "are default" in cli.ok("configs", "describe", "topic", topic).err
    done = cli.ok(
        "configs", "set", "topic", topic, "retention.ms=1000", "cleanup.policy=compact", "-o", "json"
    )
    assert done.json["set"] == {"retention.ms": "1000", "cleanup.policy": "compact"}
    (_, retention) = cli.ok("configs", "describe", "topic", topic, "-o", "json").json
    assert retention == {
        "name": "retention.ms",
        "value": "1000",
        "source": "topic",
        "read_only": False,
        "sensitive": False,
    }
    cli.ok("configs", "unset", "topic", topic, "retention.ms", "cleanup.policy")
    assert cli.ok("configs", "describe", "topic", topic, "-o", "json").json == []


def test_all_settings_come_with_their_meaning(cli: Cli, topic: str) -> None:
    described = cli.ok("configs", "describe", "topic", topic, "--all", "--docs", "-o", "json").json
    assert len(described) > 25
    assert all(setting["documentation"] for setting in described)
    assert (
        "retention.ms=604800000  (default)\n    "
        in cli.ok("configs", "describe", "topic", topic, "--all", "--docs").out
    )


def test_a_brokers_settings_are_shown_and_changed(cli: Cli) -> None:
    names = {setting["name"] for setting in cli.ok("configs", "describe", "broker", "1", "-o", "json").json}
    assert "listeners" in names
    cli.ok("configs", "set", "broker", "default", "log.retention.ms=7200000")
    assert "all brokers (changed while they run)" in cli.ok("configs", "describe", "broker", "default").out
    cli.ok("configs", "unset", "broker", "default", "log.retention.ms")


def test_resources_with_settings_are_listed(cli: Cli, topic: str) -> None:
    listed = cli.ok("configs", "list", "--kind", "topic", "-o", "json").json
    assert {"kind": "topic", "name": topic} in listed


def test_a_wrong_value_is_refused(cli: Cli, topic: str) -> None:
    failed = cli("configs", "set", "topic", topic, "retention.ms=soon")
    assert failed.code == 1
    assert "retention.ms" in failed.err


def test_a_broker_has_a_number(cli: Cli) -> None:
    failed = cli("configs", "describe", "broker", "one")
    assert failed.code == 1
    assert "is not a valid broker id" in failed.err


def test_clients_are_asked_for_their_metrics(cli: Cli) -> None:
    cli.ok("configs", "set", "client-metrics", "latency", "interval.ms=10000", "match=client_id=shop.*")
    described = cli.ok("configs", "describe", "client-metrics", "latency", "-o", "json").json
    assert {each["name"]: each["value"] for each in described} == {
        "interval.ms": "10000",
        "match": "client_id=shop.*",
    }
    assert {"kind": "client-metrics", "name": "latency"} in cli.ok("configs", "list", "-o", "json").json
    cli.ok("configs", "unset", "client-metrics", "latency", "interval.ms", "match")
