"""What the cluster knows: the metadata image, the log of its changes, and the way to other brokers.

image.py   the immutable snapshot: brokers, topics, partitions, configs, features
deltas.py  the changes, and `apply(image, deltas) -> image`
names.py   which topic names are legal, which collide, which are internal
frames.py  how one entry of the metadata log looks in a file
store.py   MetadataStore: the log with one writer; over a file, and an in-memory twin
following.py  every broker follows that log and gets the same images
membership.py Membership: who is alive and who is the controller; that of one node
memory.py  a store and a membership that several brokers of one process share
turns.py   one writer at a time, each to its end
peers.py   requests to other brokers
adoption.py, kraft.py  topics of a data folder that Apache Kafka wrote

zookeeper.py               kazoo, and the only importer of it
zookeeper_session.py       the bridge between the loop and kazoo's threads; zookeeper_types.py: its values and errors
zookeeper_settings.py      addresses, credentials and TLS
zookeeper_store.py         MetadataStore over ZooKeeper; zookeeper_layout.py, zookeeper_chunks.py: its nodes
zookeeper_membership.py    Membership over ZooKeeper; zookeeper_registration.py, zookeeper_election.py: its nodes
zookeeper_adoption.py      the metadata of a node that ran alone, moved into ZooKeeper
zookeeper_identity.py      whether ZooKeeper holds our cluster
difference.py              the deltas between two images, for who missed entries
zookeeper_coordination.py  all of this put together for a broker
zookeeper_look.py          looking again and again
zookeeper_process.py       a ZooKeeper to try things with
"""
