"""A broker of either kind with a console, and Kafka's tools for comparison."""

from __future__ import annotations

import itertools

import confluent_kafka

from tests.services.console.web import CLUSTER, RunningConsole, Web
from tests.support.waiting import eventually

TIMEOUT = 60.0
_numbers = itertools.count()


def new_name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


def created(web: Web, prefix: str, partitions: int = 2, settings: str = "", replicas: int = 1) -> str:
    name = new_name(prefix)
    fields = {"topic": name, "partitions": partitions, "replication_factor": replicas, "settings": settings}
    answer = web.change("/create-topic", **fields)
    assert answer.status == 200, answer.text
    eventually(lambda: web.api(f"/topics/{name}/partitions").status, lambda status: status == 200)
    return name


def write(bootstrap: str, topic: str, count: int, partition: int = 0, size: int = 10) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"%0*d" % (size, number), partition=partition)
    assert producer.flush(TIMEOUT) == 0


def look_anew(console: RunningConsole) -> None:
    """Lists show samples of the last ten seconds."""
    console.run(console.server.clusters[CLUSTER].sampler.refresh())
