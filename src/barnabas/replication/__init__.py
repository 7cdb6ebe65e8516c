"""Partitions of this broker as leader and follower: ISR, high watermark, delayed operations and durability.

Entry points: `manager.ReplicaManager` (all partitions, kept in step with the metadata image), `partition.Partition`,
`durability.Durability` (acks=all), `delayed.DelayedOperation` and `fetch_sessions.FetchSessions`. `fetcher` follows one
leader, `follower` applies its responses, `flusher` groups fsyncs and `isr` sends AlterPartition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.replication.cold_reads import ColdReads
    from barnabas.replication.delayed import DelayedOperation, TimerLoop
    from barnabas.replication.durability import Durability
    from barnabas.replication.fetch_sessions import (
        FINAL_EPOCH,
        INITIAL_EPOCH,
        MAX_WAIT_MS,
        NO_REPLICA,
        NO_SESSION,
        TOPIC_IDS_SINCE,
        WITHOUT_SESSION,
        FetchEntry,
        FetchSession,
        FetchSessions,
    )
    from barnabas.replication.fetcher import BrokerIdentity, ReplicaFetchSettings
    from barnabas.replication.fetchers import ReplicaFetchers
    from barnabas.replication.inspections import Inspections
    from barnabas.replication.isr import IsrChanges
    from barnabas.replication.log_configs import LogConfigs
    from barnabas.replication.log_dir_moves import ReplicaMoves
    from barnabas.replication.manager import Partitions, ReplicaManager
    from barnabas.replication.mirrored import Admitted, admit
    from barnabas.replication.mirrors import Mirrors
    from barnabas.replication.partition import ALL_REPLICAS, NO_EPOCH, Partition
    from barnabas.replication.progress import IsrProposal
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "cold_reads": "ColdReads",
            "delayed": "DelayedOperation TimerLoop",
            "durability": "Durability",
            "fetch_sessions": (
                "FINAL_EPOCH FetchEntry FetchSession FetchSessions INITIAL_EPOCH MAX_WAIT_MS NO_REPLICA "
                "NO_SESSION TOPIC_IDS_SINCE WITHOUT_SESSION"
            ),
            "fetcher": "BrokerIdentity ReplicaFetchSettings",
            "fetchers": "ReplicaFetchers",
            "inspections": "Inspections",
            "isr": "IsrChanges",
            "log_configs": "LogConfigs",
            "log_dir_moves": "ReplicaMoves",
            "manager": "Partitions ReplicaManager",
            "mirrored": "Admitted admit",
            "mirrors": "Mirrors",
            "partition": "ALL_REPLICAS NO_EPOCH Partition",
            "progress": "IsrProposal",
        },
    )

__all__ = [
    "ALL_REPLICAS",
    "FINAL_EPOCH",
    "INITIAL_EPOCH",
    "MAX_WAIT_MS",
    "NO_EPOCH",
    "NO_REPLICA",
    "NO_SESSION",
    "TOPIC_IDS_SINCE",
    "WITHOUT_SESSION",
    "Admitted",
    "BrokerIdentity",
    "ColdReads",
    "DelayedOperation",
    "Durability",
    "FetchEntry",
    "FetchSession",
    "FetchSessions",
    "Inspections",
    "IsrChanges",
    "IsrProposal",
    "LogConfigs",
    "Mirrors",
    "Partition",
    "Partitions",
    "ReplicaFetchSettings",
    "ReplicaFetchers",
    "ReplicaManager",
    "ReplicaMoves",
    "TimerLoop",
    "admit",
]
