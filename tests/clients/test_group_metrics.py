"""Metrics of groups with real members."""

from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

from confluent_kafka import Consumer, ShareConsumer

from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port
from tests.support.waiting import eventually

COORDINATOR = "kafka_server_group_coordinator_metrics_"
MANAGER = "kafka_coordinator_group_groupmetadatamanager_"


def _metrics(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for line in lines if line[0] != "#" for name, value in [line.rsplit(" ", 1)]}


def _wait_for_metrics(port: int, wanted: dict[str, float], clients: list[Any]) -> None:
    """Members must be polled meanwhile: it is how they join, and stay."""

    def found() -> dict[str, float | None]:
        return {name: _metrics(port).get(name) for name in wanted}

    def poll() -> None:
        for client in clients:
            client.poll(0.1)

    eventually(found, lambda figures: figures == wanted, meanwhile=poll, every=0)


def test_groups_of_clients_are_counted_by_protocol_and_state() -> None:
    port = free_port()
    with EmbeddedBroker({"barnabas.metrics.listen": f"127.0.0.1:{port}"}) as broker, ExitStack() as stack:
        broker.create_topic("orders")
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        classic = Consumer({**settings, "group.id": "classic"})
        modern = Consumer({**settings, "group.id": "modern", "group.protocol": "consumer"})
        share = ShareConsumer({**settings, "group.id": "workers"})
        members: list[Any] = [classic, modern, share]
        for member in members:
            stack.callback(member.close)
            member.subscribe(["orders"])
        wanted: dict[str, float] = {
            f'{COORDINATOR}group_count{{protocol="classic"}}': 1,
            f'{COORDINATOR}group_count{{protocol="consumer"}}': 1,
            f'{COORDINATOR}group_count{{protocol="share"}}': 1,
            f'{COORDINATOR}group_count{{protocol="streams"}}': 0,
            f'{COORDINATOR}consumer_group_count{{state="Stable"}}': 1,
            f'{COORDINATOR}share_group_count{{state="Stable"}}': 1,
            f'{COORDINATOR}streams_group_count{{state="NotReady"}}': 0,
            f"{MANAGER}numgroups": 1,
            f"{MANAGER}numgroupsstable": 1,
            f"{MANAGER}numoffsets": 0,
        }
        _wait_for_metrics(port, wanted, members)
        stack.close()
        left: dict[str, float] = {
            f'{COORDINATOR}consumer_group_count{{state="Empty"}}': 1,
            f"{MANAGER}numgroupsempty": 1,
            f"{MANAGER}numgroupsstable": 0,
        }
        _wait_for_metrics(port, left, [])
