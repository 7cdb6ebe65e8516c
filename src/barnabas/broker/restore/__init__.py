"""`barnabas cluster restore`: a cluster whose brokers are all lost comes back from its object store.

plan        reads the object store and plans the new cluster; changes nothing
steps       executes the plan: the object store first, the metadata of the new cluster last
targets     destination of the metadata: the folder of one node, or ZooKeeper
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.broker.restore.plan import RestorePlan, RestoreRefusedError, Tell, choose_cluster, make_plan
    from barnabas.broker.restore.steps import Restored, restore_cluster
    from barnabas.broker.restore.targets import FolderTarget, RestoreTarget, ZooKeeperTarget
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "plan": "RestorePlan RestoreRefusedError Tell choose_cluster make_plan",
            "steps": "Restored restore_cluster",
            "targets": "FolderTarget RestoreTarget ZooKeeperTarget",
        },
    )

__all__ = [
    "FolderTarget",
    "RestorePlan",
    "RestoreRefusedError",
    "RestoreTarget",
    "Restored",
    "Tell",
    "ZooKeeperTarget",
    "choose_cluster",
    "make_plan",
    "restore_cluster",
]
