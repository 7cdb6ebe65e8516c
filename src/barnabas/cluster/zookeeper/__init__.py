"""MetadataStore and Membership on ZooKeeper, for clusters of several brokers.

kazoo_client.py  the only importer of kazoo; types.py: request and result types, errors
session.py       the bridge between the event loop and kazoo's threads
settings.py      addresses, credentials and TLS
store.py         MetadataStore on ZooKeeper; layout.py, chunks.py: its nodes
membership.py    Membership on ZooKeeper; registration.py, election.py: its nodes; polling.py: periodic reads
adoption.py      import of the metadata of a single node or a restored cluster
protection.py    ACLs on existing nodes
process.py       a ZooKeeper child process, for trials and tests
"""
