"""Partitions of this broker as leader and follower: ISR, high watermark, delayed operations and durability.

Entry points: `manager.ReplicaManager` (all partitions, kept in step with the metadata image), `partition.Partition`,
`durability.Durability` (acks=all), `delayed.DelayedOperation` and `fetch_sessions.FetchSessions`. `Partition.read`
returns data, or a `ColdRead` that `ColdReads.load` waits for: data on disk, or in a remote segment. `fetcher` follows a
leader, `follower` applies its responses, `flusher` groups fsyncs and `isr` sends AlterPartition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.replication.cold_reads import NONE_ABORTED as NONE_ABORTED
    from barnabas.replication.cold_reads import ColdRead as ColdRead
    from barnabas.replication.cold_reads import ColdReads as ColdReads
    from barnabas.replication.cold_reads import Loaded as Loaded
    from barnabas.replication.delayed import DelayedOperation as DelayedOperation
    from barnabas.replication.delayed import TimerLoop as TimerLoop
    from barnabas.replication.durability import Durability as Durability
    from barnabas.replication.fetch_sessions import FINAL_EPOCH as FINAL_EPOCH
    from barnabas.replication.fetch_sessions import INITIAL_EPOCH as INITIAL_EPOCH
    from barnabas.replication.fetch_sessions import MAX_WAIT_MS as MAX_WAIT_MS
    from barnabas.replication.fetch_sessions import NO_REPLICA as NO_REPLICA
    from barnabas.replication.fetch_sessions import NO_SESSION as NO_SESSION
    from barnabas.replication.fetch_sessions import TOPIC_IDS_SINCE as TOPIC_IDS_SINCE
    from barnabas.replication.fetch_sessions import WITHOUT_SESSION as WITHOUT_SESSION
    from barnabas.replication.fetch_sessions import FetchEntry as FetchEntry
    from barnabas.replication.fetch_sessions import FetchSession as FetchSession
    from barnabas.replication.fetch_sessions import FetchSessions as FetchSessions
    from barnabas.replication.fetcher import BrokerIdentity as BrokerIdentity
    from barnabas.replication.fetcher import ReplicaFetchSettings as ReplicaFetchSettings
    from barnabas.replication.fetchers import ReplicaFetchers as ReplicaFetchers
    from barnabas.replication.flusher import BackgroundThread as BackgroundThread
    from barnabas.replication.flusher import Flusher as Flusher
    from barnabas.replication.inspections import Inspections as Inspections
    from barnabas.replication.isr import IsrChanges as IsrChanges
    from barnabas.replication.log_configs import LogConfigs as LogConfigs
    from barnabas.replication.log_dir_moves import ReplicaMoves as ReplicaMoves
    from barnabas.replication.manager import Partitions as Partitions
    from barnabas.replication.manager import ReplicaManager as ReplicaManager
    from barnabas.replication.mirrored import Admitted as Admitted
    from barnabas.replication.mirrored import admit as admit
    from barnabas.replication.mirrors import Mirrors as Mirrors
    from barnabas.replication.partition import ALL_REPLICAS as ALL_REPLICAS
    from barnabas.replication.partition import NO_EPOCH as NO_EPOCH
    from barnabas.replication.partition import Partition as Partition
    from barnabas.replication.progress import ClusterView as ClusterView
    from barnabas.replication.progress import IsrProposal as IsrProposal
    from barnabas.replication.throttle import FollowerThrottles as FollowerThrottles
    from barnabas.replication.throttle import ReplicationQuota as ReplicationQuota
    from barnabas.replication.throttle import is_throttled as is_throttled
    from barnabas.replication.tiered_reads import RemoteLimits as RemoteLimits
    from barnabas.replication.tiered_reads import TieredReads as TieredReads
    from barnabas.replication.transfers import PartitionTransfers as PartitionTransfers
else:
    __getattr__ = lazy_exports(__name__)
