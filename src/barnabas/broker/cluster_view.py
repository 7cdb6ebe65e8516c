"""What partitions see of the cluster: the image, our session, and the way to ask for another ISR."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.common.clock import Clock
from barnabas.cluster.image import MetadataImage
from barnabas.log.log import Log
from barnabas.replication.fetch_sessions import FetchSessions
from barnabas.replication.flusher import FlushCallback, Flusher
from barnabas.replication.isr import IsrChanges
from barnabas.replication.partition import Partition
from barnabas.replication.progress import IsrProposal


class _Host(Protocol):
    @property
    def clock(self) -> Clock: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...
    @property
    def flusher(self) -> Flusher: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def is_fenced(self) -> bool: ...
    @property
    def isr_changes(self) -> IsrChanges: ...
    def follow_leadership(self) -> None: ...


class BrokerView:
    def __init__(self, broker: _Host) -> None:
        self._broker = broker

    @property
    def is_fenced(self) -> bool:
        return self._broker.is_fenced

    def monotonic(self) -> float:
        return self._broker.clock.monotonic()

    def eligible_epoch(self, broker_id: int) -> int | None:
        state = self._broker.image.brokers.get(broker_id)
        return state.epoch if state is not None and state.can_lead else None

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        known = self._broker.image.brokers
        hosts = {known[broker_id].host if broker_id in known else "" for broker_id in brokers}
        return len(hosts) == 1 and "" not in hosts

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        self._broker.isr_changes.want(partition, proposal)

    def followed_by(self, brokers: Iterable[int]) -> None:
        self._broker.fetch_sessions.expect(brokers)

    def appends_undone(self, partition: Partition) -> None:
        self._broker.follow_leadership()

    def when_flushed(self, log: Log, offset: int, callback: FlushCallback) -> None:
        self._broker.flusher.when_flushed(log, offset, callback)
