"""What only clusters on ZooKeeper need.

kazoo_client.py  the only importer of kazoo; types.py: values and errors of our own
session.py       the bridge between the event loop and kazoo's threads
settings.py      addresses, credentials and TLS
store.py         MetadataStore over ZooKeeper; layout.py, chunks.py: its nodes
membership.py    Membership over ZooKeeper; registration.py, election.py: its nodes; polling.py: reading them again
identity.py      whether ZooKeeper holds our cluster
adoption.py      the metadata of a node that ran alone, moved into ZooKeeper
process.py       a ZooKeeper to try things with
"""
