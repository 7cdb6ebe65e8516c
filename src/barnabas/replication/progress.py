"""What a leader knows of one follower, and what a partition asks of the cluster around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.log.log import Log

if TYPE_CHECKING:
    from barnabas.replication.partition import Partition

UNKNOWN_OFFSET = -1
NO_LIMIT = -1
ANY_EPOCH = -1  # of a member of the ISR that has not fetched from this leader yet


class Follower:
    """How far a follower has come, by its fetches. `caught_up_at` is when it last had everything."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "is_far_behind", "leader_end")

    def __init__(self, now: float) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.broker_epoch = ANY_EPOCH
        self.caught_up_at = now  # a new leader gives everybody time to find it
        self.fetched_at = now
        self.leader_end = 0
        self.is_far_behind = False  # in the last review

    def reached(self, end_offset: int, leader_end: int, broker_epoch: int, now: float) -> None:
        """Its fetch from `end_offset` says that it holds everything below."""
        if end_offset >= leader_end:
            self.caught_up_at = now
        elif end_offset >= self.leader_end:
            # It has what there was when it last asked: under load nobody ever has all there is.
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.end_offset = end_offset
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.leader_end = leader_end

    def keeps_up(self, leader_end: int, now: float, patience: float) -> bool:
        """Has it had everything within the last `patience` seconds?"""
        if self.end_offset >= leader_end:
            self.caught_up_at = now
        return now - self.caught_up_at <= patience

    def stays_far_behind(self, leader_end: int, most: int) -> bool:
        """Does it lack more than `most` records, for the second review in a row?"""
        before, self.is_far_behind = self.is_far_behind, leader_end - self.end_offset > most
        return before and self.is_far_behind


class Followers(dict[int, Follower]):
    """What a leader knows of its followers, by broker id."""

    def behind(self, members: Iterable[int], leader_end: int, now: float, patience: float) -> set[int]:
        """Those that have not had everything for longer than `patience` seconds, or are not known."""
        return {
            member
            for member in members
            if (follower := self.get(member)) is None or not follower.keeps_up(leader_end, now, patience)
        }

    def far_behind(self, members: Iterable[int], leader_end: int, most: int) -> set[int]:
        """Those that lack more than `most` records, as in the review before."""
        if most == NO_LIMIT:
            return set()
        known = [(member, self[member]) for member in members if member in self]
        return {member for member, follower in known if follower.stays_far_behind(leader_end, most)}

    def least_end(self, members: Iterable[int], leader: int, end: int) -> int:
        """What all members have, of what the leader has up to `end`."""
        for member in members:
            if member != leader:
                follower = self.get(member)
                end = min(end, follower.end_offset if follower is not None else UNKNOWN_OFFSET)
        return end

    def ends_of(self, members: Iterable[int]) -> Iterator[tuple[int, int]]:
        """(broker id, log end) of those that are known."""
        for member in members:
            if (follower := self.get(member)) is not None:
                yield member, follower.end_offset

    def with_epochs(self, members: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """(broker id, epoch with which it has fetched), so that one that restarted is not taken for it (KIP-903)."""
        return tuple(
            (member, self[member].broker_epoch if member in self else ANY_EPOCH) for member in members
        )


class IsrProposal(NamedTuple):
    """The ISR that a leader has asked the controller for, as (broker id, broker epoch)."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(member for member, _ in self.members)


class ClusterView(Protocol):
    """What a partition needs to know of the other brokers."""

    @property
    def is_fenced(self) -> bool:
        """Has this broker lost its session? It must not accept records then."""
        ...

    def monotonic(self) -> float: ...

    def eligible_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that may be in an ISR; None when it is down or about to stop."""
        ...

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        """Would one machine's failure take all of them?"""
        ...

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask the controller for another ISR."""
        ...

    def followed_by(self, brokers: Iterable[int]) -> None:
        """We have begun to lead a partition which these follow: they may come at any moment."""
        ...

    def appends_undone(self, partition: Partition) -> None:
        """Records that were appended could not be written: what was made of them in memory is void."""
        ...

    def when_flushed(self, log: Log, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Flush the log, and call back once everything below `offset` is on the disk."""
        ...


class SingleNodeProgress:
    """The view of a broker without others."""

    is_fenced = False

    def monotonic(self) -> float:
        return 0.0

    def eligible_epoch(self, broker_id: int) -> int | None:
        return None

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        return False

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        """There is nobody who could join."""

    def followed_by(self, brokers: Iterable[int]) -> None:
        """There is nobody who could follow."""

    def appends_undone(self, partition: Partition) -> None:
        """There is nothing in memory."""

    def when_flushed(self, log: Log, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        log.flush()
        callback(ErrorCode.NONE)
