"""Several brokers in one process: real sockets and files, with a shared coordinator in memory."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from barnabas.broker.broker import Broker
from barnabas.cluster.image import PartitionState
from barnabas.common.loop_thread import LoopThread
from barnabas.config.broker import BrokerConfig
from barnabas.network import new_event_loop
from barnabas.testing.in_memory_cluster import MemoryCluster, MemorySession
from tests.support.waiting import until

T = TypeVar("T")

DEADLINE = 60.0
SETTINGS = {
    "barnabas.acks.all.fsync": "never",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "3000",
}


class Brokers:
    """Numbered from 1. `kill` has the effect of kill -9 for others: sockets close, and the session expires."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        session_timeout: float = 1.0,
        disks: int = 1,
    ) -> None:
        self._folder = folder
        self._settings = {**SETTINGS, **(settings or {})}
        self._count = count
        self._disks = disks
        self.brokers: dict[int, Broker] = {}
        self.sessions: dict[int, MemorySession] = {}
        self._ports: dict[int, int] = {}
        self.cluster = MemoryCluster(session_timeout)
        self.thread = LoopThread("barnabas brokers", new_event_loop())

    def __enter__(self) -> Self:
        for number in range(1, self._count + 1):
            self.start(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for number in list(self.brokers):
                self.stop(number)
        finally:
            self.thread.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.thread.run(coroutine, DEADLINE)

    def start(
        self, number: int, settings: Mapping[str, str] | None = None, kind: type[Broker] = Broker
    ) -> Broker:
        return self.run(self._start(number, settings or {}, kind))

    async def _start(self, number: int, settings: Mapping[str, str], kind: type[Broker]) -> Broker:
        config = BrokerConfig.load(
            {
                "node.id": str(number),
                "log.dirs": ",".join(str(self._folder / f"{number}-{disk}") for disk in range(self._disks)),
                "listeners": f"PLAINTEXT://127.0.0.1:{self._ports.get(number, 0)}",
                "barnabas.host": f"machine-{number}",
                "broker.rack": f"rack-{number}",
                **self._settings,
                **settings,
            }
        )
        session = self.cluster.connect(number)
        broker = kind(config, cluster=session.connection)
        await broker.start()
        self.brokers[number], self.sessions[number] = broker, session
        self._ports[number] = broker.listeners[0].port
        return broker

    def stop(self, number: int) -> None:
        self.run(self.brokers.pop(number).stop())

    def kill(self, number: int) -> None:
        broker = self.brokers.pop(number)

        async def die() -> None:
            self.sessions[number].vanish()
            await broker.abort()

        self.run(die())

    # -- looking ------------------------------------------------------------------------------------

    @property
    def any(self) -> Broker:
        return next(iter(self.brokers.values()))

    @property
    def controller(self) -> int:
        return next(number for number, broker in self.brokers.items() if broker.controller.is_active)

    def state(self, topic: str, index: int = 0) -> PartitionState:
        state = self.any.image.partition(topic, index)
        assert state is not None
        return state

    def until_in_sync(self, topic: str, count: int) -> None:
        def in_sync() -> bool:
            known = self.any.image.topics.get(topic)
            return known is not None and all(
                len(state.isr) == count and state.leader >= 0 for state in known.partitions
            )

        until(in_sync, f"{topic} does not get {count} replicas in sync")
