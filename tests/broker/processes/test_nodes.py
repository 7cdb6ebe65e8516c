"""Nodes with several processes and real clients: no acknowledged record is lost, duplicated or reordered."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient

from barnabas.client import Client
from barnabas.client.placement import reassignments
from barnabas.common.types import TopicPartition
from barnabas.log.names import partition_of_folder
from tests.broker.processes.nodes import Node, Traffic, create_topic, leaders
from tests.support.waiting import until


def until_led_by(node: Node, brokers: set[int]) -> None:
    until(lambda: set(leaders(node, "orders").values()) == brokers, lambda: str(leaders(node, "orders")))


def test_each_process_is_killed_under_load(tmp_path: Path) -> None:
    with Node(tmp_path / "data").start(2) as node:
        create_topic(node, "orders")
        assert Counter(leaders(node, "orders").values()) == {1: 4, 1001: 4}
        traffic = Traffic(node, "orders").send(0.5)
        for k in (1, 0):
            node.kill(k)
            traffic.send(1.0)
        assert traffic.check() > 100
        assert node.stop() == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_end_of_the_supervisor_is_the_end_of_its_processes(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        node.start(2)
        create_topic(node, "orders")
        traffic = Traffic(node, "orders").send(0.5)
        pids = [node.pid(0), node.pid(1)]
        node.stop(signal.SIGKILL)
        until(lambda: not any(map(is_running, pids)), "a process runs without its supervisor", seconds=10)
        node.start(2)
        traffic.send(0.5)
        traffic.check()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_number_of_processes_changes_in_both_directions(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        node.start(1)
        create_topic(node, "orders")
        traffic = Traffic(node, "orders").send(0.3)
        for count in (2, 4, 1, 3, 1):
            traffic.flush()
            assert node.stop() == 0
            node.start(count)
            expected = {1 + 1000 * k for k in range(count)}
            until_led_by(node, expected)
            counts = Counter(leaders(node, "orders").values())
            assert max(counts.values()) - min(counts.values()) <= 1
            traffic.send(0.3)
        traffic.check()


def test_a_node_that_was_killed_starts_with_fewer_processes(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        node.start(3)
        create_topic(node, "orders")
        traffic = Traffic(node, "orders").send(0.5)
        for count in (2, 1):
            node.stop(signal.SIGKILL)
            node.start(count)
            traffic.send(0.5)
        traffic.check()
        assert not list((tmp_path / "data").glob("*-stray"))


def test_partitions_move_between_processes_under_load_and_kills(tmp_path: Path) -> None:
    with Node(tmp_path / "data").start(2) as node:
        create_topic(node, "orders")
        traffic = Traffic(node, "orders").send(0.5)
        for number in range(6):
            target = 1001 if number % 2 == 0 else 1
            asyncio.run(move(node, "orders", target))
            traffic.send(0.3)
            until_led_by(node, {target})
        for number in range(4):
            asyncio.run(move(node, "orders", 1001 if number % 2 == 0 else 1))
            node.kill(number % 2)
            traffic.send(0.7)
        assert traffic.check() > 100
        assert node.stop() == 0


async def move(node: Node, topic: str, target: int) -> None:
    async with Client(node.bootstrap_servers) as client:
        await reassignments.alter(client, {TopicPartition(topic, index): [target] for index in range(8)})


def test_a_deleted_name_is_used_again_at_another_process(tmp_path: Path) -> None:
    """Its folder may be created only after the old one is no longer anyone's."""
    with Node(tmp_path / "data").start(2) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        for number in range(4):
            create_topic(node, "orders")
            traffic = Traffic(node, "orders").send(0.2)
            asyncio.run(move(node, "orders", 1 if number % 2 == 0 else 1001))
            traffic.send(0.2).check()
            traffic.flush()
            asyncio.run(move(node, "orders", 1001 if number % 2 == 0 else 1))
            admin.delete_topics(["orders"])["orders"].result(30)
        until(
            lambda: not folders_of(tmp_path / "data", "orders"),
            lambda: str(list((tmp_path / "data").iterdir())),
        )
        assert node.stop() == 0


def folders_of(data: Path, topic: str) -> list[str]:
    return [path.name for path in data.glob(f"{topic}*") if partition_of_folder(path.name) is not None]


def test_clients_get_the_host_through_which_they_connected(tmp_path: Path) -> None:
    with Node(tmp_path / "data", host="0.0.0.0").start(2) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        brokers = admin.list_topics(timeout=30).brokers.values()
        assert {each.host for each in brokers} == {"127.0.0.1"}
        assert {each.port for each in brokers} == {node.port, node.port + 1}
