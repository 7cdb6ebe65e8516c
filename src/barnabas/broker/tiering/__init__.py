"""Tiered storage of a broker: the object store, its readers, and a writer for each partition that the broker leads.

tiering              remote logs of all partitions
no_tiering           the same interface for a broker without an object store
leader_log           log of a led partition, as seen by its remote writer
followers            followers that start at the tiered end, and the upload progress of their leaders
restored_partitions  logs of restored partitions, initialized from the object store
compacted_restore    recovery of lost compacted logs
cluster_snapshots    snapshots of cluster metadata and committed offsets in the object store
deletions            objects of topics that are deleted or no longer tiered
settings             broker settings converted to values
monitoring           metrics
status               status reported to clients
"""
