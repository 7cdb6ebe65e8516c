"""What the cluster knows: the metadata image, the log of its changes, and the way to other brokers.

image.py        the immutable snapshot: brokers, topics, partitions, configs, features
deltas.py       the changes, and `apply(image, deltas) -> image`
difference.py   the deltas between two images, for a broker that missed entries
features.py     features and their levels, that of the metadata among them
names.py        which topic names are legal, and which collide
frames.py       how one entry of the metadata log looks in a file
store.py        MetadataStore: the log with one writer; over a file, and an in-memory twin
following.py    every broker follows that log and gets the same images
membership.py   Membership: which brokers are alive, which is the controller; that of one node
peers.py        requests to other brokers
adoption.py, kraft.py  topics of a data folder that Apache Kafka wrote
zookeeper/      MetadataStore and Membership over ZooKeeper
"""
