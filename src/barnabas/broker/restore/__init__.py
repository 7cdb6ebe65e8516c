"""`barnabas cluster restore`: rebuilds a cluster from its object store after the loss of all brokers.

plan        contents of the object store, and the resulting cluster; read-only
steps       execution of the plan: the object store first, the metadata of the new cluster last
targets     destinations of the metadata: the folder of a standalone node, or ZooKeeper
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
