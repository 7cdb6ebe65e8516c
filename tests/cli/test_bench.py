from __future__ import annotations

from barnabas.cli.bench.report import bar, edges_between
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

QUICK = ("-n", "2000", "-s", "10", "--latency-rate", "20", "--members", "2")
PERCENTILES = {"p50", "p95", "p99", "p99_9", "mean", "max"}


def test_all_tests_run_on_a_topic_that_is_deleted_afterwards(cli: Cli, broker: EmbeddedBroker) -> None:
    rows = {row["test"]: row for row in cli.ok("bench", *QUICK, "-o", "json").json}
    assert list(rows) == ["produce", "consume", "latency", "groups"]
    for test in ("produce", "consume"):
        assert (rows[test]["records"], rows[test]["bytes"]) == (2000, 20_000)
        assert rows[test]["records_per_second"] > 0
    assert rows["latency"]["records"] == 100
    assert set(rows["produce"]["latency_ms"]["acknowledged"]) == PERCENTILES
    assert set(rows["latency"]["latency_ms"]["end to end"]) == PERCENTILES
    assert set(rows["groups"]["latency_ms"]) == {"member joined", "offset commit"}
    assert "barnabas-bench" not in cli.ok("topics", "list").out


def test_two_clusters_are_shown_side_by_side(cli: Cli) -> None:
    with EmbeddedBroker() as other:
        against = other.bootstrap_servers
        shown = cli.ok("bench", "produce", "-n", "500", "--against", against).out
    assert [line.split()[0] for line in shown.splitlines() if "records/s" in line] == [cli.bootstrap, against]
    assert " x)" in shown
    assert "p99.9" in shown


def test_a_rate_is_kept_and_a_given_topic_stays(cli: Cli, topic: str) -> None:
    options = ("produce", "-n", "100", "--rate", "500", "--topic", topic, "-o", "json")
    assert cli.ok("bench", *options).json[0]["records_per_second"] <= 550
    assert topic in cli.ok("topics", "list").out


def test_wrong_combinations_are_usage_errors(cli: Cli) -> None:
    for options, text in (
        (("consume",), "a new topic has no records"),
        (("produce", "--against", cli.bootstrap), "is also the first cluster"),
        (("reduce",), "reduce"),
        (("--processes", "0,1"), "not a list of numbers from 1 to 64"),
    ):
        ended = cli("bench", *options)
        assert (ended.code, text in ended.err) == (2, True), ended


def test_numbers_of_processes_are_compared_on_new_nodes(cli: Cli) -> None:
    rows = cli.ok("bench", "--processes", "1,2", "-n", "2000", "-o", "json").json
    assert [(row["processes"], row["records"]) for row in rows] == [(1, 2000), (2, 2000)]
    assert all(row["records_per_second"] > 0 and row["cpu_seconds"] >= 0 for row in rows)


def test_bars_and_ranges() -> None:
    assert bar(1).rstrip() == "█" * 40
    assert bar(0.5).rstrip() == "█" * 20
    assert bar(0).strip() == ""
    assert edges_between(0.0004, 0.003) == [0.0005, 0.001, 0.002, 0.005]
    assert edges_between(0.001, 0.001) == [0.001]
