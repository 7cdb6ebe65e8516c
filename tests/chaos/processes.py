"""Faults of a node with several processes, under real clients: `make node-chaos NODE_CHAOS="--minutes 5"`."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.common.types import TopicPartition
from barnabas.log.dirs.properties import BOOT_ID
from barnabas.testing.client_settings import ClientSettings
from tests.broker.processes.nodes import Node, leaders
from tests.chaos.checks import check_records
from tests.chaos.loads import PARTITIONS, Load
from tests.chaos.matrix import LOADS
from tests.chaos.moves import move
from tests.support.waiting import SECONDS, until

PROCESSES = 2
PAUSE_SECONDS = 3.0


class NodeScene(NamedTuple):
    node: Node
    topic: str
    load: Load

    def kill(self, k: int) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(self.node.pid(k), signal.SIGKILL)

    def move_all(self, target: int) -> None:
        clients = ClientSettings(self.node.bootstrap_servers)
        for index in range(PARTITIONS):
            move(clients, TopicPartition(self.topic, index), [target])

    def until_acknowledged(self, more: int = 50) -> None:
        """Wait until every partition has acknowledged some more."""
        counts = {index: len(self.load.acknowledged[index]) + more for index in range(PARTITIONS)}

        def is_done() -> bool:
            return all(len(self.load.acknowledged[index]) >= count for index, count in counts.items())

        until(lambda: is_done() or self.load.failure, "every partition acknowledges records", 120)


def kill_leader(scene: NodeScene) -> None:
    scene.kill(leaders(scene.node, scene.topic)[0] // 1000)


def kill_coordinator(scene: NodeScene) -> None:
    """Process with most partitions of transaction states; without transactions, any."""
    found = leaders(scene.node, "__transaction_state")
    scene.kill(found.get(0, 1) // 1000)


def kill_each(scene: NodeScene) -> None:
    for k in range(PROCESSES):
        scene.kill(k)
        scene.until_acknowledged()


def kill_all(scene: NodeScene) -> None:
    for k in range(PROCESSES):
        scene.kill(k)


def kill_supervisor(scene: NodeScene) -> None:
    scene.node.stop(signal.SIGKILL)
    time.sleep(0.5)
    scene.node.start(PROCESSES)


def restart_machine(scene: NodeScene) -> None:
    """Another boot id: every log is checked as after a power cut. Nothing is cut off, as only the disk knows what was
    synced; tests/log/dirs/test_handover.py loses unsynced bytes."""
    scene.node.stop(signal.SIGKILL)
    time.sleep(0.5)
    (scene.node.data / BOOT_ID).write_text("another boot\n")
    scene.node.start(PROCESSES)


def restart_node(scene: NodeScene) -> None:
    assert scene.node.stop() == 0
    scene.node.start(PROCESSES)


def stop_process(scene: NodeScene) -> None:
    os.kill(scene.node.pid(1), signal.SIGTERM)


def pause_process(scene: NodeScene) -> None:
    pid = scene.node.pid(1)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE_SECONDS)
    os.kill(pid, signal.SIGCONT)


def transfer(scene: NodeScene) -> None:
    for target in (1, 1001, 1):
        scene.move_all(target)
        scene.until_acknowledged()


def transfer_and_kill(scene: NodeScene) -> None:
    """Each of both processes is killed within 50 ms of an order."""
    for k, target in ((0, 1), (1, 1), (0, 1001), (1, 1001)):
        scene.move_all(target)
        time.sleep(random.random() * 0.05)
        scene.kill(k)
        scene.until_acknowledged()


def other_counts(scene: NodeScene) -> None:
    for count in (4, 1, PROCESSES):
        assert scene.node.stop() == 0
        scene.node.start(count)
        scene.until_acknowledged()


FAULTS: dict[str, Callable[[NodeScene], None]] = {
    "kill the leader": kill_leader,
    "kill the coordinator": kill_coordinator,
    "kill each in turn": kill_each,
    "kill all at once": kill_all,
    "kill the supervisor": kill_supervisor,
    "restart the machine": restart_machine,
    "restart in order": restart_node,
    "stop one process": stop_process,
    "pause one process": pause_process,
    "transfer all partitions": transfer,
    "transfer and kill": transfer_and_kill,
    "4, 1 and 2 processes": other_counts,
}


def run_one(node: Node, name: str, kind: type[Load], number: int) -> str:
    """One fault under one load, on a new topic; returns the result. Raises AssertionError for an anomaly."""
    clients, topic = ClientSettings(node.bootstrap_servers), f"chaos-{number}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)
    load = kind(clients, topic)
    with load:
        scene = NodeScene(node, topic, load)
        scene.until_acknowledged()
        began = time.monotonic()
        FAULTS[name](scene)
        scene.until_acknowledged()
        gap = load.longest_gap(began, time.monotonic())
    check_records(clients, topic, load)
    return f"{name:26} {kind.client:10} {kind.kind:13} {load.count:>8} {gap:6.2f} s"


def run_all(minutes: float, seed: int, folder: Path) -> Iterator[str]:
    runs = [(name, kind) for name in FAULTS for kind in LOADS]
    random.Random(seed).shuffle(runs)
    deadline = time.monotonic() + minutes * 60
    with Node(folder / "data", ports=8) as node:
        node.start(PROCESSES)
        for number, (name, kind) in enumerate(runs):
            if time.monotonic() > deadline:
                yield f"{len(runs) - number} runs were left when the time was over"
                return
            yield run_one(node, name, kind, number)


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make node-chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="no run begins after this time")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of the order of the runs")
    options = parser.parse_args()
    show(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="barnabas-node-chaos-") as folder:
        for line in run_all(options.minutes, options.seed, Path(folder)):
            show(line)
    show("no anomaly")


if __name__ == "__main__":
    main()
