"""`barnabas cluster restore`: rebuilds a cluster from its object store after the loss of all brokers.

plan        contents of the object store, and the resulting cluster; read-only
steps       execution of the plan: the object store first, the metadata of the new cluster last
targets     destinations of the metadata: the folder of a standalone node, or ZooKeeper
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.broker.restore.plan import RestorePlan as RestorePlan
    from barnabas.broker.restore.plan import RestoreProgress as RestoreProgress
    from barnabas.broker.restore.plan import RestoreRefusedError as RestoreRefusedError
    from barnabas.broker.restore.plan import choose_cluster as choose_cluster
    from barnabas.broker.restore.plan import make_plan as make_plan
    from barnabas.broker.restore.steps import Restored as Restored
    from barnabas.broker.restore.steps import restore_cluster as restore_cluster
    from barnabas.broker.restore.targets import FolderTarget as FolderTarget
    from barnabas.broker.restore.targets import RestoreTarget as RestoreTarget
    from barnabas.broker.restore.targets import ZooKeeperTarget as ZooKeeperTarget
else:
    __getattr__ = lazy_exports(__name__)
