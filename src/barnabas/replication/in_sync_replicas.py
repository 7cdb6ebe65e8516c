"""The ISR of a partition on its leader: follower progress, ISR proposals and the high watermark.

The high watermark follows the slowest member of the *maximal* ISR: the committed ISR and the members that the
controller was asked to add. A member leaves it only once the controller has committed that. It advances only while
the committed ISR has at least min.insync.replicas members, so that a replica that leaves the ISR then still has all
committed records (KIP-966). If consumers see only flushed records (`barnabas.visible`), it is also limited by the
leader's flushed offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.cluster import MirrorTopic
from barnabas.cluster.image import PartitionState, effective_min_isr
from barnabas.common.errors import ErrorCode
from barnabas.log import Log
from barnabas.replication.progress import (
    NO_LIMIT,
    UNKNOWN_OFFSET,
    ClusterView,
    Follower,
    Followers,
    IsrProposal,
)
from barnabas.replication.watchers import PartitionWatchers

FLUSHED: Final = "flushed"  # barnabas.visible


class InSyncReplicas(PartitionWatchers):
    """The followers of a partition. Moves the high watermark while this broker leads."""

    __slots__ = (
        "_can_commit", "_cluster", "_commits_alone", "_epoch_start", "_flushing_to", "_followers", "_is_writable",
        "_maximal_isr", "_shows_flushed_only", "broker_id", "has_enough_in_sync", "is_leader", "is_single_host", "log",
        "mirror", "proposal", "state",
    )  # fmt: skip

    def __init__(self, log: Log, broker_id: int, cluster: ClusterView) -> None:
        super().__init__()
        self.log = log
        self.broker_id = broker_id
        self.is_leader = False
        self.is_single_host = True
        """True if only this host holds the records that are acknowledged now."""
        self.has_enough_in_sync = True
        self.state: PartitionState | None = None
        self.proposal: IsrProposal | None = None
        self._cluster = cluster
        self.mirror: MirrorTopic | None = None
        """True if the topic is, or was, a mirror."""
        self._can_commit = False
        """True if this broker leads, as far as it knows."""
        self._is_writable = False
        """True if it leads and clients may write."""
        self._commits_alone = False
        self._shows_flushed_only = False
        self._flushing_to = 0
        self._maximal_isr: tuple[int, ...] = ()
        self._epoch_start = 0
        self._followers = Followers()

    @property
    def end_is_known(self) -> bool:
        """Return True if the high watermark has passed the log end at the start of this leader epoch. Before that
        it may be behind what an earlier leader exposed to consumers (KIP-207)."""
        return self.log.high_watermark >= self._epoch_start

    def _recompute_flags(self) -> None:
        """Recompute the flags that every append reads, from state, proposal and settings."""
        state = self.state
        if state is None:
            return
        added = self.proposal.isr if self.proposal is not None else ()
        self._maximal_isr = tuple(dict.fromkeys((*state.isr, *added)))
        needed = effective_min_isr(self.log.config.min_insync_replicas, len(state.replicas))
        self.has_enough_in_sync = len(state.isr) >= needed
        self._can_commit = self.is_leader and not self._cluster.is_fenced
        self._is_writable = self._can_commit and (self.mirror is None or self.mirror.is_own)
        self._shows_flushed_only = self.log.config.barnabas_visible == FLUSHED
        self._commits_alone = (
            self._maximal_isr == (self.broker_id,)
            and self.has_enough_in_sync
            and not self._shows_flushed_only
        )
        self._recompute_hosts(state)

    def _recompute_hosts(self, state: PartitionState) -> None:
        self.is_single_host = len(state.isr) <= 1 or self._cluster.on_one_host(state.isr)

    # -- followers ----------------------------------------------------------------------------------

    def is_in_sync(self, replica: int) -> bool:
        return self.state is not None and replica in self.state.isr

    def is_assigned(self, replica: int) -> bool:
        return self.state is not None and replica in self.state.replicas

    def follower_reached(self, replica: int, end_offset: int, broker_epoch: int) -> None:
        """Record a follower's fetch from `end_offset`: it holds everything below."""
        follower = self._followers.get(replica)
        if follower is None:
            follower = self._followers[replica] = Follower(self._cluster.monotonic())
        follower.reached(end_offset, self.log.offsets.written, broker_epoch, self._cluster.monotonic())
        if replica in self._maximal_isr:
            self._commit()
        elif self._has_caught_up(replica, follower):
            self._propose((*self._committed_isr(), replica))

    def _has_caught_up(self, replica: int, follower: Follower) -> bool:
        return (
            self.proposal is None
            and self.is_leader
            and follower.end_offset >= max(self.log.high_watermark, self._epoch_start)
            and follower.broker_epoch == self._cluster.eligible_epoch(replica)
        )

    def review_isr(self, max_lag: float, max_lag_records: int = NO_LIMIT) -> None:
        """Propose an ISR without followers that were not caught up for more than `max_lag` seconds, or lack more
        than `max_lag_records` records in two reviews, and with those that have caught up: one that was not eligible at
        that time does not report again."""
        if not self.is_leader or not self._followers or self.proposal is not None:
            return
        now, written = self._cluster.monotonic(), self.log.offsets.written
        isr = self._committed_isr()
        behind = self._followers.behind(isr, written, now, max_lag)
        behind |= self._followers.far_behind(isr, written, max_lag_records)
        staying = [member for member in isr if member == self.broker_id or member not in behind]
        coming = [
            replica
            for replica, follower in self._followers.items()
            if replica not in isr
            and self.is_assigned(replica)
            and self._has_caught_up(replica, follower)
            and follower.keeps_up(written, now, max_lag)
        ]
        if coming or len(staying) < len(isr):
            self._propose((*staying, *coming))

    def _committed_isr(self) -> tuple[int, ...]:
        return self.state.isr if self.state is not None else ()

    def _propose(self, isr: tuple[int, ...]) -> None:
        """Ask the controller for this ISR."""
        raise NotImplementedError

    def refused(self, proposal: IsrProposal) -> None:
        """Drop a proposal that the controller has rejected for good."""
        if self.proposal is proposal:
            self.proposal = None
            self._recompute_flags()
            self._commit()

    def _forget_lost(self, departed: set[int]) -> None:
        """Forget the progress of a replica that left the ISR without a proposal although its broker is up: it has
        lost its disk."""
        proposed = set(self.proposal.isr) if self.proposal is not None else departed
        for replica in departed & proposed:
            follower = self._followers.get(replica)
            if follower is not None and self._cluster.eligible_epoch(replica) is not None:
                follower.end_offset = UNKNOWN_OFFSET

    def in_sync_followers(self) -> Iterator[tuple[int, int]]:
        """(broker id, log end) of the known followers in the ISR."""
        return self._followers.ends_of(self._committed_isr())

    # -- committing ---------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Advance the high watermark to the smallest log end of the maximal ISR."""
        if not self.has_enough_in_sync or not self.is_leader:
            return
        committed = self._followers.least_end(self._maximal_isr, self.broker_id, self.log.offsets.written)
        if self._shows_flushed_only:
            committed = self._flushed_of(committed)
        if committed > self.log.high_watermark:
            self.log.advance_high_watermark(committed)
            self._high_watermark_moved()

    def _flushed_of(self, end: int) -> int:
        """The flushed offset, up to `end`; the rest is being flushed."""
        if end > max(self.log.flushed_offset, self._flushing_to):
            self._flushing_to = end
            self._cluster.when_flushed(self.log, end, self._flushed)
        return min(end, self.log.flushed_offset)

    def _flushed(self, error: ErrorCode) -> None:
        self._flushing_to = 0
        if not error:
            self._commit()

    def _high_watermark_moved(self) -> None:
        if self._awaiting_commit:
            self._answer(self._awaiting_commit, self.log.offsets.high_watermark)
        for watcher in self._replica_watchers:
            watcher.high_watermark_moved()
        if self._watchers:
            self._notify_watchers(1)
