"""Metrics of pipelines for an OpenTelemetry collector: settings, a failing server, and an unresponsive one.

tests/peers/test_otel_collector.py exports to the real collector.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator

import pytest

from barnabas.metrics import Registry
from barnabas.pipelines.running import otlp
from barnabas.pipelines.running.metrics import pipeline_registry
from barnabas.pipelines.running.otlp import OtlpExporter, exported, otlp_settings
from barnabas.pipelines.running.progress import FlowProgress
from barnabas.spark.errors import PipelineError
from tests.support.otlp_collector import Collector
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector(503, 503, 400)
    yield made
    made.close()


def shop(flow: FlowProgress) -> Registry:
    return pipeline_registry("shop", lambda: [flow])


def test_reports_wait_for_a_collector_that_fails_and_are_sent_in_order(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.url}/base/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret, x-tenant = shop")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    flow = FlowProgress("counts", rows=1)
    with exported(shop(flow), otlp_settings(None, "shop")):
        until(lambda: len(collector.reports) >= 3)
        flow.rows, flow.lag = 7, 3
    rows = [report["barnabas_pipeline_rows_total counts"] for report in collector.reports]
    assert rows == sorted(rows)
    assert (rows[0], rows[-1]) == (1, 7)
    assert collector.reports[-1]["barnabas_pipeline_lag_records counts"] == 3
    assert (collector.path, collector.headers["x-tenant"]) == ("/base/v1/metrics", "shop")
    assert collector.headers["authorization"] == "Bearer secret"
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["HTTP status 503"]
    assert "secret" not in caplog.text


def test_a_collector_that_never_answers_delays_nothing_and_the_queue_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(otlp, "MAX_QUEUED", 5)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = otlp_settings(f"http://127.0.0.1:{silent.getsockname()[1]}", "shop")
        assert settings is not None
        exporter = OtlpExporter(shop(FlowProgress("counts")), settings)
        exporter.start()
        until(lambda: len(exporter._queue) == 5)
        exporter.stop()
        slow = OtlpExporter(shop(FlowProgress("counts")), settings._replace(timeout=60.0))
        slow.start()
        until(lambda: slow._queue)
        began = time.thread_time()
        slow.stop()
        assert time.thread_time() - began < 0.1
        assert slow.is_alive()  # a daemon: it does not keep the process


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not a valid URL: 'collector:4318'"),
        (
            {"ENDPOINT": "http://u:pw@h"},
            "OTEL_EXPORTER_OTLP_ENDPOINT contains credentials: set OTEL_EXPORTER_OTLP_HEADERS",
        ),
        ({"ENDPOINT": "http://h", "PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"),
        ({"ENDPOINT": "http://h", "HEADERS": "secret"}, "OTEL_EXPORTER_OTLP_HEADERS is not a list"),
        ({"ENDPOINT": "http://h", "TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milli"),
        ({"ENDPOINT": "http://h", "COMPRESSION": "zstd"}, "is neither gzip nor none: 'zstd'"),
        ({"ENDPOINT": "https://h", "CERTIFICATE": "/nowhere"}, "No such file"),
    ],
)
def test_variables_that_do_not_fit_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, str],
    problem: str,
) -> None:
    caplog.set_level(logging.WARNING)
    for name, value in variables.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
    assert otlp_settings(None, "shop") is None
    assert problem in caplog.text
    assert "secret" not in caplog.text


def test_an_option_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(PipelineError, match=r"--otlp is not a valid URL: 'x:1' \(example: http://127.0.0.1"):
        otlp_settings("x:1", "shop")


def test_variables_name_the_service_the_url_and_no_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert otlp_settings(None, "shop") is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:9090/api/v1/otlp/v1/metrics")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b")
    found = otlp_settings(None, "shop")
    assert found is not None
    assert found.url == "http://127.0.0.1:9090/api/v1/otlp/v1/metrics"
    assert (found.resource["service.name"], found.resource["team"]) == ("a", "b")
    assert (found.timeout, found.interval) == (10, 60)
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    assert otlp_settings(None, "shop") is None
