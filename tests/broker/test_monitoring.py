"""Metrics of a complete broker."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from urllib.request import urlopen

from barnabas.broker.broker import Broker
from barnabas.config.broker import BrokerConfig
from barnabas.metrics.catalogue import CATALOGUE
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.server import Client, frame, scenario


def read(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


@scenario
async def test_a_broker_serves_its_metrics_and_its_health(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "barnabas.metrics.listen": "127.0.0.1:0",
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/store",
    }
    broker = Broker(BrokerConfig.load(settings))
    await broker.start()
    try:
        client = Client(*await asyncio.open_connection("127.0.0.1", broker.listeners[0].port))
        topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
        await client.send(frame(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5))
        await client.response()
        port = broker.monitoring.http.port
        text = await asyncio.to_thread(read, port, "/metrics")
        health = json.loads(await asyncio.to_thread(read, port, "/health"))
        client.abort()
    finally:
        await broker.stop()
    for line in (
        'kafka_topic_partitions{topic="orders"} 3',
        "kafka_server_replicamanager_leadercount 3",
        "kafka_controller_kafkacontroller_activecontrollercount 1",
        "kafka_controller_kafkacontroller_offlinepartitionscount 0",
        'kafka_log_log_size{topic="orders",partition="2"} 0',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 0',
        'kafka_server_socketservermetrics_connection_count{listener="PLAINTEXT"} 1',
        'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"} 1',
        'kafka_cluster_partition_replicascount{topic="orders",partition="0"} 1',
        'kafka_network_requestmetrics_requests_total{request="CreateTopics",version="5"} 1',
    ):
        assert line + "\n" in text
    if sys.platform == "linux":
        assert "\nkafka_server_kafkaserver_linux_disk_write_bytes " in text
    assert (health["status"], health["node_id"]) == ("up", broker.node_id)
    # Nothing is served that is not described, and nothing is described that is not served.
    declared = {family.metric for family in broker.metrics.families()}
    assert declared == set(CATALOGUE)
