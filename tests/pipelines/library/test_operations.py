"""The template `operations`: service metrics and alarms, compared with plain Python."""

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.alarms.state import PipelineAlarm, WindowValue
from barnabas.pipelines.library.operations.generator import TOPIC, Incident, records
from barnabas.pipelines.library.records import Generated
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import START, Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine

MINUTE = 60_000
INCIDENT = Incident("checkout", 5 * MINUTE, 10 * MINUTE)
Minutes = dict[tuple[int, str], list[dict[str, Any]]]


def percentile(values: list[float], share: float) -> float:
    """As Spark's sketch has it while it is exact: the smallest value with that share at or below it."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def by_minute(reports: list[dict[str, Any]]) -> Minutes:
    groups: Minutes = defaultdict(list)
    for report in reports:
        groups[report["time"] // MINUTE * MINUTE, report["service"]].append(report)
    return groups


def test_services_and_alarms_are_as_plain_python_finds_them(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bench = Workbench("operations", tmp_path / "watch", broker.bootstrap_servers)
    bench.create_inputs(TOPIC)
    made = [record for record, _ in zip(records(3, START, 5.0, (INCIDENT,)), range(4_500), strict=False)]
    reports = [json.loads(record.value or b"") for record in made]
    # The last report is an hour later: earlier minutes are closed.
    last = {**reports[0], "time": START + 60 * MINUTE}
    bench.send(made)
    bench.run(spark)
    bench.send([Generated(TOPIC, "x", json.dumps(last).encode(), last["time"])])
    bench.run(spark)

    minutes = by_minute(reports)
    found = {
        row["minute"][11:16] + row["service"]: row for row in bench.latest("operations.services").values()
    }
    assert sum(row["reports"] for row in found.values()) == len(reports) + 1
    for (minute, service), group in minutes.items():
        row = found[f"{minute // 3_600_000 % 24:02d}:{minute // MINUTE % 60:02d}{service}"]
        times = [report["duration_ms"] for report in group if report["kind"] == "request"]
        failed = sum(report.get("status") == 503 for report in group)
        assert (row["reports"], row["requests"], row["errors"]) == (len(group), len(times), failed)
        if times:
            assert (row["p50"], row["p95"]) == (percentile(times, 0.5), percentile(times, 0.95))

    rule = next(rule for rule in bench.files.settings.alarms if rule.name == "failing requests")
    windows = []
    for (minute, service), group in minutes.items():
        requests = [report["status"] for report in group if report["kind"] == "request"]
        if requests:
            share = sum(status >= 500 for status in requests) / len(requests)
            windows.append(WindowValue(service, minute / 1000, minute / 1000 + 60, share))
    expected = [(event.id, event.status) for event in PipelineAlarm(rule).take(windows)]
    received = [(event.id, event.status) for event in bench.alarms if event.alarm == rule.name]
    assert received == expected
    assert [status for _, status in received if _.startswith("failing requests/checkout")] == [
        "fired",
        "resolved",
    ]
    assert {record.key for record in bench.read("operations.alarms")} == {event.id for event in bench.alarms}
