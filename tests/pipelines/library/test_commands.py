"""`barnabas pipeline run` on templates in the tests' Spark session: output, metrics and alarms."""

import asyncio
import json
import os
import re
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from barnabas.cli.main import make_app
from barnabas.cli.pipeline import run as pipeline_run
from barnabas.client.cluster import Client
from barnabas.client.status import ProcessStatus, read_statuses
from barnabas.pipelines.library.operations.generator import TOPIC, Incident, records
from barnabas.testing import EmbeddedBroker
from tests.support.otlp_collector import Collector
from tests.support.programs import free_port
from tests.support.spark.workbench import START, Workbench
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(400)

TIMEOUT = 240
MINUTE = 60_000
Step = Callable[[], None]


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the command in the tests' Spark session."""

    @contextmanager
    def session(*arguments: Any, **options: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(pipeline_run, "pipeline_session", session)


def run(bench: Workbench, *arguments: str, then: Step | None = None) -> Result:
    """Run the command in this process; `then` runs in a thread, and ends it with SIGTERM."""
    options = [text for name, value in bench.settings.items() for text in ("-X", f"{name}={value}")]
    command = ["pipeline", "run", str(bench.folder), "-b", bench.servers, *options, *arguments]
    problems: list[BaseException] = []

    def beside(step: Step) -> None:
        try:
            step()
        except BaseException as problem:  # by the test, not by the thread
            problems.append(problem)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    helper = None if then is None else threading.Thread(target=beside, args=(then,))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until the command takes it
    try:
        if helper is not None:
            helper.start()
        ended = CliRunner().invoke(make_app(), command)
        if helper is not None:
            helper.join(TIMEOUT)
    finally:
        signal.signal(signal.SIGTERM, before)
    if problems:
        raise problems[0]
    return ended


class Webhook:
    """A webhook server for alarms."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard += json.loads(body)["alarms"]
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class' name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/alarms"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def statuses(self, alarm: str, key: str) -> list[str]:
        return [event["status"] for event in self.heard if (event["alarm"], event["key"]) == (alarm, key)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    """Result topics have fixed names, which other tests use."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()


def metric(port: int, name: str, flow: str) -> float:
    """Value of a Prometheus metric; 0 while the endpoint is down."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    except OSError:
        return 0.0
    found = re.search(rf'^{name}\{{pipeline="[^"]*",flow="{flow}"\}} (\S+)$', text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


@pytest.mark.usefixtures("in_session")
def test_a_continuous_run_serves_metrics_and_calls_the_webhook(
    own_broker: EmbeddedBroker, tmp_path: Path, webhook: Webhook
) -> None:
    bench = Workbench("operations", tmp_path / "watch", own_broker.bootstrap_servers)
    bench.create_inputs(TOPIC)
    settings = bench.folder / "barnabas.yml"
    settings.write_text(
        settings.read_text().replace("# webhook: http://127.0.0.1:8080/alarms", f"webhook: {webhook.url}")
    )
    bench.reload()
    incident = Incident("checkout", 2 * MINUTE, 4 * MINUTE)
    made = [record for record, _ in zip(records(3, START, 5.0, (incident,)), range(2_000), strict=False)]
    # Later events do not close the minute after the incident.
    alarmed = next(index for index, record in enumerate(made) if record.time > START + 5.5 * MINUTE)
    port = free_port()
    seen: dict[str, float] = {}

    def watch() -> None:
        bench.send(made[:alarmed])
        until(
            lambda: webhook.statuses("failing requests", "checkout") == ["fired"],
            "the alarm",
            seconds=TIMEOUT,
        )
        bench.send(made[alarmed:])
        until(
            lambda: webhook.statuses("failing requests", "checkout")[1:] == ["resolved"],
            "its end",
            seconds=TIMEOUT,
        )
        until(
            lambda: metric(port, "barnabas_pipeline_rows_total", "services") == len(made),
            "all rows",
            seconds=TIMEOUT,
        )
        for name in ("state_rows", "batch_seconds", "processed_rows_per_second"):
            seen[name] = metric(port, f"barnabas_pipeline_{name}", "services")

    ended = run(bench, "--continuous", "--metrics", f"127.0.0.1:{port}", then=watch)
    assert (ended.exit_code, ended.stdout) == (0, ""), ended.stderr
    assert f"Metrics are at http://127.0.0.1:{port}/metrics." in ended.stderr
    assert all(value > 0 for value in seen.values()), seen
    response = {(event["id"], event["status"]) for event in webhook.heard}
    written = {
        (event["id"], event["status"])
        for event in (json.loads(record.value or b"") for record in bench.read("operations.alarms"))
    }
    assert response <= written


@pytest.mark.usefixtures("in_session")
def test_periodic_run_processes_new_data(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic(partitions=2)
    bench = Workbench("warehouse", tmp_path / "lake", broker.bootstrap_servers, {"warehouse.topics": topic})
    made = bench.generate(60)

    def keys() -> list[bytes]:
        folder = bench.folder / "warehouse"
        if not folder.exists():
            return []
        table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive")
        if "key" not in table.schema.names:  # folders may be there before their files
            return []
        return sorted(table.to_table()["key"].to_pylist())

    def feed() -> None:
        for part in range(2):
            bench.send(made[part * 30 : (part + 1) * 30])
            until(lambda part=part: len(keys()) == (part + 1) * 30, "the load", seconds=TIMEOUT)  # type: ignore[misc]

    collector = Collector()
    ended = run(bench, "--every", "1s", "--otlp", collector.url, then=feed)
    collector.close()
    assert ended.exit_code == 0, ended.stderr
    assert collector.reports[-1]["barnabas_pipeline_rows_total events"] == 60
    assert keys() == sorted(str(record.key).encode() for record in made)
    (reported,) = asyncio.run(statuses(broker))
    assert (reported.name, reported.state) == ("warehouse", "stopped")
    assert [(part.name, part.counts["rows"]) for part in reported.parts] == [("events", 60)]


async def statuses(broker: EmbeddedBroker) -> list[ProcessStatus]:
    async with Client(broker.bootstrap_servers) as client:
        return [each for each in await read_statuses(client, "pipeline") if each.name == "warehouse"]


WRONG = {
    "a definition that fails": ("F.hour(", "F.huor(", "The definition of events", "huor"),
    "an unknown option": (
        '"startingOffsets"',
        '"startingOffset"',
        "The definition of events",
        "did you mean 'startingOffsets'",
    ),
}


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize("what", sorted(WRONG))
def test_errors_are_reported_as_a_message_with_the_cause_below(
    broker: EmbeddedBroker, tmp_path: Path, what: str
) -> None:
    old, new, sentence, cause = WRONG[what]
    settings = {"warehouse.topics": broker.create_topic()}
    bench = Workbench("warehouse", tmp_path / "lake", broker.bootstrap_servers, settings)
    definition = bench.folder / "transformations" / "events.py"
    definition.write_text(definition.read_text().replace(old, new))
    ended = run(bench)
    assert (ended.exit_code, ended.stdout) == (1, "")
    response = ended.stderr[ended.stderr.index("Error: ") :].splitlines()
    assert response[0].startswith(f"Error: {sentence}")
    assert any(cause in line for line in response[1:])
    assert not (bench.folder / "storage").exists()
    assert not (bench.folder / "warehouse").exists()
