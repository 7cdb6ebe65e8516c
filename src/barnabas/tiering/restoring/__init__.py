"""What a cluster writes down of itself in the object store, and how it comes back from there.

incarnation    how often a cluster was restored: what earlier incarnations write is refused
state          metadata (`cluster/`) and committed offsets (`groups/`), written down by a cluster that runs
discovery      which clusters and partitions a bucket holds
partitions     looking at the manifests of all partitions, and claiming them for the restored cluster
"""
