"""`barnabas cluster restore`: a cluster whose brokers are all lost comes back from its object store.

planning    what there is, and what will become of it; nothing is changed
steps       carrying the plan out: the object store first, the metadata of the new cluster last
targets     where the metadata go: the folder of one node, or ZooKeeper
offsets     committed offsets, bounded by what is there
"""
