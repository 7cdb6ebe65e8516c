"""ACLs on nodes of ZooKeeper that were made without them: `barnabas cluster secure`.

What brokers create with zookeeper.set.acl belongs to them alone; others may read what Kafka shows, too: who the brokers
are, who the controller is, the cluster's id. What is older gets the same rights here.
"""

from __future__ import annotations

from barnabas.cluster.zookeeper.layout import HEAD, LOG, PARTS, ROOT, SNAPSHOT, SNAPSHOTS
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import NoNodeError

OURS = (ROOT, "/brokers", "/cluster", "/controller", "/controller_epoch")
_PRIVATE = (HEAD, SNAPSHOT)
_PRIVATE_BELOW = (f"{LOG}/", f"{PARTS}/", f"{SNAPSHOTS}/")


def is_public(path: str) -> bool:
    """May others read it? Everything that holds a piece of the metadata is for brokers only."""
    return path not in _PRIVATE and not path.startswith(_PRIVATE_BELOW)


async def protect(zk: ZooKeeper) -> int:
    """Give every node of the cluster the rights that it would be made with now; how many there are."""
    count = 0
    for path in OURS:
        count += await _protect_tree(zk, path)
    if zk.settings.root:
        await zk.set_acl("/", public=True)
        count += 1
    return count


async def _protect_tree(zk: ZooKeeper, path: str) -> int:
    """A node first, then those below: what is made meanwhile has its rights already."""
    try:
        await zk.set_acl(path, public=is_public(path))
        names = await zk.children(path)
    except NoNodeError:  # the log is cleaned up while we walk through it
        return 0
    return 1 + sum([await _protect_tree(zk, f"{path}/{name}") for name in names])
