"""MetadataStore and Membership on ZooKeeper, for clusters of several brokers.

kazoo_client.py  the only importer of kazoo; types.py: request and result types, errors
session.py       the bridge between the event loop and kazoo's threads
settings.py      addresses, credentials and TLS
store.py         MetadataStore on ZooKeeper; layout.py, chunks.py: its nodes
membership.py    Membership on ZooKeeper; registration.py, election.py: its nodes; polling.py: periodic reads
adoption.py      import of the metadata of a single node or a restored cluster
protection.py    ACLs on existing nodes
process.py       a ZooKeeper child process, for trials and tests; jars.py: its jars
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.cluster.zookeeper.adoption import adopt_into as adopt_into
    from barnabas.cluster.zookeeper.jars import NoZooKeeperError as NoZooKeeperError
    from barnabas.cluster.zookeeper.jars import install_jars as install_jars
    from barnabas.cluster.zookeeper.membership import ZooKeeperConnection as ZooKeeperConnection
    from barnabas.cluster.zookeeper.process import ZooKeeperProcess as ZooKeeperProcess
    from barnabas.cluster.zookeeper.protection import protect as protect
    from barnabas.cluster.zookeeper.registration import ClusterIdentity as ClusterIdentity
    from barnabas.cluster.zookeeper.session import ZooKeeper as ZooKeeper
    from barnabas.cluster.zookeeper.settings import ZooKeeperSettings as ZooKeeperSettings
    from barnabas.cluster.zookeeper.settings import check_hides_secrets as check_hides_secrets
    from barnabas.cluster.zookeeper.settings import zookeeper_settings as zookeeper_settings
    from barnabas.cluster.zookeeper.types import ZooKeeperError as ZooKeeperError
else:
    __getattr__ = lazy_exports(__name__)
