"""Connectors at work in one Spark: what one does is no matter of the others."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.control import ConnectorGroup
from barnabas.connect.control_files import ControlFiles, LocalFolder
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, produce
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
