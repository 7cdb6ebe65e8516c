"""Nodes with several processes compared with one: start, memory, pauses, transfers, CPU per request.

    python -m benchmarks.processes [start] [kill] [transfer] [grow] [cpu]

Each row prints what it has measured; docs/proof/processes.md has the figures.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client import Client
from barnabas.client.placement import reassignments
from barnabas.common.types import TopicPartition
from tests.broker.processes.nodes import QUICK, Node, Traffic, create_topic, leaders


@contextmanager
def node(count: int, *options: str) -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as folder, Node(Path(folder) / "data", *options, ports=16) as started:
        yield started.start(count)
        started.stop()


def pids(started: Node, count: int) -> list[int]:
    """The supervisor first, or the only process."""
    return [started.supervisor_pid, *(started.pid(k) for k in range(count) if count > 1)]


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def cpu_seconds(pid: int) -> float:
    """Of the threads that run now, to the nanosecond."""
    return (
        sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    )


def wakeups(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt")))


def start() -> None:
    """Time until ready, and memory."""
    for count in (1, 2, 1, 2, 4, 8):
        with tempfile.TemporaryDirectory() as folder, Node(Path(folder) / "data", ports=16) as started:
            begin = time.monotonic()
            started.start(count)
            seconds = time.monotonic() - begin
            time.sleep(1.0)
            memory = sum(map(pss_mb, pids(started, count)))
            begin = time.monotonic()
            started.stop()
            print(
                f"start: N={count} ready {seconds:.2f} s, PSS {memory:.0f} MB, stop {time.monotonic() - begin:.2f} s"
            )


def kill(nodes: int = 5, partitions: int = 8) -> None:
    """kill -9 of both processes of new nodes: pauses of their partitions and of the others, as librdkafka sees them."""
    own: list[float] = []
    others: list[float] = []
    count = 0
    for _ in range(nodes):
        with node(2) as started:
            create_topic(started, "orders", partitions)
            leader_of = leaders(started, "orders")
            traffic = Traffic(started, "orders", partitions).send(1.5)
            for k in (0, 1):
                traffic.pauses.clear()
                os.kill(started.pid(k), signal.SIGKILL)  # traffic does not wait for the next fork
                traffic.send(2.0)
                pauses = traffic.pauses.items()
                own.append(max(pause for tp, pause in pauses if leader_of[tp] == 1 + 1000 * k))
                others.append(max(pause for tp, pause in pauses if leader_of[tp] != 1 + 1000 * k))
            count += traffic.check()
    print(
        f"kill: {2 * nodes} kills, {partitions} partitions, {count} acked, 0 lost; own median "
        f"{statistics.median(own) * 1000:.0f} max {max(own) * 1000:.0f} ms; others median "
        f"{statistics.median(others) * 1000:.0f} max {max(others) * 1000:.0f} ms"
    )


def transfer(partitions: int = 100) -> None:
    """All partitions of a topic move to one process and back, under load."""
    with node(2) as started:
        create_topic(started, "orders", partitions)
        traffic = Traffic(started, "orders", partitions).send(2.0)
        for target in (1, 1001):
            traffic.pauses.clear()
            before = [cpu_seconds(pid) for pid in pids(started, 2)]
            begin = time.monotonic()
            moving = threading.Thread(target=_move_all, args=(started, partitions, target))
            moving.start()
            while moving.is_alive():
                traffic.send(0.01)
            seconds = time.monotonic() - begin
            traffic.send(2.0)
            used = sum(cpu_seconds(pid) for pid in pids(started, 2)) - sum(before)
            pauses = sorted(traffic.pauses.values())
            print(
                f"transfer: {partitions} partitions to {target} in {seconds:.2f} s, pause median "
                f"{statistics.median(pauses) * 1000:.0f} max {pauses[-1] * 1000:.0f} ms, CPU of all {used:.2f} s"
            )
        print(f"transfer: {traffic.check()} acked, 0 lost")


def _move_all(started: Node, partitions: int, target: int) -> None:
    asyncio.run(_move(started, partitions, target))
    while set(leaders(started, "orders").values()) != {target}:
        time.sleep(0.02)


async def _move(started: Node, partitions: int, target: int) -> None:
    async with Client(started.bootstrap_servers) as client:
        await reassignments.alter(
            client, {TopicPartition("orders", index): [target] for index in range(partitions)}
        )


def grow(partitions: int = 10_000, count: int = 4) -> None:
    """From one process to four: until all processes lead their share."""
    with tempfile.TemporaryDirectory() as folder, Node(Path(folder) / "data", ports=16) as started:
        started.start(1)
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers, "log_level": 0})
        topics = [NewTopic(f"topic-{number}", 100, 1) for number in range(partitions // 100)]
        for future in admin.create_topics(topics, operation_timeout=120).values():
            future.result(120)
        begin = time.monotonic()
        started.stop()
        stopped = time.monotonic() - begin
        begin = time.monotonic()
        started.start(count)
        ready = time.monotonic() - begin
        wanted = partitions // count
        while True:
            found = Counter(_leaders_of_all(started))
            if min(found[1 + 1000 * k] for k in range(count)) >= wanted * 0.9 and found[-1] == 0:
                break
            if time.monotonic() - begin > 170:
                print(f"grow: not even after 170 s: {found}")
                break
            time.sleep(0.25)
        print(
            f"grow: {partitions} partitions 1 -> {count}: stop {stopped:.1f} s, ready {ready:.1f} s, "
            f"even after {time.monotonic() - begin:.1f} s: {dict(found)}"
        )
        begin = time.monotonic()
        started.stop()
        print(f"grow: stop {time.monotonic() - begin:.1f} s")


def _leaders_of_all(started: Node) -> list[int]:
    admin = AdminClient({"bootstrap.servers": started.bootstrap_servers, "log_level": 0})
    found = admin.list_topics(timeout=60).topics.values()
    return [
        each.leader
        for topic in found
        for each in topic.partitions.values()
        if str(topic.topic).startswith("topic-")
    ]


def cpu(seconds: float = 6.0) -> None:
    """CPU per produce request at equal total load, and the share of the supervisor."""
    for count in (1, 2, 4, 8, 1, 2, 4, 8):
        with node(count) as started:
            create_topic(started, "orders", 16)
            producers = [_producer(started) for _ in range(4)]
            _requests(producers, 1.0)
            before = [cpu_seconds(pid) for pid in pids(started, count)]
            woken = wakeups(started.supervisor_pid)
            sent = _requests(producers, seconds)
            woken = wakeups(started.supervisor_pid) - woken
            used = [
                after - then
                for after, then in zip(map(cpu_seconds, pids(started, count)), before, strict=True)
            ]
            share = used[0] / sum(used) if count > 1 else 0.0
            print(
                f"cpu: N={count} {sent / seconds:.0f} requests/s, {sum(used) / sent * 1e6:.1f} us each, "
                f"supervisor {share:.2%}, {woken} wake-ups",
                flush=True,
            )


def _producer(started: Node) -> Producer:
    """One request for each record."""
    return Producer(
        {
            "bootstrap.servers": started.bootstrap_servers,
            "acks": 1,
            "linger.ms": 0,
            "batch.num.messages": 1,
            **QUICK,
        }
    )


def _requests(producers: list[Producer], seconds: float, per_second: int = 2000) -> int:
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic()) < begin + seconds:
        while sent < (now - begin) * per_second:
            producers[sent % len(producers)].produce("orders", b"x" * 100, partition=sent % 16)
            sent += 1
        for producer in producers:
            producer.poll(0)
        time.sleep(0.002)
    for producer in producers:
        producer.flush(30)
    return sent


ROWS: dict[str, Callable[[], None]] = {
    "start": start,
    "kill": kill,
    "transfer": transfer,
    "grow": grow,
    "cpu": cpu,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or ROWS:
        ROWS[name]()
