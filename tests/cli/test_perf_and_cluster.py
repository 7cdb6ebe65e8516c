import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.percentiles import Latencies
from tests.cli.conftest import Cli


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


def test_the_cluster_is_described(cli: Cli, topic: str) -> None:
    described = cli.ok("cluster", "describe", "-o", "json").json
    (broker,) = described["brokers"]
    assert described["controller_id"] == broker["id"] == 1
    assert broker["address"] == cli.bootstrap
    assert broker["partitions"] >= 2
    assert all(folder["online"] for folder in broker["log_dirs"])
    assert "controller" in cli.ok("cluster", "describe").out


@given(st.lists(st.floats(1e-5, 100), min_size=1, max_size=200), st.sampled_from([1, 50, 95, 99, 100]))
def test_a_percentile_is_right_to_one_in_a_hundred(values: list[float], percent: int) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    assert latencies.percentile(percent) == pytest.approx(exact, rel=0.011)
    assert latencies.largest == max(values)
