"""Follower progress on the leader, and the view of the cluster that a partition needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.log import Log

if TYPE_CHECKING:
    from barnabas.replication.partition import Partition

UNKNOWN_OFFSET = -1
NO_LIMIT = -1
ANY_EPOCH = -1  # for a member of the ISR that has not fetched from this leader yet


class Follower:
    """Progress of a follower, from its fetches. `caught_up_at` is when it last had everything."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "is_far_behind", "leader_end")

    def __init__(self, now: float) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.broker_epoch = ANY_EPOCH
        self.caught_up_at = now  # a new leader gives its followers time to find it
        self.fetched_at = now
        self.leader_end = 0
        self.is_far_behind = False  # in the last review

    def reached(self, end_offset: int, leader_end: int, broker_epoch: int, now: float) -> None:
        """Record a fetch from `end_offset`: the follower holds everything below."""
        if end_offset >= leader_end:
            self.caught_up_at = now
        elif end_offset >= self.leader_end:
            # It has everything up to the log end at its last fetch: under load no follower ever has all records.
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.end_offset = end_offset
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.leader_end = leader_end

    def keeps_up(self, leader_end: int, now: float, max_lag: float) -> bool:
        """Return True if it had everything within the last `max_lag` seconds."""
        if self.end_offset >= leader_end:
            self.caught_up_at = now
        return now - self.caught_up_at <= max_lag

    def stays_far_behind(self, leader_end: int, limit: int) -> bool:
        """Return True if it lacks more than `limit` records in two consecutive reviews."""
        before, self.is_far_behind = self.is_far_behind, leader_end - self.end_offset > limit
        return before and self.is_far_behind


class Followers(dict[int, Follower]):
    """Follower progress by broker id."""

    def behind(self, members: Iterable[int], leader_end: int, now: float, max_lag: float) -> set[int]:
        """Members that were not caught up for more than `max_lag` seconds, or are unknown."""
        return {
            member
            for member in members
            if (follower := self.get(member)) is None or not follower.keeps_up(leader_end, now, max_lag)
        }

    def far_behind(self, members: Iterable[int], leader_end: int, limit: int) -> set[int]:
        """Members that lack more than `limit` records in two consecutive reviews."""
        if limit == NO_LIMIT:
            return set()
        known = [(member, self[member]) for member in members if member in self]
        return {member for member, follower in known if follower.stays_far_behind(leader_end, limit)}

    def least_end(self, members: Iterable[int], leader: int, end: int) -> int:
        """The smallest log end of the members, at most the leader's `end`."""
        for member in members:
            if member != leader:
                follower = self.get(member)
                end = min(end, follower.end_offset if follower is not None else UNKNOWN_OFFSET)
        return end

    def ends_of(self, members: Iterable[int]) -> Iterator[tuple[int, int]]:
        """(broker id, log end) of known members."""
        for member in members:
            if (follower := self.get(member)) is not None:
                yield member, follower.end_offset

    def with_epochs(self, members: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """(broker id, broker epoch of its fetches), so that a restarted broker is not mistaken for it (KIP-903)."""
        return tuple(
            (member, self[member].broker_epoch if member in self else ANY_EPOCH) for member in members
        )


class IsrProposal(NamedTuple):
    """The ISR that a leader has proposed to the controller, as (broker id, broker epoch)."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(member for member, _ in self.members)


class ClusterView(Protocol):
    """The other brokers, as far as a partition needs to know."""

    @property
    def is_fenced(self) -> bool:
        """True if this broker has lost its session and must not accept records."""
        ...

    def monotonic(self) -> float: ...

    def eligible_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that may join an ISR; None if it is down or stopping."""
        ...

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        """True if all these brokers run on one host."""
        ...

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask the controller for another ISR."""
        ...

    def followed_by(self, brokers: Iterable[int]) -> None:
        """Notify that this broker leads a partition which these brokers follow: expect their fetches."""
        ...

    def appends_undone(self, partition: Partition) -> None:
        """Notify that appended records could not be written: cached state derived from them is invalid."""
        ...

    def when_flushed(self, log: Log, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Flush the log, and call back once everything below `offset` is on disk."""
        ...


class SingleNodeProgress:
    """The view of a single-node cluster."""

    is_fenced = False

    def monotonic(self) -> float:
        return 0.0

    def eligible_epoch(self, broker_id: int) -> int | None:
        return None

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        return False

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ignore: no replica can join."""

    def followed_by(self, brokers: Iterable[int]) -> None:
        """Ignore: no broker follows."""

    def appends_undone(self, partition: Partition) -> None:
        """Ignore: no state is cached."""

    def when_flushed(self, log: Log, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        log.flush()
        callback(ErrorCode.NONE)
