"""The newest Java client, whose broker is not released yet."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.kafka.jars import NEWEST_CLIENT_LIBS
from tests.support.programs import free_port

NEW_IN_4_4 = {
    "ApiVersions": 5,
    "DeleteGroups": 3,
    "StreamsGroupDescribe": 1,
    "StreamsGroupHeartbeat": 1,
    "StreamsGroupTopologyDescriptionUpdate": 0,
    "TxnOffsetCommit": 6,
}
QUICK = {
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "200",
}
PROGRAM = Path(__file__).parent / "java" / "NewestClient.java"


@pytest.mark.java
def test_the_newest_client_of_java_does_all_its_work() -> None:
    port = free_port()
    with EmbeddedBroker({"barnabas.metrics.listen": f"127.0.0.1:{port}", **QUICK}) as broker:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{NEWEST_CLIENT_LIBS}/*", str(PROGRAM)]
        done = subprocess.run(
            [*command, broker.bootstrap_servers], capture_output=True, text=True, check=False, timeout=100
        )
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            served = answer.read().decode()
    assert done.returncode == 0, done.stderr[-4000:]
    steps = [
        "topics",
        "produce",
        "groups",
        "transactions",
        "queue",
        "dead-letters",
        "streams",
        "warm-ups",
        "administration",
    ]
    assert done.stdout.split() == steps
    for request, version in NEW_IN_4_4.items():
        assert f'request="{request}",version="{version}"' in served
