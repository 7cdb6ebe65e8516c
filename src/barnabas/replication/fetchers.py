"""One fetcher per leader, kept in step with the state of the partitions."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.cluster import Peers
from barnabas.cluster.image import NO_LEADER
from barnabas.common.clock import Clock, TurnLimit
from barnabas.replication.fetcher import BrokerIdentity, LeaderFetcher, ReplicaFetchSettings
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import FollowerThrottles


class ReplicaFetchers:
    def __init__(
        self,
        peers: Peers,
        identity: Callable[[], BrokerIdentity],
        settings: Callable[[], ReplicaFetchSettings],
        clock: Clock,
        throttles: FollowerThrottles,
        turn_limit: TurnLimit,
        moved_to_tiers: Callable[[Partition], None] = lambda partition: None,
        waits_for_tiers: Callable[[Partition], bool] = lambda partition: False,
    ) -> None:
        """`moved_to_tiers` is called when a leader reports that a partition's next records are in remote segments;
        `waits_for_tiers` returns True if an empty log must not take records yet, because it may start after those."""
        self._peers = peers
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._throttles = throttles
        self._turn_limit = turn_limit
        self._moved_to_tiers = moved_to_tiers
        self._waits_for_tiers = waits_for_tiers
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._followed: dict[Partition, LeaderFetcher] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch the partition from its current leader, or stop if it has none."""
        before = self._followed.get(partition)
        state = partition.state
        is_settled = not (partition.is_retired or partition.is_unsettled or partition.is_recovering)
        follows = state is not None and is_settled and not partition.is_leader
        if before is not None:
            if follows and before.follows(partition):
                return  # only its ISR has changed
            before.remove(partition)
            del self._followed[partition]
        if state is None or not follows or state.leader == NO_LEADER:
            return
        fetcher = self._fetchers.get(state.leader)
        if fetcher is None:
            fetcher = LeaderFetcher(
                state.leader,
                self._peers,
                self._identity,
                self._settings,
                self._clock,
                self._throttles,
                self._turn_limit,
                self._moved_to_tiers,
                self._waits_for_tiers,
            )
            self._fetchers[state.leader] = fetcher
        fetcher.add(partition)
        self._followed[partition] = fetcher

    def stop(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()
