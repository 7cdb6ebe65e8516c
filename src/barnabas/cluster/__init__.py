"""Cluster metadata: the image, the log of its changes, membership, and requests to other brokers.

image.py        the immutable image: brokers, topics, partitions, configs, features
draft.py        a mutable copy of an image, while deltas are applied
deltas.py       the changes, and `apply(image, deltas) -> image`
difference.py   the deltas between two images, for a broker that missed entries
snapshots.py    encoding of log entries in a file, and an image as a list of deltas
features.py     features and their levels, including the metadata level
mirrors.py      state of mirror topics
names.py        valid and colliding topic names
store.py        MetadataStore: the log with one writer, in a file or in memory
follower.py     applies the log entries on every broker
membership.py   Membership: live brokers and the controller; the one of a single node
peers.py        requests to other brokers
adoption.py     topics in a data folder written by Apache Kafka
zookeeper/      MetadataStore and Membership on ZooKeeper
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.cluster.adoption import adopt
    from barnabas.cluster.difference import changed_topics, deleted_topics
    from barnabas.cluster.follower import CommitCallback, MetadataFollower
    from barnabas.cluster.membership import (
        BrokerInfo,
        Brokers,
        ClusterConnection,
        Elected,
        LocalMembership,
        Membership,
        Told,
    )
    from barnabas.cluster.mirrors import NEW_PARTITION, TAKES_BATCHES, Aborted, MirrorPartition, MirrorTopic
    from barnabas.cluster.peers import Answer, LocalPeers, Locate, NetworkPeers, PeerAddresses, Peers
    from barnabas.cluster.store import (
        METADATA_FOLDER,
        FileMetadataStore,
        MetadataStore,
        OnEntry,
        SerialExecutor,
        StaleControllerError,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "adoption": "adopt",
            "difference": "changed_topics deleted_topics",
            "follower": "CommitCallback MetadataFollower",
            "membership": "BrokerInfo Brokers ClusterConnection Elected LocalMembership Membership Told",
            "mirrors": "Aborted MirrorPartition MirrorTopic NEW_PARTITION TAKES_BATCHES",
            "peers": "Answer LocalPeers Locate NetworkPeers PeerAddresses Peers",
            "store": "FileMetadataStore METADATA_FOLDER MetadataStore OnEntry SerialExecutor StaleControllerError",
        },
    )

__all__ = [
    "METADATA_FOLDER",
    "NEW_PARTITION",
    "TAKES_BATCHES",
    "Aborted",
    "Answer",
    "BrokerInfo",
    "Brokers",
    "ClusterConnection",
    "CommitCallback",
    "Elected",
    "FileMetadataStore",
    "LocalMembership",
    "LocalPeers",
    "Locate",
    "Membership",
    "MetadataFollower",
    "MetadataStore",
    "MirrorPartition",
    "MirrorTopic",
    "NetworkPeers",
    "OnEntry",
    "PeerAddresses",
    "Peers",
    "SerialExecutor",
    "StaleControllerError",
    "Told",
    "adopt",
    "changed_topics",
    "deleted_topics",
]
