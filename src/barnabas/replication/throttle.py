"""Replication quotas, as set by `kafka-reassign-partitions --throttle`.

A topic lists the throttled replicas (`partition:broker`, or `*` for all), a broker sets the rate. Replicas added by
a reassignment have a separate rate, without being listed. Replicas in the ISR are never throttled: they would fall
out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.common.rates import TokenBucket

if TYPE_CHECKING:
    from barnabas.replication.partition import Partition

UNLIMITED = 2**63 - 1
ALL = "*"


class ReplicationQuota(TokenBucket):
    """Bytes a second, with one second of burst. It may go into debt, and then blocks until the debt is paid."""

    def __init__(self, monotonic: Callable[[], float], rate: float = UNLIMITED) -> None:
        super().__init__(rate, clock=monotonic)

    @property
    def is_exceeded(self) -> bool:
        """True for a rate of 0, too."""
        return self.is_exceeded_by(0)

    def is_exceeded_by(self, count: int) -> bool:
        """True if it is exceeded after taking so much."""
        return self.rate < UNLIMITED and self.tokens <= count

    def take(self, count: float) -> None:
        if self.rate < UNLIMITED:
            super().take(count)


class FollowerThrottles:
    """Selects the quota of a follower: a topic's list, or a reassignment that adds it. Replicas in the ISR have
    none."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.listed = ReplicationQuota(monotonic)
        self.moving = ReplicationQuota(monotonic)

    def of(self, partition: Partition) -> ReplicationQuota | None:
        """The quota that applies to this replica."""
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
    """Return True if a topic's list names this replica."""
    wanted = f"{index}:{broker_id}"
    return any(entry in (ALL, wanted) for entry in listed)
