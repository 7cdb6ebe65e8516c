"""Tiered storage of a broker: the object store, its readers, and a writer for each leader partition.

tiering              all remote parts of a broker
no_tiering           their replacement in a broker without an object store
leader_log           interface of a leader's log for its remote writer
followers            logs that start at the tiered end offset, and the tiered end offsets of their leaders
restored_partitions  logs of restored partitions, started from the manifest
compacted_restore    compacted logs that were lost, downloaded from the store
cluster_snapshots    cluster state and committed offsets, saved to the store
deletions            objects of deleted topics, and of topics that are no longer tiered
settings             values of Kafka's settings
monitoring           metrics
status               responses about tiering for clients
needs                protocols for the parts of the broker
"""
