"""Application log files, read by an agent, as input of the template `logs`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from tests.services.ingest.processes import IngestProcess
from tests.support.spark.workbench import Workbench

SHOP = """\
2026-11-16T01:02:03.123Z INFO order 7 placed by ann@example.com
2026-11-16T01:02:04.000Z ERROR payment 7 failed
Traceback (most recent call last):
  File "/srv/shop/pay.py", line 88, in charge
TimeoutError: the bank did not answer
%%% disk quota exceeded
2026-11-16T01:02:05.000Z INFO order 8 placed by bob@example.com
2026-11-16T01:02:06.000Z DEBUG the end
"""
BILLING = """\
2026-11-16 01:02:03,500 [main] WARN  payment 8 took 4 s
2026-11-16 01:02:04,500 [main] DEBUG the end
"""


@pytest.mark.timeout(300)
def test_lines_of_files_become_entries_by_level(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_text(SHOP)
    (tmp_path / "billing.log").write_text(BILLING)
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        agent = IngestProcess(servers, "files", f"{tmp_path}/*.log", "-t", "app.logs", "--exit-at-end")
        agent.start()
        code, output = agent.wait()
        assert code == 0, output
        bench = Workbench("logs", tmp_path / "pipeline", servers)
        bench.run(spark)
        (error,) = bench.latest("logs.error").values()
        assert error["source"] == f"{socket.gethostname()}:{tmp_path}/shop.log"
        assert error["message"].startswith("payment 7 failed\nTraceback")
        assert error["lines"] == 4
        assert [row["message"] for row in bench.latest("logs.warn").values()] == ["[main] payment 8 took 4 s"]
        assert [read.value for read in bench.read("app.logs.dead-letters")] == [b"%%% disk quota exceeded"]
