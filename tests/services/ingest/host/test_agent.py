"""`barnabas ingest host` as a process, with output for the template `operations`."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from tests.services.ingest.processes import IngestProcess, read_committed
from tests.support.programs import free_port
from tests.support.spark.workbench import Workbench

TOPIC = "host.metrics"
TPS = "kafka_server_brokertopicmetrics_messagesin_total"


def _has_all(values: list[str]) -> bool:
    kinds = [json.loads(value)["kind"] for value in values]
    return kinds.count("host") >= 3 and kinds.count("counters") >= 2


@pytest.mark.timeout(300)
def test_the_operations_pipeline_takes_the_samples_of_this_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    page = f"127.0.0.1:{free_port()}"
    with EmbeddedBroker({"barnabas.metrics.listen": page}) as broker:
        servers = broker.bootstrap_servers
        agent = IngestProcess(
            servers, "host", "-t", TOPIC, "--every", "200ms", "--tps", TPS, "--service", "shop",
            "--prometheus", f"broker=http://{page}/metrics", "--prometheus", "http://127.0.0.1:1/gone",
        )  # fmt: skip
        agent.start()
        values = read_committed(servers, TOPIC, _has_all)
        code, output = agent.stop()
        assert code == 0, output
        assert "cannot scrape http://127.0.0.1:1/gone" in output
        reports: list[dict[str, Any]] = [json.loads(value) for value in values]
        for report in reports:
            assert report["host"] == socket.gethostname()
            assert abs(report["time"] / 1000 - time.time()) < 120
        hosts = [report for report in reports if report["kind"] == "host"]
        assert {report["service"] for report in hosts} == {"shop"}
        assert all(0 <= report["cpu"] <= 100 and report["disks"] is not None for report in hosts)
        counted = [report for report in reports if report["kind"] == "counters"]
        assert {report["service"] for report in counted} == {"broker"}
        assert any(report["tps"] > 0 for report in counted)  # the samples themselves

        bench = Workbench("operations", tmp_path / "watch", servers, {"operations.topic": TOPIC})
        bench.run(spark)
        rows = bench.latest("operations.services").values()
        shop = [row for row in rows if row["service"] == "shop"]
        assert sum(row["reports"] for row in shop) >= len(hosts)
        assert all(0 <= row["cpu"] <= 100 and 0 < row["memory"] <= 100 for row in shop)
        assert any((row.get("tps") or 0) > 0 for row in rows if row["service"] == "broker")
        assert bench.read(f"{TOPIC}.dead-letters") == []
