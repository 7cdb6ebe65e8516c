"""Cluster state in the object store, and restore of a lost cluster from it.

state          metadata (`cluster/`) and committed offsets (`groups/`) of a running cluster
discovery      clusters and partitions of a bucket; incarnations
partitions     checks the manifests of all partitions and claims them for the restored cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.restoring.discovery import (
        DamagedStateError,
        begin_incarnation,
        find_clusters,
        find_partitions,
        raise_incarnation,
        read_incarnation,
    )
    from barnabas.tiering.restoring.partitions import RestoredPartition, for_each, look, take
    from barnabas.tiering.restoring.state import (
        ClusterState,
        SavedGroupOffset,
        SavedGroupState,
        encode_group_state,
        read_cluster_state,
        read_group_state,
        write_cluster_state,
        write_group_state,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "discovery": (
                "DamagedStateError begin_incarnation find_clusters find_partitions raise_incarnation "
                "read_incarnation"
            ),
            "partitions": "RestoredPartition for_each look take",
            "state": (
                "ClusterState SavedGroupOffset SavedGroupState encode_group_state read_cluster_state "
                "read_group_state write_cluster_state write_group_state"
            ),
        },
    )

__all__ = [
    "ClusterState",
    "DamagedStateError",
    "RestoredPartition",
    "SavedGroupOffset",
    "SavedGroupState",
    "begin_incarnation",
    "encode_group_state",
    "find_clusters",
    "find_partitions",
    "for_each",
    "look",
    "raise_incarnation",
    "read_cluster_state",
    "read_group_state",
    "read_incarnation",
    "take",
    "write_cluster_state",
    "write_group_state",
]
