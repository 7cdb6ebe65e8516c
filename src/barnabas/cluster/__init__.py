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
    from barnabas.cluster.adoption import adopt as adopt
    from barnabas.cluster.difference import changed_topics as changed_topics
    from barnabas.cluster.difference import deleted_topics as deleted_topics
    from barnabas.cluster.follower import CommitCallback as CommitCallback
    from barnabas.cluster.follower import MetadataFollower as MetadataFollower
    from barnabas.cluster.membership import BrokerInfo as BrokerInfo
    from barnabas.cluster.membership import Brokers as Brokers
    from barnabas.cluster.membership import ClusterConnection as ClusterConnection
    from barnabas.cluster.membership import Elected as Elected
    from barnabas.cluster.membership import LocalMembership as LocalMembership
    from barnabas.cluster.membership import Membership as Membership
    from barnabas.cluster.membership import Told as Told
    from barnabas.cluster.mirrors import NEW_PARTITION as NEW_PARTITION
    from barnabas.cluster.mirrors import TAKES_BATCHES as TAKES_BATCHES
    from barnabas.cluster.mirrors import Aborted as Aborted
    from barnabas.cluster.mirrors import MirrorPartition as MirrorPartition
    from barnabas.cluster.mirrors import MirrorTopic as MirrorTopic
    from barnabas.cluster.names import can_collide as can_collide
    from barnabas.cluster.names import check_topic_name as check_topic_name
    from barnabas.cluster.names import collision_index as collision_index
    from barnabas.cluster.names import collision_key as collision_key
    from barnabas.cluster.names import topic_name_error as topic_name_error
    from barnabas.cluster.peers import Answer as Answer
    from barnabas.cluster.peers import LocalPeers as LocalPeers
    from barnabas.cluster.peers import Locate as Locate
    from barnabas.cluster.peers import NetworkPeers as NetworkPeers
    from barnabas.cluster.peers import NodePeers as NodePeers
    from barnabas.cluster.peers import PeerAddresses as PeerAddresses
    from barnabas.cluster.peers import Peers as Peers
    from barnabas.cluster.processes import MAX_PROCESSES as MAX_PROCESSES
    from barnabas.cluster.processes import Hold as Hold
    from barnabas.cluster.processes import Holds as Holds
    from barnabas.cluster.processes import HoldService as HoldService
    from barnabas.cluster.processes import NodeProcess as NodeProcess
    from barnabas.cluster.processes import broker_of as broker_of
    from barnabas.cluster.processes import check_node_id as check_node_id
    from barnabas.cluster.processes import have_one_node as have_one_node
    from barnabas.cluster.processes import is_on_node as is_on_node
    from barnabas.cluster.processes import node_of as node_of
    from barnabas.cluster.processes import number_of as number_of
    from barnabas.cluster.processes import represented as represented
    from barnabas.cluster.snapshots import ACLS_PER_DELTA as ACLS_PER_DELTA
    from barnabas.cluster.snapshots import DamagedMetadataError as DamagedMetadataError
    from barnabas.cluster.snapshots import MetadataEntry as MetadataEntry
    from barnabas.cluster.snapshots import decode_entries as decode_entries
    from barnabas.cluster.snapshots import encode_entry as encode_entry
    from barnabas.cluster.snapshots import image_from_snapshot as image_from_snapshot
    from barnabas.cluster.snapshots import snapshot_of as snapshot_of
    from barnabas.cluster.store import METADATA_FOLDER as METADATA_FOLDER
    from barnabas.cluster.store import FileMetadataStore as FileMetadataStore
    from barnabas.cluster.store import MetadataStore as MetadataStore
    from barnabas.cluster.store import OnEntry as OnEntry
    from barnabas.cluster.store import SerialExecutor as SerialExecutor
    from barnabas.cluster.store import StaleControllerError as StaleControllerError
else:
    __getattr__ = lazy_exports(__name__)
