"""Metrics of a pipeline in the real OpenTelemetry Collector (`make otel-collector`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from barnabas.pipelines.running.metrics import pipeline_registry
from barnabas.pipelines.running.otlp import exported, otlp_settings
from barnabas.pipelines.running.progress import FlowProgress
from tests.peers.peer import FOLDER
from tests.support.programs import free_port
from tests.support.waiting import still_running, until

PROGRAM = FOLDER / "otelcol"
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [otlp], exporters: [debug]}}}}
"""

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(not PROGRAM.exists(), reason="the collector is missing: run `make otel-collector`"),
]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_collector_understands_every_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    port, config, log = free_port(), tmp_path / "config.yml", tmp_path / "log"
    config.write_text(CONFIG.format(port=port))
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
    flow = FlowProgress("counts", rows=15, lag=4, late=3, input_rate=1.5, broken={"events: has a key": 2})
    with log.open("wb") as output:
        running = subprocess.Popen([PROGRAM, "--config", f"file:{config}"], stdout=output, stderr=output)
    try:
        registry = pipeline_registry("shop", lambda: [flow])
        with exported(registry, otlp_settings(f"http://127.0.0.1:{port}", "shop")):
            until(
                lambda: "barnabas_pipeline_late_rows_total" in log.read_text(),
                log.read_text,
                meanwhile=still_running(running, log.read_text),
            )
    finally:
        running.kill()
        running.wait()
    text = log.read_text()
    for line in (
        "-> service.name: Str(shop)",
        "-> Name: barnabas_pipeline_rows_total",
        "-> DataType: Sum",
        "-> IsMonotonic: true",
        "-> AggregationTemporality: Cumulative",
        "-> flow: Str(counts)",
        "-> rule: Str(events: has a key)",
        "Value: 15",
        "Value: 1.500000",
    ):
        assert line in text, line
