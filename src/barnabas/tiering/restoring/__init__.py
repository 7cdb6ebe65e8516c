"""Cluster state in the object store, and restore of a lost cluster from it.

state          metadata (`cluster/`) and committed offsets (`groups/`) of a running cluster
discovery      clusters and partitions of a bucket; incarnations
partitions     checks the manifests of all partitions and claims them for the restored cluster
"""
