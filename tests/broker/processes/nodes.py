"""A node with several processes under a real supervisor, for tests that kill them; and a client that counts records."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.programs import free_port
from tests.support.waiting import until

QUICK = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 50,
}


def free_ports(count: int) -> int:
    """The first of consecutive ports that are free."""
    while True:
        first = free_port()
        if first + count < 65536 and all(_is_free(first + k) for k in range(count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Node:
    """`barnabas serve --processes N`. Keeps its ports and its folder over restarts."""

    def __init__(
        self, data: Path, *options: str, ports: int = 4, host: str = "127.0.0.1", within: tuple[str, ...] = ()
    ) -> None:
        self.data = data
        self.port = free_ports(ports)
        self.bootstrap_host = "127.0.0.1"
        self.lines: list[str] = []
        self._host = host
        self._within = within
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.bootstrap_host}:{self.port}"

    def start(self, processes: int) -> Self:
        self.lines.clear()
        listen = f"{self._host}:{self.port}"
        command = [*self._within, sys.executable, "-m", "barnabas", "serve", "--processes", str(processes)]
        command += ["--data", str(self.data), "--listen", listen, *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        until(self._serves, lambda: "the node did not start:\n" + "".join(self.lines), every=0.01)
        return self

    def _serves(self) -> bool:
        assert self._process is not None
        return (
            any(line.startswith("Barnabas is ready") for line in self.lines)
            or self._process.poll() is not None
        )

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self.lines.append(line)

    @property
    def supervisor_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def pid(self, k: int) -> int:
        """The last run of process k."""
        started = f"process {k} is started (pid "
        found = [line for line in self.lines if started in line]
        return int(found[-1].partition(started)[2].partition(")")[0])

    def kill(self, k: int) -> None:
        """kill -9 of one process; returns when the supervisor has started it again."""
        before = self.pid(k)
        os.kill(before, signal.SIGKILL)
        until(lambda: self.pid(k) != before, "the process is not started again", every=0.005)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        return process.wait(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop(signal.SIGKILL)
        if error is not None:
            sys.stdout.write("".join(self.lines))


class Traffic:
    """An idempotent producer to all partitions of a topic in rotation; records what was acknowledged."""

    def __init__(self, node: Node, topic: str, partitions: int = 8) -> None:
        self._topic, self._partitions, self._node = topic, partitions, node
        self._producer = Producer({"bootstrap.servers": node.bootstrap_servers, "acks": "all", "linger.ms": 2,
                                   "enable.idempotence": True, **QUICK})  # fmt: skip
        self.acked: dict[int, list[int]] = defaultdict(list)
        self.errors: list[KafkaError] = []
        self.pauses: dict[int, float] = defaultdict(float)
        self._last: dict[int, float] = {}
        self._next = 0

    def send(self, seconds: float) -> Self:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(self._partitions):
                partition, self._next = self._next % self._partitions, self._next + 1
                self._producer.produce(
                    self._topic, str(self._next).encode(), partition=partition, on_delivery=self._delivered
                )
            self._producer.poll(0.004)
        return self

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition, now = message.partition(), time.monotonic()
        value = message.value()
        assert partition is not None
        assert value is not None
        self.pauses[partition] = max(self.pauses[partition], now - self._last.get(partition, now))
        self._last[partition] = now
        self.acked[partition].append(int(value))

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def check(self) -> int:
        """Every acknowledged record is there, once and in order; returns their number."""
        self.flush()
        assert not self.errors
        assert read_all(self._node, self._topic, self._partitions) == self.acked
        return sum(map(len, self.acked.values()))


def create_topic(node: Node, topic: str, partitions: int = 8) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def leaders(node: Node, topic: str) -> dict[int, int]:
    """The leader of each partition."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    found = admin.list_topics(topic, timeout=30).topics[topic]
    return {index: each.leader for index, each in found.partitions.items()}


def read_all(node: Node, topic: str, partitions: int) -> dict[int, list[int]]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **QUICK,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: dict[int, list[int]] = defaultdict(list)
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        partition, value, error = message.partition(), message.value(), message.error()
        assert partition is not None
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
            continue
        assert value is not None
        found[partition].append(int(value))
    consumer.close()
    return found
