"""ACLs for existing ZooKeeper nodes that were created without them: `barnabas cluster secure`.

With zookeeper.set.acl, brokers create nodes that only they can change; other clients may read what is public in Kafka,
too: the brokers, the controller, the cluster id. Existing nodes get the same ACLs here.
"""

from __future__ import annotations

from barnabas.cluster.zookeeper.layout import HEAD, LOG, PARTS, ROOT, SNAPSHOT, SNAPSHOTS
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import NoNodeError

OURS = (ROOT, "/brokers", "/cluster", "/controller", "/controller_epoch")
_PRIVATE = (HEAD, SNAPSHOT)
_PRIVATE_BELOW = (f"{LOG}/", f"{PARTS}/", f"{SNAPSHOTS}/")


def is_public(path: str) -> bool:
    """True if other clients may read the node; nodes with metadata are for brokers only."""
    return path not in _PRIVATE and not path.startswith(_PRIVATE_BELOW)


async def protect(zk: ZooKeeper) -> int:
    """Set the ACLs of all nodes of the cluster; return their number."""
    count = 0
    for path in OURS:
        count += await _protect_tree(zk, path)
    if zk.settings.root:
        await zk.set_acl("/", public=True)
        count += 1
    return count


async def _protect_tree(zk: ZooKeeper, path: str) -> int:
    """Set ACLs top down; nodes created meanwhile already have them."""
    try:
        await zk.set_acl(path, public=is_public(path))
        names = await zk.children(path)
    except NoNodeError:  # deleted meanwhile by the log's clean-up
        return 0
    return 1 + sum([await _protect_tree(zk, f"{path}/{name}") for name in names])
