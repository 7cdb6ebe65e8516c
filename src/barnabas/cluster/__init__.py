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
following.py    applies the log entries on every broker
membership.py   Membership: live brokers and the controller; the one of a single node
peers.py        requests to other brokers
adoption.py     topics in a data folder written by Apache Kafka
zookeeper/      MetadataStore and Membership on ZooKeeper
"""
