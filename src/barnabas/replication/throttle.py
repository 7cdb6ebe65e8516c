"""Limits on the bytes of replication, as `kafka-reassign-partitions --throttle` sets them.

A topic names the replicas that are throttled (`partition:broker`, or `*` for all), a broker the rate. Replicas that a
reassignment adds have a rate of their own, without being named. Replicas in sync are never held back: they would fall
out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.replication.partition import Partition

UNLIMITED = 2**63 - 1
ALL = "*"


class ReplicationQuota:
    """A bucket that fills at `rate` bytes a second and holds one second's worth; what is taken may be more than is
    in it, and then nothing is given until the debt is paid."""

    def __init__(self, monotonic: Callable[[], float], rate: int = UNLIMITED) -> None:
        self._monotonic = monotonic
        self._filled_at = monotonic()
        self._level = float(rate)
        self._rate = rate

    @property
    def rate(self) -> int:
        return self._rate

    @rate.setter
    def rate(self, rate: int) -> None:
        self._rate = rate
        self._level = min(self._level, float(rate))

    @property
    def is_exceeded(self) -> bool:
        if self.rate >= UNLIMITED:
            return False
        now = self._monotonic()
        self._level = min(float(self.rate), self._level + (now - self._filled_at) * self.rate)
        self._filled_at = now
        return self._level <= 0

    def take(self, count: int) -> None:
        if self.rate < UNLIMITED:
            self._level -= count


class FollowerThrottles:
    """What holds back a follower: a topic's list, or a reassignment that adds it. Not while it is in sync."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.listed = ReplicationQuota(monotonic)
        self.moving = ReplicationQuota(monotonic)

    def of(self, partition: Partition) -> ReplicationQuota | None:
        """The one that counts for this replica of ours."""
        state, broker_id = partition.state, partition.broker_id
        if state is None or broker_id in state.isr:
            return None
        if is_throttled(
            partition.log.config.follower_replication_throttled_replicas, partition.index, broker_id
        ):
            return self.listed
        return self.moving if broker_id in state.adding_replicas else None

    def are_exceeded_for(self, partition: Partition) -> bool:
        throttle = self.of(partition)
        return throttle is not None and throttle.is_exceeded


def is_throttled(listed: Iterable[str], index: int, broker_id: int) -> bool:
    """Does a topic's list name this replica?"""
    wanted = f"{index}:{broker_id}"
    return any(entry in (ALL, wanted) for entry in listed)
