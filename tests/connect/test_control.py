"""Several connectors in one Spark session do not affect each other."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.cli.connect.run import reported_by
from barnabas.connect.control import ConnectorGroup
from barnabas.connect.control_files import ControlFiles, LocalFolder
from barnabas.pipelines.running import Reports
from barnabas.services.console.access.audit import FILE
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, produce
from tests.services.console.web import CLUSTER, running_console
from tests.support.spark.jars import requires_connect_jars
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(300)]

DEADLINE = 120.0


def tick_until(host: ConnectorGroup, condition: Callable[[], bool]) -> None:
    def tick() -> None:
        for one in host.running:
            one.tick()

    until(condition, lambda: [one.status() for one in host.running], DEADLINE, meanwhile=tick)


@requires_connect_jars
def test_connectors_fail_pause_and_start_again_by_themselves(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG", "hunter22")
    servers, source, target = broker.bootstrap_servers, broker.create_topic(), broker.create_topic()
    good = f"""
name: good
from: {{topic: {{topic: {source}, schema: id BIGINT}}}}
to: {{topic: {{topic: {target}}}}}
errors: {{topic: {source}.dead, tolerate: 2 per hour}}
trigger: 100ms
"""
    away = f"""
name: away
from: {{topic: {{topic: {source}, schema: id BIGINT}}}}
to: {{jdbc: {{url: "jdbc:postgresql://127.0.0.1:1/shop?password=hunter22", table: t, password: "${{env:PG}}"}}}}
restart: {{first: 200ms, attempts: 2}}
"""
    declared = [connector(tmp_path / text.split()[1], text, servers) for text in (good, away)]
    host = ConnectorGroup(declared, spark)
    one, other = host.running
    orders = ControlFiles(LocalFolder(tmp_path / "good" / ".barnabas" / "connect" / "good" / "barnabas"))

    def ids() -> list[int]:
        return [json.loads(message.value())["id"] for message in consume(servers, target)]

    try:
        produce(servers, source, [(1, {"id": 1}), (2, b"no json")])
        tick_until(host, lambda: one.flow.rows == 2 and other.life.state == "failed")
        assert other.life.restarts == 2
        assert "No connection to the database at jdbc:postgresql://127.0.0.1:1/shop" in other.status().error
        assert "hunter22" not in repr(other.status())
        assert ids() == [1]

        orders.pause()
        tick_until(host, lambda: one.life.state == "paused")
        produce(servers, source, [(3, {"id": 3})])
        orders.resume()
        tick_until(host, lambda: one.flow.rows == 1)
        assert ids() == [1, 3]

        produce(servers, source, [(4, b"no json"), (5, b"no json")])
        tick_until(host, lambda: one.life.state == "failed")
        assert "More rows with errors than 2 per hour" in one.life.error
        assert one.status().counts == {"rows": 5, "rejected": 3, "restarts": 0}

        produce(servers, source, [(6, {"id": 6})])
        orders.restart()
        tick_until(host, lambda: one.flow.rows == 1)
        assert ids() == [1, 3, 6]
        assert len(consume(servers, f"{source}.dead")) == 3
    finally:
        for running in host.running:
            running.stop()
    assert one.life.state == "stopped"


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    """The status that a connector leaves behind is not seen by other tests."""
    with EmbeddedBroker() as running:
        yield running


@requires_connect_jars
def test_a_console_elsewhere_pauses_resumes_and_restarts_a_connector(
    spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers = own_broker.bootstrap_servers
    source, target = own_broker.create_topic(), own_broker.create_topic()
    text = f"""
name: controlled
from: {{topic: {{topic: {source}, schema: id BIGINT}}}}
to: {{topic: {{topic: {target}}}}}
trigger: 100ms
"""
    declared = [connector(tmp_path / "controlled", text, servers)]

    def ids() -> list[int]:
        return [json.loads(message.value())["id"] for message in consume(servers, target)]

    with running_console(servers, tmp_path / "console") as console, console.web() as web:

        def state() -> str:
            console.run(console.server.clusters[CLUSTER].statuses.refresh())  # not only every five seconds
            found = web.api("/connectors/controlled")
            return str(found.json["work"]["state"]) if found.status == 200 else ""

        with reporting(ConnectorGroup(declared, spark)) as host:
            produce(servers, source, [(1, {"id": 1})])
            tick_until(host, lambda: state() == "running")
            assert web.change("/connectors/nowhere/pause").status == 404
            assert "Requested" in web.change("/connectors/controlled/pause").json["message"]
            tick_until(host, lambda: state() == "paused")
            produce(servers, source, [(2, {"id": 2})])
            assert "Resume" in web.get("/connectors/controlled").text
            assert web.change("/connectors/controlled/resume").status == 200
            tick_until(host, lambda: state() == "running")
            assert web.change("/connectors/controlled/pause").status == 200
            tick_until(host, lambda: state() == "paused")
        with reporting(ConnectorGroup(declared, spark)) as host:
            tick_until(host, lambda: state() == "paused")
            ControlFiles(LocalFolder(state_folder(tmp_path))).resume()
            tick_until(host, lambda: ids() == [1, 2])  # the request to pause is not carried out again
            assert web.change("/connectors/controlled/restart").status == 200
            tick_until(host, lambda: "restarting controlled as requested" in caplog.text)
            tick_until(host, lambda: state() == "running")
        until(lambda: state() == "stopped")
        assert web.change("/connectors/controlled/pause").status == 409
        events = (tmp_path / "console" / FILE).read_text()
        assert '"POST /c/{cluster}/connectors/{name}/pause"' in events


def state_folder(folder: Path) -> Path:
    return folder / "controlled" / ".barnabas" / "connect" / "controlled" / "barnabas"


@contextmanager
def reporting(host: ConnectorGroup) -> Iterator[ConnectorGroup]:
    """As `barnabas connect run` does it."""
    reports = Reports([reported_by(one) for one in host.running])
    reports.start()
    try:
        yield host
    finally:
        for one in host.running:
            one.stop()
        reports.stop()
