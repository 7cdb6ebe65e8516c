from tests.support.cli import Cli


def test_producing_and_consuming_are_measured(cli: Cli, topic: str) -> None:
    produced = cli.ok("perf", "produce", topic, "-n", "2000", "-s", "10", "-o", "json").json
    assert (produced["records"], produced["bytes"]) == (2000, 20_000)
    assert produced["records_per_second"] > 0
    assert set(produced["latency_ms"]) == {"p50", "p95", "p99", "p99_9", "mean", "max"}
    consumed = cli.ok("perf", "consume", topic, "-n", "2000", "-o", "json").json
    assert (consumed["records"], consumed["bytes"]) == (2000, 20_000)
    assert "records/s" in cli.ok("perf", "produce", topic, "-n", "10").out


def test_a_rate_is_kept(cli: Cli, topic: str) -> None:
    measured = cli.ok("perf", "produce", topic, "-n", "100", "--rate", "500", "-o", "json").json
    assert measured["records_per_second"] <= 550
