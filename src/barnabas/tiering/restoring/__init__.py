"""Cluster state in the object store, and restore of a lost cluster from it.

state          metadata (`cluster/`) and committed offsets (`groups/`) of a running cluster
discovery      clusters and partitions of a bucket; incarnations
partitions     checks the manifests of all partitions and claims them for the restored cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.restoring.discovery import DamagedStateError as DamagedStateError
    from barnabas.tiering.restoring.discovery import begin_incarnation as begin_incarnation
    from barnabas.tiering.restoring.discovery import find_clusters as find_clusters
    from barnabas.tiering.restoring.discovery import find_partitions as find_partitions
    from barnabas.tiering.restoring.discovery import raise_incarnation as raise_incarnation
    from barnabas.tiering.restoring.discovery import read_incarnation as read_incarnation
    from barnabas.tiering.restoring.partitions import RestoredPartition as RestoredPartition
    from barnabas.tiering.restoring.partitions import for_each as for_each
    from barnabas.tiering.restoring.partitions import look as look
    from barnabas.tiering.restoring.partitions import take as take
    from barnabas.tiering.restoring.state import ClusterState as ClusterState
    from barnabas.tiering.restoring.state import SavedGroupOffset as SavedGroupOffset
    from barnabas.tiering.restoring.state import SavedGroupState as SavedGroupState
    from barnabas.tiering.restoring.state import encode_group_state as encode_group_state
    from barnabas.tiering.restoring.state import read_cluster_state as read_cluster_state
    from barnabas.tiering.restoring.state import read_group_state as read_group_state
    from barnabas.tiering.restoring.state import write_cluster_state as write_cluster_state
    from barnabas.tiering.restoring.state import write_group_state as write_group_state
else:
    __getattr__ = lazy_exports(__name__)
